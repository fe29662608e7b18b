"""Mean cosines, self-similarity, intra-sentence similarity and explainable variance against plain
loops, NumPy's SVD and scikit-learn, and on clouds with known values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations, permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.metrics.pairwise import cosine_similarity

from isotropy.metrics import (
    cosine_between,
    cosine_contributions,
    explainable_variance,
    first_components,
    intra_sentence_null,
    intra_sentence_similarity,
    mean_cosine,
    mean_cosine_standard_error,
    s_inter,
    s_intra,
    self_similarity,
    type_cosines,
)

RNG = np.random.default_rng(0)
N, D = 300, 20
X = RNG.standard_normal((N, D)) + 0.7
WORDS = np.minimum(RNG.zipf(1.4, N), 50)
SENTENCES = RNG.integers(0, 40, N)
NAMES = np.unique(WORDS)
CLUSTERS = RNG.integers(0, 4, N)


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def equal_cosine_cloud(cosine: float, n: int, d: int = 4000, seed: int = 0) -> np.ndarray:
    """Return n unit vectors that all have the same pairwise cosine."""
    directions = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, n + 1)))[0].T
    return np.sqrt(cosine) * directions[0] + np.sqrt(1 - cosine) * directions[1:]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-7)])
def test_similarities_equal_plain_loops(dtype: type, tolerance: float) -> None:
    cloud, C = X.astype(dtype), cosine_similarity(X)
    result = self_similarity(cloud, WORDS)
    for word, value, count in zip(NAMES, *result, strict=True):
        occurrences = np.flatnonzero(word == WORDS)
        pairs = [C[i, j] for i, j in combinations(occurrences, 2)]
        assert count == len(occurrences)
        expected = np.mean(pairs) if pairs else np.nan
        assert value == pytest.approx(expected, abs=tolerance, nan_ok=True)
    intra = intra_sentence_similarity(cloud, SENTENCES.astype(str))
    for sentence, *values in zip(np.unique(SENTENCES.astype(str)), *intra, strict=True):
        occurrences = X[SENTENCES.astype(str) == sentence]
        total = occurrences.sum(axis=0)
        with_itself = np.mean([cosine(x, total) for x in occurrences])
        leave_one_out = [cosine(x, total - x) for x in occurrences]
        assert values == pytest.approx([with_itself, np.mean(leave_one_out)], abs=tolerance)
    base = cosine_between(torch.from_numpy(cloud), torch.from_numpy(SENTENCES))
    groups = range(40)
    assert base.value == pytest.approx(between(C, groups), abs=tolerance)
    leave_group_out = np.array([between(C, [g for g in groups if g != out]) for out in groups])
    jackknife = np.sqrt(39 / 40 * ((leave_group_out - leave_group_out.mean()) ** 2).sum())
    assert base.error == pytest.approx(jackknife, rel=1e-6)


def between(C: np.ndarray, groups: object) -> float:
    """Mean over pairs of different groups of the mean cosine of their tokens."""
    means = [
        C[np.ix_(a == SENTENCES, b == SENTENCES)].mean()
        for a, b in permutations(groups, 2)  # type: ignore[call-overload]
    ]
    return float(np.mean(means))


@pytest.mark.parametrize("d", [5, 20])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_explainable_variance_equals_svd_and_scikit_learn(d: int, dtype: type) -> None:
    """Both with more occurrences than dimensions, and with fewer."""
    cloud = X[:, :d].astype(dtype)
    obtained, double = explainable_variance(cloud, WORDS), cloud.astype(np.float64)
    components = first_components(cloud, WORDS)
    for i, word in enumerate(NAMES):
        occurrences = double[word == WORDS]
        if len(occurrences) < 3:
            continue
        squares = np.linalg.svd(occurrences, compute_uv=False) ** 2
        assert obtained.uncentred[i] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
        pca = PCA(1, svd_solver="full").fit(occurrences)
        assert obtained.centred[i] == pytest.approx(pca.explained_variance_ratio_[0], abs=1e-12)
        svd = TruncatedSVD(1, algorithm="arpack", random_state=0).fit(occurrences)
        expected = svd.explained_variance_ratio_[0]
        assert obtained.truncated_svd[i] == pytest.approx(expected, abs=1e-9)
        assert abs(components[i] @ svd.components_[0]) == pytest.approx(1, abs=1e-9)
    one_group = np.array(explainable_variance(cloud, np.zeros(N)))
    assert np.array(explainable_variance(cloud)) == pytest.approx(one_group)


def test_explainable_variance_of_many_occurrences() -> None:
    cloud = RNG.standard_normal((400, 150)) + 0.3
    obtained = explainable_variance(cloud)
    squares = np.linalg.svd(cloud, compute_uv=False) ** 2
    assert obtained.uncentred[0] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
    pca = PCA(1, svd_solver="full").fit(cloud)
    assert obtained.centred[0] == pytest.approx(pca.explained_variance_ratio_[0], abs=1e-12)
    component = first_components(cloud, np.zeros(400), centred=True)[0]
    assert abs(component @ pca.components_[0]) > 1 - 1e-9


def test_variance_estimates_differ_on_a_cloud_with_a_common_direction() -> None:
    """For a self-similarity of 0.7 the paper's formula gives more than 0.7, whatever the centred
    spectrum is, and TruncatedSVD gives almost 0."""
    cloud = equal_cosine_cloud(0.7, 40)
    assert self_similarity(cloud, np.zeros(40)).values == pytest.approx(0.7, abs=1e-12)
    result = explainable_variance(cloud)
    assert result.uncentred[0] == pytest.approx(0.7 + 0.3 / 40, abs=1e-12)
    assert result.centred[0] == pytest.approx(1 / 39, abs=1e-12)  # all directions alike
    assert result.truncated_svd[0] < 1e-12


@pytest.mark.parametrize("a", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("n", [2, 12, 40])
def test_intra_sentence_null(a: float, n: int) -> None:
    """For equal pairwise cosines the null expectation is exact."""
    result = intra_sentence_similarity(equal_cosine_cloud(a, n), np.zeros(n))
    for value, leave_one_out in zip(result, (False, True), strict=True):
        null = intra_sentence_null([n], a, leave_one_out=leave_one_out)
        assert value == pytest.approx(null, abs=1e-12)
    assert intra_sentence_null([1], 0.3) == 1
    assert np.isnan(intra_sentence_null([1], 0.3, leave_one_out=True)).all()


def test_cosine_contributions_sum_to_the_mean_cosine() -> None:
    result = cosine_contributions(X)
    assert result.sum() == pytest.approx(mean_cosine(X), abs=1e-13)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j]
    by_hand = np.mean([units[i] * units[j] for i, j in pairs], axis=0)
    assert cosine_contributions(X[:30]) == pytest.approx(by_hand, abs=1e-13)
    with_outlier = np.c_[X, np.full(N, 50.0)]
    assert cosine_contributions(with_outlier).argmax() == D
    assert mean_cosine(np.delete(with_outlier, D, axis=1)) == pytest.approx(mean_cosine(X))


def test_first_components_point_towards_the_mean() -> None:
    """The sign does not depend on the solver; for similar vectors the uncentred first component is
    almost their mean direction."""
    cloud = RNG.standard_normal((60, D)) + 3
    words = np.arange(60) % 3
    result = first_components(cloud, words)
    flipped = first_components(-cloud, words)
    assert result == pytest.approx(-flipped, abs=1e-12)
    for word in range(3):
        assert cosine(result[word], cloud[words == word].mean(axis=0)) > 0.99
    assert np.linalg.norm(result, axis=1) == pytest.approx(1)


def test_words_with_degenerate_occurrences() -> None:
    """A single occurrence, equal occurrences, zero vectors."""
    cloud = np.array([[1.0, 2], [3, 4], [3, 4], [0, 0], [0, 0], [1, 0], [0, 0]])
    words = np.array([0, 1, 1, 2, 2, 3, 3])
    similarity = self_similarity(cloud, words)
    assert similarity.values == pytest.approx([np.nan, 1, 0, 0], nan_ok=True)
    assert similarity.counts.tolist() == [1, 2, 2, 2]
    shares = explainable_variance(cloud, words)
    assert shares.uncentred == pytest.approx([np.nan, 1, np.nan, 1], nan_ok=True)
    assert shares.centred == pytest.approx([np.nan, np.nan, np.nan, 1], nan_ok=True)
    assert shares.truncated_svd == pytest.approx([np.nan, np.nan, np.nan, 1], nan_ok=True)
    components = first_components(cloud, words)
    assert components[0] == pytest.approx([1 / 5**0.5, 2 / 5**0.5])
    assert components[2].tolist() == [0, 0]
    assert first_components(cloud, words, centred=True)[1] == pytest.approx([0, 0])


@settings(max_examples=40)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 12))
def test_properties(seed: int, n: int, d: int) -> None:
    """Values are within bounds, and invariant to order, rotation and scale."""
    random = np.random.default_rng(seed)
    cloud, words = random.standard_normal((n, d)) + random.normal(), random.integers(0, 4, n)
    order, rotation = random.permutation(n), np.linalg.qr(random.standard_normal((d, d)))[0]
    similarity, shares = self_similarity(cloud, words), explainable_variance(cloud, words)
    moved = 7 * cloud[order] @ rotation
    expected = pytest.approx(similarity.values, nan_ok=True, abs=1e-9)
    assert self_similarity(moved, words[order]).values == expected
    for after, before in zip(explainable_variance(moved, words[order]), shares, strict=True):
        assert after == pytest.approx(before, nan_ok=True, abs=1e-6)
    k = similarity.counts
    several = k > 1
    low = -1 / (k[several] - 1) - 1e-9
    assert ((similarity.values[several] >= low) & (similarity.values[several] <= 1 + 1e-9)).all()
    assert (shares.uncentred[several] >= 1 / np.minimum(k[several], d) - 1e-9).all()
    defined = ~np.isnan(shares.centred)
    assert (shares.centred[defined] >= shares.truncated_svd[defined] - 1e-9).all()
    with_itself, leave_one_out = intra_sentence_similarity(cloud, words)
    assert (np.abs(with_itself) <= 1 + 1e-9).all()
    assert (np.isnan(leave_one_out) == ~several).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: s_inter(X, WORDS, CLUSTERS[1:]), "clusters"),
        (lambda: s_inter(X, np.zeros(N)), "two types"),
        (lambda: s_intra(X, np.arange(N)), "two occurrences"),
        (lambda: cosine_between(X, np.arange(N) % 2), "3 groups"),
        (lambda: intra_sentence_null([3], -0.2), "between 0 and 1"),
        (lambda: intra_sentence_null([0], 0.2), "at least 1"),
    ],
)
def test_invalid_input_is_rejected(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def by_loops(X: np.ndarray, types: np.ndarray) -> tuple[float, float]:
    """Compute S_inter and S_intra by loops over types and occurrences: the expected values of the
    published, sampled estimates."""
    C = cosine_similarity(X)
    members = [np.flatnonzero(types == t) for t in np.unique(types)]
    inter = [C[np.ix_(s, t)].mean() for s, t in combinations(members, 2)]
    intra = [np.mean([C[i, j] for i, j in combinations(m, 2)]) for m in members if len(m) > 1]
    return float(np.mean(inter)) if inter else np.nan, float(np.mean(intra)) if intra else np.nan


def adjusted_by_loops(weighted: bool) -> np.ndarray:
    """Compute both in each centred cluster, and average over clusters."""
    clusters = [c == CLUSTERS for c in np.unique(CLUSTERS)]
    each = [by_loops(X[rows] - X[rows].mean(0), WORDS[rows]) for rows in clusters]
    weights = [rows.sum() for rows in clusters] if weighted else None
    return np.average(each, axis=0, weights=weights)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-7)])
def test_cosines_equal_plain_loops(dtype: type, tolerance: float) -> None:
    cloud = X.astype(dtype)
    C = cosine_similarity(X)
    assert mean_cosine(cloud) == pytest.approx((C.sum() - N) / (N * (N - 1)), abs=tolerance)
    expected = pytest.approx(by_loops(X, WORDS), abs=tolerance)
    assert type_cosines(cloud, WORDS) == expected
    assert (s_inter(cloud, WORDS), s_intra(cloud, WORDS)) == expected


@pytest.mark.parametrize("weighted", [False, True])
def test_adjusted_cosines_equal_plain_loops(weighted: bool) -> None:
    """Cai et al. average clusters without weights; weighting by size is an option."""
    expected = pytest.approx(adjusted_by_loops(weighted), abs=1e-12)
    inter, intra = (f(X, WORDS, CLUSTERS, weighted=weighted) for f in (s_inter, s_intra))
    assert type_cosines(X, WORDS, CLUSTERS, weighted=weighted) == expected
    assert (inter, intra) == expected


def test_type_cosines_do_not_depend_on_threads() -> None:
    result = set()
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        result.add(type_cosines(X.astype(np.float32), WORDS, CLUSTERS))
    assert len(result) == 1


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 30),
    d=st.integers(1, 6),
    scale=st.floats(1e-6, 1e6),
)
def test_properties_of_cosines(seed: int, n: int, d: int, scale: float) -> None:
    """Within bounds; invariant to rotation, order, the length of vectors and the names of types."""
    rng = np.random.default_rng(seed)
    X, types = rng.standard_normal((n, d)), np.r_[0, 1, rng.integers(0, 4, n - 2)]
    score, type_scores = mean_cosine(X), type_cosines(X, types)
    assert -1 / (n - 1) - 1e-12 <= score <= 1 + 1e-12
    R, order = np.linalg.qr(rng.standard_normal((d, d)))[0], rng.permutation(n)
    longer = X * scale * rng.uniform(1, 2, (n, 1))
    for changed, names in ((X @ R, types), (X[order], types[order]), (longer, types)):
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
    lengths = np.where(np.arange(len(X)) % 2, 1e-14, 1)[:, None]
    assert mean_cosine_standard_error(X * lengths) == pytest.approx(jackknife, rel=0.02)


def test_limits_and_zero_vectors() -> None:
    """Equal directions give 1, opposite ones -1; cosines with a zero vector are 0, as in
    scikit-learn."""
    assert mean_cosine(np.ones((5, 3))) == pytest.approx(1)
    assert mean_cosine(np.array([[1.0, 0], [-2, 0]])) == pytest.approx(-1)
    with_zero = np.vstack([np.zeros(D), X])
    C = cosine_similarity(with_zero)
    expected = (C.sum() - np.trace(C)) / (N * (N + 1))
    assert mean_cosine(with_zero) == pytest.approx(expected, abs=1e-12)
    assert mean_cosine(np.zeros((3, 2))) == 0
    one_per_cluster = type_cosines(X, WORDS, np.arange(N))  # no two points share a cluster
    assert np.isnan(one_per_cluster).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_cluster_of_equal_vectors_has_cosine_zero(dtype: type) -> None:
    """After centring, such vectors are zero apart from rounding errors, which do not count."""
    same = np.repeat(RNG.standard_normal((1, D)), 7, axis=0)
    cloud = np.vstack([X, same]).astype(dtype)
    types, clusters = np.r_[WORDS, np.arange(7) % 3], np.r_[CLUSTERS, np.full(7, 9)]
    without_fifth = np.array(type_cosines(X.astype(dtype), WORDS, CLUSTERS))
    with_fifth = type_cosines(cloud, types, clusters)
    assert with_fifth == pytest.approx(without_fifth * 4 / 5, abs=1e-6)
