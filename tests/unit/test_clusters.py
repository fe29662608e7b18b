"""cluster_count against scikit-learn, step by step as Cai et al. describe it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score

from isotropy.metrics import cluster_count

RNG = np.random.default_rng(0)
CENTRES = RNG.standard_normal((4, 10)) * 3
LABELS = RNG.integers(0, 4, 900)
CLUSTERED = RNG.standard_normal((900, 10)) + CENTRES[LABELS]


def test_equals_scikit_learn() -> None:
    """Each silhouette is that of scikit-learn for the same k-means; the best k is found."""
    found = cluster_count(CLUSTERED, sample_size=None)
    assert found.k == 4
    # Nearly the clusters that were put in
    assert len(set(zip(found.labels, LABELS, strict=True))) <= 8
    for k, score in found.silhouettes.items():
        labels = KMeans(k, n_init=1, random_state=0).fit_predict(CLUSTERED)
        assert score == pytest.approx(silhouette_score(CLUSTERED, labels), abs=1e-9)
    assert set(found.silhouettes) == set(range(2, 16))


def test_a_ball_is_one_cluster() -> None:
    """Under 0.1 the cloud counts as one cluster."""
    found = cluster_count(RNG.standard_normal((600, 40)), k_range=range(2, 6))
    assert max(found.silhouettes.values()) < 0.1
    assert found.k == 1
    assert set(found.labels) == {0}


def test_sample_and_seed() -> None:
    """The silhouette on a sample is near the whole; the same seed gives the same bytes."""
    sampled = cluster_count(CLUSTERED, sample_size=300, k_range=[2, 4], seed=5)
    again = cluster_count(CLUSTERED, sample_size=300, k_range=[4, 2], seed=5)
    assert sampled.silhouettes == again.silhouettes
    assert np.array_equal(sampled.labels, again.labels)
    whole = cluster_count(CLUSTERED, sample_size=None, k_range=[2, 4], seed=5)
    assert sampled.silhouettes != whole.silhouettes
    assert sampled.silhouettes[4] == pytest.approx(whole.silhouettes[4], abs=0.05)


@pytest.mark.parametrize(
    ("X", "k_range", "message"),
    [
        (CLUSTERED, [1, 2], "k_range"),
        (CLUSTERED[:10], range(2, 16), "k_range"),
        (CLUSTERED, [], "k_range"),
        (np.where(CLUSTERED > 3, np.nan, CLUSTERED), [2], "NaN"),
    ],
)
def test_bad_input(X: np.ndarray, k_range: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        cluster_count(X, k_range=k_range)


@pytest.mark.parametrize("options", [{"n_init": 0}, {"max_iter": 0}])
def test_no_start_or_iteration(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        cluster_count(CLUSTERED, k_range=[2], **options)


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_any_unit(scale: float) -> None:
    """Squares that single precision cannot hold."""
    X = CLUSTERED.astype(np.float32)
    expected, found = cluster_count(X, k_range=[2, 4]), cluster_count(X * scale, k_range=[2, 4])
    assert adjusted_rand_score(found.labels, expected.labels) > 0.99
    assert found.silhouettes == pytest.approx(expected.silhouettes, abs=1e-4)


def test_too_few_different_points() -> None:
    with pytest.raises(ValueError, match="too few different points"):
        cluster_count(np.repeat(np.eye(3), 10, axis=0), k_range=[2, 5])


def test_a_cluster_that_the_sample_misses() -> None:
    """One point far away is a cluster for k = 2; a sample without it gives no score, and another k
    is chosen."""
    X = np.vstack([CLUSTERED, np.full((1, 10), 1e4)])
    found = cluster_count(X, k_range=[2, 5], sample_size=100)
    assert np.isnan(found.silhouettes[2])
    assert found.k == 5
    with pytest.raises(ValueError, match="larger sample_size"):
        cluster_count(X, k_range=[2], sample_size=100)
