"""k-means for several numbers of clusters at once, and their choice as by Cai et al., against
scikit-learn."""

from __future__ import annotations

import hypothesis.extra.numpy as arrays
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from threadpoolctl import threadpool_info, threadpool_limits

from isotropy.metrics import cluster_count, matmul
from isotropy.metrics.kmeans import ROWS, kmeans, lloyd

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((6, 12)) * 3
CLOUD = RNG.standard_normal((2 * ROWS + 300, 12)) + CENTRES[RNG.integers(0, 6, 2 * ROWS + 300)]
NUMBERS = range(1, 12)


def inertia(X: np.ndarray, labels: np.ndarray) -> float:
    """Compute the sum of squared distances to the means, in double precision."""
    points = X.astype(np.float64)
    means = {c: points[labels == c].mean(axis=0) for c in np.unique(labels)}
    return float(sum(((points[labels == c] - mean) ** 2).sum() for c, mean in means.items()))


@pytest.mark.parametrize("seed", [0, 1])
def test_run_with_one_start_equals_scikit_learn(seed: int) -> None:
    """Labels, iterations, inertia and centres are the same."""
    result = kmeans(CLOUD + 5, NUMBERS, seed=seed)
    for k in NUMBERS:
        peer = KMeans(k, n_init=1, random_state=seed).fit(CLOUD + 5)
        assert np.array_equal(result[k].labels, peer.labels_)
        assert result[k].n_iter == peer.n_iter_
        assert result[k].inertia == pytest.approx(inertia(CLOUD, peer.labels_), rel=1e-9)
        assert np.allclose(result[k].centers, peer.cluster_centers_, rtol=0, atol=1e-9)


def test_single_precision_differs_by_rounding_only() -> None:
    single = kmeans(CLOUD.astype(np.float32), NUMBERS)
    for k, run in kmeans(CLOUD, NUMBERS).items():
        assert adjusted_rand_score(single[k].labels, run.labels) > 0.999
        assert single[k].inertia == pytest.approx(run.inertia, rel=1e-6)


def test_tight_clusters_far_from_the_origin_in_single_precision() -> None:
    """Inertia is not lost in rounding errors of squared coordinates."""
    rng = np.random.default_rng(1)
    centres = np.array([[0.0] * 8, [5.0] * 8])[rng.integers(0, 2, 3000)]
    X = (centres + 1e-3 * rng.standard_normal((3000, 8)) + 40).astype(np.float32)
    run = kmeans(X, [2])[2]
    assert run.inertia == pytest.approx(inertia(X, run.labels), rel=1e-3)
    means = [X[run.labels == c].astype(np.float64).mean(axis=0) for c in (0, 1)]
    assert np.allclose(run.centers, means, rtol=0, atol=1e-6)


def test_each_point_a_cluster() -> None:
    X = RNG.permutation(np.arange(12.0))[:, None] ** 2
    run = kmeans(X, [12])[12]
    assert sorted(run.labels) == list(range(12))
    assert run.inertia == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("numbers", [[0, 2], [41], []])
def test_invalid_numbers_of_clusters_are_rejected(numbers: list[int]) -> None:
    with pytest.raises(ValueError, match="from 1 to 40"):
        kmeans(CLOUD[:40], numbers)


@pytest.mark.parametrize("option", ["n_init", "max_iter"])
def test_zero_starts_or_iterations_are_rejected(option: str) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        kmeans(CLOUD[:40], [2], **{option: 0})


def test_best_of_several_starts_is_returned() -> None:
    single_start, ten_starts = kmeans(CLOUD, NUMBERS), kmeans(CLOUD, NUMBERS, n_init=10)
    for k in NUMBERS:
        peer = KMeans(k, n_init=10, random_state=0).fit(CLOUD)
        assert ten_starts[k].inertia <= single_start[k].inertia
        assert ten_starts[k].inertia == pytest.approx(peer.inertia_, rel=0.02)
    assert any(ten_starts[k].inertia < 0.99 * single_start[k].inertia for k in NUMBERS)


@pytest.mark.parametrize(("max_iter", "tol"), [(1, 0), (4, 0), (300, 0), (300, 1e-2)])
def test_lloyd_from_given_centres_equals_scikit_learn(max_iter: int, tol: float) -> None:
    """Runs with different numbers of iterations, and one with empty clusters, whose centres are
    moved to distant points as in scikit-learn."""
    X = CLOUD - CLOUD.mean(axis=0)
    distant_starts = np.vstack([X[:3], np.full((2, 12), 1e3), np.full((1, 12), -1e3)])
    starts = [X[:2].copy(), distant_starts, X[:9].copy(), X[50:59].copy()]
    for start, run in zip(starts, lloyd(X, starts, max_iter=max_iter, tol=tol), strict=True):
        estimator = KMeans(len(start), init=start, n_init=1, max_iter=max_iter, tol=tol)
        peer = estimator.fit(X)
        assert np.array_equal(run.labels, peer.labels_)
        assert run.n_iter == peer.n_iter_
        assert np.allclose(run.centers, peer.cluster_centers_, rtol=0, atol=1e-9)


def test_number_of_threads_does_not_change_a_bit() -> None:
    result = set()
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        runs = kmeans(CLOUD.astype(np.float32), NUMBERS, n_init=2).values()
        result.add(b"".join(run.labels.tobytes() + run.centers.tobytes() for run in runs))
    assert len(result) == 1


SHAPES = st.tuples(st.integers(3, 40), st.integers(1, 4))


@given(
    arrays.arrays(np.float64, SHAPES, elements=st.floats(-5, 5, width=16)),
    st.integers(1, 3),
)
def test_properties(X: np.ndarray, k: int) -> None:
    """Each point has the nearest centre, and inertia does not grow with iterations, also with
    repeated points."""
    result = kmeans(X, [k], max_iter=50)[k]
    squared_distances = ((X[:, None] - result.centers) ** 2).sum(axis=2)
    to_own_centre = squared_distances[np.arange(len(X)), result.labels]
    assert np.allclose(to_own_centre, squared_distances.min(axis=1), rtol=0, atol=1e-9)
    assert result.inertia <= kmeans(X, [k], max_iter=1)[k].inertia + 1e-9
    assert result.inertia == pytest.approx(inertia(X, result.labels), rel=1e-9, abs=1e-9)


LABELS = RNG.integers(0, 4, 900)
CLUSTERED = RNG.standard_normal((900, 10)) + 3 * RNG.standard_normal((4, 10))[LABELS]


def test_silhouettes_equal_scikit_learn() -> None:
    """Silhouettes equal scikit-learn's for the same k-means, and the best k is chosen."""
    result = cluster_count(CLUSTERED, sample_size=None)
    assert result.k == 4
    # Nearly the true clusters
    assert len(set(zip(result.labels, LABELS, strict=True))) <= 8
    for k, score in result.silhouettes.items():
        labels = KMeans(k, n_init=1, random_state=0).fit_predict(CLUSTERED)
        assert score == pytest.approx(silhouette_score(CLUSTERED, labels), abs=1e-9)
    assert set(result.silhouettes) == set(range(2, 16))


def test_ball_is_one_cluster() -> None:
    """If all silhouettes are below 0.1, the cloud counts as one cluster."""
    result = cluster_count(RNG.standard_normal((600, 40)), k_range=range(2, 6))
    assert max(result.silhouettes.values()) < 0.1
    assert result.k == 1
    assert set(result.labels) == {0}


def test_sample_and_seed() -> None:
    """Silhouettes on a sample are near those of all points; the same seed gives the same result."""
    sampled = cluster_count(CLUSTERED, sample_size=300, k_range=[2, 4], seed=5)
    again = cluster_count(CLUSTERED, sample_size=300, k_range=[4, 2], seed=5)
    assert sampled.silhouettes == again.silhouettes
    assert np.array_equal(sampled.labels, again.labels)
    unsampled = cluster_count(CLUSTERED, sample_size=None, k_range=[2, 4], seed=5)
    assert sampled.silhouettes != unsampled.silhouettes
    assert sampled.silhouettes[4] == pytest.approx(unsampled.silhouettes[4], abs=0.05)


@pytest.mark.parametrize(
    ("X", "k_range", "message"),
    [
        (CLUSTERED, [1, 2], "k_range"),
        (CLUSTERED[:10], range(2, 16), "k_range"),
        (CLUSTERED, [], "k_range"),
        (np.repeat(np.eye(3), 10, axis=0), [2, 5], "too few different"),
    ],
)
def test_impossible_numbers_of_clusters_are_rejected(
    X: np.ndarray, k_range: list[int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_count(X, k_range=k_range)


def test_cluster_missed_by_the_sample_gives_no_score() -> None:
    """For k = 2 a distant point is a cluster; a sample without it has no silhouette, so another k
    is chosen."""
    X = np.vstack([CLUSTERED, np.full((1, 10), 1e4)])
    result = cluster_count(X, k_range=[2, 5], sample_size=100)
    assert np.isnan(result.silhouettes[2])
    assert result.k == 5
    with pytest.raises(ValueError, match="sample_size"):
        cluster_count(X, k_range=[2], sample_size=100)


def openmp_threads() -> list[int]:
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "openmp"]


def test_ordered_threads_limits_openmp_to_two() -> None:
    """k-means adds its threads' sums in the order in which they end; two commute."""
    with threadpool_limits(4, user_api="openmp"):
        before = openmp_threads()
        with matmul.two_openmp_threads():
            assert max(openmp_threads()) == 2
        assert openmp_threads() == before
    with threadpool_limits(1, user_api="openmp"), matmul.two_openmp_threads():
        assert set(openmp_threads()) == {1}
