"""Self-similarity, intra-sentence similarity and explainable variance against plain loops, NumPy's
SVD and scikit-learn, and on clouds with known values."""

from __future__ import annotations

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
    self_similarity,
)

RNG = np.random.default_rng(0)
N, D = 300, 20
X = RNG.standard_normal((N, D)) + 0.7
WORDS = np.minimum(RNG.zipf(1.4, N), 50)
SENTENCES = RNG.integers(0, 40, N)
NAMES = np.unique(WORDS)


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
        assert value == pytest.approx(
            np.mean(pairs) if pairs else np.nan, abs=tolerance, nan_ok=True
        )
    intra = intra_sentence_similarity(cloud, SENTENCES.astype(str))
    for sentence, *values in zip(np.unique(SENTENCES.astype(str)), *intra, strict=True):
        occurrences = X[SENTENCES.astype(str) == sentence]
        with_itself = np.mean([cosine(x, occurrences.mean(axis=0)) for x in occurrences])
        leave_one_out = [
            cosine(x, np.delete(occurrences, i, axis=0).sum(axis=0))
            for i, x in enumerate(occurrences)
        ]
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
    for i, word in enumerate(NAMES):
        occurrences = double[word == WORDS]
        if len(occurrences) < 3:
            continue
        squares = np.linalg.svd(occurrences, compute_uv=False) ** 2
        assert obtained.uncentred[i] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
        pca = PCA(1, svd_solver="full").fit(occurrences)
        assert obtained.centred[i] == pytest.approx(pca.explained_variance_ratio_[0], abs=1e-12)
        svd = TruncatedSVD(1, algorithm="arpack", random_state=0).fit(occurrences)
        assert obtained.truncated_svd[i] == pytest.approx(
            svd.explained_variance_ratio_[0], abs=1e-9
        )
        assert obtained.centred[i] >= 1 / (len(occurrences) - 1) - 1e-12
    single_group = explainable_variance(cloud)
    assert [float(x[0]) for x in single_group] == pytest.approx(
        [float(x[0]) for x in explainable_variance(cloud, np.zeros(N))]
    )
    assert single_group.uncentred.shape == (1,)


def test_explainable_variance_of_many_occurrences() -> None:
    cloud = RNG.standard_normal((400, 150)) + 0.3
    obtained = explainable_variance(cloud)
    squares = np.linalg.svd(cloud, compute_uv=False) ** 2
    assert obtained.uncentred[0] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
    pca = PCA(1, svd_solver="full").fit(cloud)
    assert obtained.centred[0] == pytest.approx(pca.explained_variance_ratio_[0], abs=1e-12)
    assert (
        abs(first_components(cloud, np.zeros(400), centred=True)[0] @ pca.components_[0]) > 1 - 1e-9
    )


def test_variance_estimates_differ_on_a_cloud_with_a_common_direction() -> None:
    """For a self-similarity of 0.7 the paper's formula gives more than 0.7, whatever the centred
    spectrum is, and TruncatedSVD gives almost 0."""
    cloud = equal_cosine_cloud(0.7, 40)
    assert self_similarity(cloud, np.zeros(40)).values == pytest.approx(0.7, abs=1e-12)
    result = explainable_variance(cloud)
    assert result.uncentred[0] == pytest.approx(0.7 + 0.3 / 40, abs=1e-12)
    assert result.centred[0] == pytest.approx(1 / 39, abs=1e-12)  # all directions alike
    assert result.truncated_svd[0] < 1e-12


def test_explainable_variance_of_a_known_spectrum() -> None:
    """A cloud with given variances around a mean that is orthogonal to them."""
    corners = np.array(list(np.ndindex(2, 2, 2)), dtype=float) * 2 - 1
    spread = np.sqrt([6, 3, 1])
    cloud = np.c_[corners * spread, np.full(8, 10.0)]
    result = explainable_variance(cloud)
    assert result.centred[0] == pytest.approx(0.6, abs=1e-12)
    assert result.uncentred[0] == pytest.approx(100 / 110, abs=1e-12)
    assert result.truncated_svd[0] == pytest.approx(0, abs=1e-12)
    assert first_components(cloud, np.zeros(8)) == pytest.approx(np.eye(4)[3:], abs=1e-12)
    components = first_components(cloud, np.zeros(8), centred=True)
    assert np.abs(components) == pytest.approx(np.eye(4)[:1], abs=1e-12)


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
    assert self_similarity(moved, words[order]).values == pytest.approx(
        similarity.values, nan_ok=True, abs=1e-9
    )
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


def test_errors() -> None:
    with pytest.raises(ValueError, match="NaN or infinity"):
        self_similarity(np.array([[1.0, np.nan], [1, 1]]), [0, 0])
    with pytest.raises(ValueError, match=r"words must have shape \(300,\)"):
        self_similarity(X, WORDS[:10])
    with pytest.raises(ValueError, match="expected at least 3 groups, got 2"):
        cosine_between(X, np.arange(N) % 2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        intra_sentence_null([3], -0.2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        intra_sentence_null([0], 0.2)
