"""TwoNN and the maximum-likelihood local dimension against scikit-dimension, and against
the estimate published by Cai et al."""

from __future__ import annotations

from collections.abc import Callable
from unittest.mock import Mock

import faiss
import numpy as np
import pytest
import skdim
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from isotropy.metrics import dimension as module
from isotropy.metrics import lid_mle, lid_mle_samples, neighbours, two_nn

RNG = np.random.default_rng(0)
# Clumps: matrix products in float32 cannot distinguish neighbours
PLANE = RNG.standard_normal((1300, 3)) @ RNG.standard_normal((3, 40))
BALL = RNG.standard_normal((1200, 30))
CLUMPS = (
    RNG.standard_normal((1500, 20)) * 1e-3 + RNG.standard_normal((8, 20))[RNG.integers(0, 8, 1500)]
)
CLOUDS = {"plane": PLANE, "ball": BALL, "clumps": CLUMPS, "far away": BALL + 100}


def levina_bickel(X: np.ndarray, k: int) -> np.ndarray:
    """Return scikit-dimension's pointwise estimate, which divides by k - 1, rescaled to a division
    by k, as in Amsaleg et al. and Cai et al."""
    return skdim.id.MLE().fit(X, n_neighbors=k, comb="mean").dimension_pw_ * k / (k - 1)


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 2e-5)])
def test_two_nn_equals_scikit_dimension(name: str, dtype: type, tolerance: float) -> None:
    X = CLOUDS[name].astype(dtype)
    for share in (0.1, 0.3):
        peer = skdim.id.TwoNN(discard_fraction=share).fit(X.astype(np.float64))
        assert two_nn(torch.from_numpy(X), discard_fraction=share) == pytest.approx(
            peer.dimension_, rel=tolerance
        )
    assert two_nn(X) == two_nn(X, discard_fraction=0.1)  # as in scikit-dimension


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-9), (np.float32, 1e-4)])
def test_each_lid_equals_scikit_dimension(name: str, dtype: type, tolerance: float) -> None:
    """Each point's estimate; float32 against double precision of the same rounded cloud."""
    X = CLOUDS[name].astype(dtype)
    if name == "clumps":  # scikit-learn loses digits too; centring in float32 has an error of 1e-5
        tolerance *= 3
    double = X.astype(np.float64)
    assert lid_mle_samples(X, 100) == pytest.approx(levina_bickel(double, 100), rel=tolerance)
    assert lid_mle(X, 20) == pytest.approx(levina_bickel(double, 20).mean(), rel=tolerance)


def published_lid(X: np.ndarray, k: int, metric: str) -> float:
    """Compute the estimate as the published code: from squared distances, or 1 - cos, including
    equal points."""
    if metric == "euclidean":
        D = cdist(X, X, "sqeuclidean")
    else:
        D = np.maximum(cdist(X, X, "cosine"), 1e-8)
    np.fill_diagonal(D, -1)  # sorts a point before its neighbours
    r = np.sort(D, axis=1)[:, 1 : k + 1]
    with np.errstate(divide="ignore"):
        return float(np.mean(-1 / np.log(r / r[:, -1:]).mean(axis=1)))


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_squared_distances_give_the_published_estimate(metric: str) -> None:
    """With `squared` the estimate is the published one, half of the conventional one; cosine
    distances equal those of unit vectors."""
    published = lid_mle(BALL, 100, metric=metric, squared=True, repeated="keep")
    assert published == pytest.approx(published_lid(BALL, 100, metric), rel=1e-9)
    assert published == pytest.approx(lid_mle(BALL, 100, metric=metric) / 2, rel=1e-12)
    units = BALL / np.linalg.norm(BALL, axis=1, keepdims=True)
    assert lid_mle(BALL, 50, metric="cosine") == pytest.approx(lid_mle(units, 50), rel=1e-9)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_repeated_points(metric: str) -> None:
    """They are dropped with a warning; if kept, as in the published code, their estimates are 0
    (euclidean) or clamped (cosine)."""
    X = np.vstack([BALL, BALL[:100]])
    with pytest.warns(UserWarning, match="100 of 1300"):
        assert lid_mle(X, 100, metric=metric) == pytest.approx(
            lid_mle(BALL, 100, metric=metric), rel=1e-9
        )
    with_repeated = lid_mle(X, 100, metric=metric, squared=True, repeated="keep")
    assert with_repeated == pytest.approx(published_lid(X, 100, metric), rel=1e-6)
    if metric == "euclidean":
        assert (lid_mle_samples(X, 100, repeated="keep") == 0).sum() == 200
        with pytest.warns(UserWarning, match="repeat"):
            assert two_nn(X) == pytest.approx(two_nn(BALL), rel=1e-12)


def test_sampled_queries_have_neighbours_among_all_points() -> None:
    all_estimates = lid_mle_samples(BALL, 30)
    drawn = lid_mle_samples(BALL, 30, n_queries=200, seed=3)
    assert drawn.shape == (200,)
    assert np.isin(drawn.round(9), all_estimates.round(9)).all()
    assert np.array_equal(drawn, lid_mle_samples(BALL, 30, n_queries=200, seed=3))
    assert np.array_equal(lid_mle_samples(BALL, 30, n_queries=10**6), all_estimates)
    with pytest.warns(UserWarning, match="repeat"):  # drawn first, then dropped
        without_repeated = lid_mle_samples(np.vstack([BALL, BALL]), 30, n_queries=200, seed=3)
    assert 60 < len(without_repeated) < 140
    assert np.isin(without_repeated.round(9), all_estimates.round(9)).all()
    with (
        pytest.raises(ValueError, match="larger n_queries"),
        pytest.warns(UserWarning, match="repeat"),
    ):
        lid_mle_samples(np.vstack([BALL, np.repeat(BALL[:1], 10**5, axis=0)]), 30, n_queries=2)


@pytest.fixture
def gpu_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run on the CPU what runs on a GPU, in many parts."""
    monkeypatch.setattr(module, "nearest_distances", neighbours.nearest_distances_on_gpu)
    monkeypatch.setattr(neighbours, "GPU_ROWS", 100)
    monkeypatch.setattr(neighbours, "GPU_DIFFERENCES", 10_000)
    monkeypatch.setattr(neighbours, "NEIGHBOURS_AT_ONCE", 20_000)


def near_and_equal(cloud: np.ndarray) -> np.ndarray:
    """Return a cloud with groups of points 1e-9 and 1e-4 apart, and with equal points."""
    cloud = cloud.copy()
    cloud[100:130] = cloud[100] + 1e-9 * RNG.standard_normal((30, cloud.shape[1]))
    cloud[200:230] = cloud[200] + 1e-4 * RNG.standard_normal((30, cloud.shape[1]))
    cloud[300:310] = cloud[300]
    return cloud


@pytest.mark.usefixtures("gpu_path")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", [*CLOUDS, "ties", "near and equal", "an outlier", "far apart"])
def test_neighbours_on_a_gpu_equal_brute_force(name: str, dtype: torch.dtype) -> None:
    """All distances, in float64, of the same rounded cloud; also to eligible neighbours."""
    clouds = CLOUDS | {
        "ties": RNG.integers(-4, 5, (600, 4)).astype(np.float64),
        "near and equal": near_and_equal(BALL),
        "an outlier": np.vstack([1000 * BALL[:1], BALL[1:]]),
        "far apart": np.vstack([BALL + 1e4, BALL[:50] - 1e4]),
    }
    points = torch.from_numpy(clouds[name]).to(dtype)
    points = points if dtype == torch.float64 else points.float()  # as `as_points`
    rows, eligible = torch.from_numpy(RNG.permutation(len(points))[:350]), RNG.random(len(points))
    mask = eligible < 0.7
    exact = cdist(points[rows].double(), points.double())
    exact[np.arange(len(rows)), rows] = np.inf
    for k in (2, 25):
        results = neighbours.nearest_distances_on_gpu(points, k, rows, torch.from_numpy(mask))
        for result, among in zip(results, (exact, np.where(mask, exact, np.inf)), strict=True):
            expected = np.sort(among, axis=1)[:, :k]
            assert np.allclose(result, expected, rtol=20 * torch.finfo(points.dtype).eps, atol=0)


@pytest.mark.filterwarnings("ignore:.*points repeat")
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_repeated_points_are_left_out(dtype: torch.dtype) -> None:
    """Also where rows differ in the sign of a zero, or in the last digit."""
    repeated = torch.from_numpy(near_and_equal(BALL)).to(dtype)
    zeros = torch.from_numpy(RNG.integers(-1, 2, (500, 4))).to(dtype)
    zeros[::2] *= -1
    last_digit = torch.nextafter(repeated, torch.full_like(repeated, 9))
    clouds = repeated, zeros, torch.cat([repeated, last_digit]), torch.from_numpy(PLANE).to(dtype)
    expected = [np.unique(cloud.numpy() + 0.0, axis=0).shape[0] for cloud in clouds]
    for cloud, n in zip(clouds, expected, strict=True):
        mask = module._mask_of_distinct(cloud, "test")
        assert (len(cloud) if mask is None else int(mask.sum())) == n


@pytest.mark.parametrize("k", [1, 2, 7, 40, 699])
def test_neighbour_distances_equal_faiss(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """For any block size and number of threads, on grid points, many of which have equal
    distances."""
    cloud = torch.from_numpy(RNG.integers(-6, 7, (700, 5)).astype(np.float32))
    rows = torch.from_numpy(RNG.permutation(700)[:300])
    expected = faiss.knn(cloud[rows].numpy(), cloud.numpy(), k + 1)[0]
    results = set()
    for threads, queries, points in ((1, 512, 2048), (2, 64, 100), (3, 7, 33)):
        torch.set_num_threads(threads)
        monkeypatch.setattr(neighbours, "QUERIES", queries)
        monkeypatch.setattr(neighbours, "POINTS", points)
        squared, neighbour_rows = neighbours.search_on_cpu(cloud, rows, k)
        results.add(squared.numpy().tobytes())
        with_self = torch.cat([torch.zeros(300, 1), squared], dim=1)
        repeated = expected[:, 1] == 0  # a repeated row may be missing among its copies
        assert np.allclose(with_self[~repeated].numpy(), expected[~repeated], rtol=0, atol=1e-4)
        recomputed = (cloud[rows, None] - cloud[neighbour_rows]).square().sum(dim=2)
        assert np.allclose(recomputed.numpy(), squared.numpy(), rtol=0, atol=1e-4)
        assert (neighbour_rows != rows[:, None]).all()
        assert all(len(set(row)) == k for row in neighbour_rows.tolist())
    assert len(results) == 1


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(12, 60),
    d=st.integers(2, 6),
    scale=st.floats(1e-6, 1e6),
)
def test_invariance(seed: int, n: int, d: int, scale: float) -> None:
    """Estimates are invariant to rotation, translation, scale and order."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    R = np.linalg.qr(rng.standard_normal((d, d)))[0]
    for changed in (X @ R + 5, X * scale, X[rng.permutation(n)]):
        assert two_nn(changed) == pytest.approx(two_nn(X), rel=1e-6)
        assert lid_mle(changed, 8) == pytest.approx(lid_mle(X, 8), rel=1e-6)


@pytest.mark.filterwarnings("ignore:two_nn")
@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: lid_mle(BALL[:50], 50), "between 2 and 49"),
        (lambda: lid_mle(BALL[:50], 1), "between 2 and 49"),
        (lambda: lid_mle(BALL, 10, metric="manhattan"), "metric"),
        (lambda: lid_mle(BALL, 10, repeated="ignore"), "repeated"),
        (lambda: lid_mle(np.vstack([np.zeros(30), BALL]), 10, metric="cosine"), "1 points"),
        (lambda: two_nn(BALL[:2]), "3 points"),
        (lambda: two_nn(BALL, discard_fraction=1), "discard_fraction"),
        (lambda: two_nn(BALL[:3], discard_fraction=0.9), "none of 3"),
        (lambda: two_nn(np.eye(12)), "different distances"),
        (lambda: two_nn(np.ones((20, 3))), "different distances"),
    ],
)
def test_invalid_input_is_rejected(function: Callable[[], float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        function()


@pytest.mark.parametrize("far", [30.0, 1000.0])
def test_one_outlier_does_not_widen_the_search(far: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error bound of a squared distance depends on its two points only."""
    X = BALL.astype(np.float32)
    X[0] *= far
    search = Mock(wraps=neighbours.search_on_cpu)
    monkeypatch.setattr(neighbours, "search_on_cpu", search)
    result = lid_mle_samples(X, 100)
    assert sum(len(c.args[1]) * c.args[2] for c in search.mock_calls) < 1.05 * len(X) * 112
    assert result == pytest.approx(levina_bickel(X.astype(np.float64), 100), rel=1e-3)


def test_limits_of_lid() -> None:
    """The corners of a simplex have equal distances, for which the formula is infinite. For a point
    with k copies also r_k = 0; the limit is 0, not NaN."""
    assert np.isinf(lid_mle_samples(np.eye(12), 8)).all()
    X = np.vstack([BALL[:300], np.repeat(BALL[:1], 60, axis=0)])
    result = lid_mle_samples(X, 50, squared=True, repeated="keep")
    assert (result[300:] == 0).all()
    assert np.isfinite(result).all()


def test_published_lid_counts_points_with_many_copies_as_zero() -> None:
    """As in the authors' code, where a distance of 0 to the k-th neighbour becomes 1e-8: logarithms
    over it are minus infinity, as for points with fewer copies."""
    X = np.vstack([RNG.standard_normal((570, 8)), np.ones((30, 8))])
    squared = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(squared, -1)
    r = np.sort(squared, axis=1)[:, 1:21]
    with np.errstate(divide="ignore"):
        theirs = -1 / np.log(r / np.maximum(r[:, -1:], 1e-8)).mean(axis=1)
    theirs[np.isinf(theirs)] = 8  # they become d
    with pytest.warns(UserWarning, match="29 of 600"):
        ours = module.lid_mle_estimates(X, 20).published
    assert ours == pytest.approx(theirs.mean(), rel=1e-9)


@pytest.mark.parametrize("copies", [30, 100])
def test_points_that_centring_would_merge_stay_distinct(copies: int) -> None:
    """Points 1e-8 apart near the origin differ in float32, but would be equal after subtracting a
    mean of 10."""
    X = RNG.standard_normal((600, 5)) + 10
    X[:copies] = RNG.standard_normal((copies, 5)) * 1e-8
    low = X.astype(np.float32)
    assert two_nn(low) == pytest.approx(two_nn(low.astype(np.float64)), rel=1e-4)
    assert lid_mle(low, 20) == pytest.approx(lid_mle(low.astype(np.float64), 20), rel=1e-4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_lattice_has_no_two_nn(dtype: type) -> None:
    """Both neighbours are equally far, but for rounding, also where it is turned, moved or scaled;
    a lattice that is disturbed a little has a dimension."""
    lattice = np.stack(np.meshgrid(*[np.arange(10.0)] * 3), axis=-1).reshape(-1, 3)
    turn = np.linalg.qr(RNG.standard_normal((3, 3)))[0]
    for X in (lattice, lattice @ turn + 100, lattice * 1e-3):
        with pytest.raises(ValueError, match="different distances"):
            two_nn(X.astype(dtype))
    disturbed = (lattice + RNG.uniform(-0.3, 0.3, lattice.shape)).astype(dtype)
    expected = skdim.id.TwoNN().fit(disturbed.astype(np.float64)).dimension_
    assert two_nn(disturbed) == pytest.approx(expected, rel=1e-4)


def test_two_nn_of_three_points() -> None:
    """The smallest possible cloud: ratios 1, 2 and 2, of which the last is discarded."""
    assert two_nn(np.array([[0.0], [1], [2]])) == pytest.approx(-np.log(1 / 3) / np.log(2))
