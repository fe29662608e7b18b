"""Mean cosines against plain loops, and against the sampled estimates that the papers publish."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from isotropy.metrics import (
    mean_cosine,
    mean_cosine_standard_error,
    s_inter,
    s_intra,
    type_cosines,
)

RNG = np.random.default_rng(0)
N, D = 400, 12
X = RNG.standard_normal((N, D)) + 0.7
TYPES = np.minimum(RNG.zipf(1.5, N), 60)
CLUSTERS = RNG.integers(0, 4, N)


def by_loops(X: np.ndarray, types: np.ndarray) -> tuple[float, float]:
    """Compute S_inter and S_intra by loops over types and occurrences: the expected values of the
    published, sampled estimates."""
    C = cosine_similarity(X)
    names = sorted(set(types.tolist()))
    members = {t: np.flatnonzero(types == t) for t in names}
    inter = [C[np.ix_(members[s], members[t])].mean() for s, t in combinations(names, 2)]
    intra = [
        np.mean([C[i, j] for i, j in combinations(m, 2)]) for m in members.values() if len(m) > 1
    ]
    return float(np.mean(inter)) if inter else np.nan, float(np.mean(intra)) if intra else np.nan


def adjusted_by_loops(weighted: bool) -> tuple[float, float]:
    """Compute both in each centred cluster, and average over clusters."""
    per_cluster, sizes = [], []
    for c in set(CLUSTERS.tolist()):
        rows = c == CLUSTERS
        per_cluster.append(by_loops(X[rows] - X[rows].mean(0), TYPES[rows]))
        sizes.append(rows.sum())
    inter, intra = np.average(per_cluster, axis=0, weights=sizes if weighted else None)
    return float(inter), float(intra)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-7)])
def test_cosines_equal_plain_loops(dtype: type, tolerance: float) -> None:
    cloud = X.astype(dtype)
    C = cosine_similarity(X)
    assert mean_cosine(cloud) == pytest.approx((C.sum() - N) / (N * (N - 1)), abs=tolerance)
    assert type_cosines(cloud, TYPES) == pytest.approx(by_loops(X, TYPES), abs=tolerance)
    assert s_inter(torch.from_numpy(cloud), torch.from_numpy(TYPES)) == pytest.approx(
        by_loops(X, TYPES)[0], abs=tolerance
    )
    assert s_intra(cloud, TYPES.astype(str)) == pytest.approx(by_loops(X, TYPES)[1], abs=tolerance)


@pytest.mark.parametrize("weighted", [False, True])
def test_adjusted_cosines_equal_plain_loops(weighted: bool) -> None:
    """Cai et al. average clusters without weights; weighting by size is an option."""
    assert type_cosines(X, TYPES, CLUSTERS, weighted=weighted) == pytest.approx(
        adjusted_by_loops(weighted), abs=1e-12
    )
    assert s_inter(X, TYPES, CLUSTERS, weighted=weighted) == pytest.approx(
        adjusted_by_loops(weighted)[0], abs=1e-12
    )
    assert s_intra(X, TYPES, CLUSTERS, weighted=weighted) == pytest.approx(
        adjusted_by_loops(weighted)[1], abs=1e-12
    )


def test_published_estimate_of_s_inter_averages_to_the_exact_value() -> None:
    """The paper draws one occurrence per type; the mean over many draws is the exact value."""
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    members = [np.flatnonzero(t == TYPES) for t in sorted(set(TYPES.tolist()))]
    k = len(members)
    draws = []
    for _ in range(2000):
        drawn = units[[RNG.choice(m) for m in members]]
        draws.append((np.square(drawn.sum(0)).sum() - k) / (k * (k - 1)))
    error = np.std(draws) / np.sqrt(len(draws))
    assert abs(np.mean(draws) - s_inter(X, TYPES)) < 4 * error


def test_type_cosines_do_not_depend_on_threads() -> None:
    result = set()
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        result.add(type_cosines(X.astype(np.float32), TYPES, CLUSTERS))
    assert len(result) == 1


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    d=st.integers(1, 6),
    scale=st.floats(1e-6, 1e6),
)
def test_properties(seed: int, n: int, d: int, scale: float) -> None:
    """Within bounds; invariant to rotation, order, the length of vectors and the names of types."""
    rng = np.random.default_rng(seed)
    X, types = rng.standard_normal((n, d)), np.r_[0, 1, rng.integers(0, 4, n - 2)]
    score, type_scores = mean_cosine(X), type_cosines(X, types)
    assert -1 / (n - 1) - 1e-12 <= score <= 1 + 1e-12
    R, order = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.permutation(n)
    for changed, names in (
        (X @ R, types),
        (X[order], types[order]),
        (X * scale * rng.uniform(1, 2, (n, 1)), types),
    ):
        assert mean_cosine(changed) == pytest.approx(score, abs=1e-9)
        assert type_cosines(changed, names + 5) == pytest.approx(type_scores, abs=1e-9, nan_ok=True)
    assert type_cosines(X, np.arange(n)).s_inter == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize("exponent", [-30, 0, 30])
def test_standard_error_is_that_of_the_jackknife(exponent: int) -> None:
    X = np.random.default_rng(3).normal(size=(300, 12)) + 0.3
    left_out = [mean_cosine(np.delete(X, i, axis=0)) for i in range(len(X))]
    jackknife = np.sqrt((len(X) - 1) / len(X) * np.sum((left_out - np.mean(left_out)) ** 2))
    X = (X * 10.0**exponent).astype(np.float32)
    assert mean_cosine_standard_error(X) == pytest.approx(jackknife, rel=0.02)
    assert mean_cosine_standard_error(np.ones((5, 3))) == pytest.approx(0, abs=1e-12)


def test_limits_and_zero_vectors() -> None:
    """Equal directions give 1, opposite ones -1; cosines with a zero vector are 0, as in
    scikit-learn."""
    assert mean_cosine(np.ones((5, 3))) == pytest.approx(1)
    assert mean_cosine(np.array([[1.0, 0], [-2, 0]])) == pytest.approx(-1)
    with_zero = np.vstack([np.zeros(D), X])
    C = cosine_similarity(with_zero)
    assert mean_cosine(with_zero) == pytest.approx(
        (C.sum() - np.trace(C)) / (N * (N + 1)), abs=1e-12
    )
    assert mean_cosine(np.zeros((3, 2))) == 0
    one_per_cluster = type_cosines(X, TYPES, np.arange(N))  # no two points share a cluster
    assert np.isnan(one_per_cluster.s_inter)
    assert np.isnan(one_per_cluster.s_intra)


@pytest.mark.parametrize(
    ("cloud", "types", "clusters", "message"),
    [
        (np.where(np.arange(N)[:, None] == 3, np.nan, X), TYPES, None, "1 of 400 points hold NaN"),
        (
            np.where(np.arange(N)[:, None] == 3, np.inf, X),
            TYPES,
            CLUSTERS,
            "1 of 400 points hold NaN",
        ),
        (X, TYPES[1:], None, "types must have shape"),
        (X, TYPES, CLUSTERS[1:], "clusters must have shape"),
        (X, np.zeros(N), None, "two types"),
        (X[:0], TYPES[:0], None, "at least 2 points"),
    ],
)
def test_invalid_input_is_rejected(
    cloud: np.ndarray, types: np.ndarray, clusters: np.ndarray | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        s_inter(cloud, types, clusters)


def test_s_intra_needs_a_repeated_type() -> None:
    with pytest.raises(ValueError, match="two occurrences"):
        s_intra(X, np.arange(N))
    with pytest.raises(ValueError, match="hold NaN"):
        mean_cosine(np.array([[np.nan, 1], [1, 1]]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cluster_of_equal_vectors_has_cosine_zero(dtype: type) -> None:
    """After centring, such vectors are zero apart from rounding errors, which do not count."""
    same = np.repeat(RNG.standard_normal((1, D)), 7, axis=0)
    cloud, types, clusters = (
        np.vstack([X, same]),
        np.r_[TYPES, np.arange(7) % 3],
        np.r_[CLUSTERS, np.full(7, 9)],
    )
    without_fifth = type_cosines(X.astype(dtype), TYPES, CLUSTERS)
    with_fifth = type_cosines(cloud.astype(dtype), types, clusters)
    # The fifth cluster has cosines of 0
    assert with_fifth == pytest.approx([c * 4 / 5 for c in without_fifth], abs=1e-6)
