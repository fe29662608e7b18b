"""Self-similarity, intra-sentence similarity and explainable variance against loops, NumPy's SVD
and scikit-learn, and on clouds whose values are known."""

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


def common(cosine: float, n: int, d: int = 4000, seed: int = 0) -> np.ndarray:
    """Unit vectors with a pairwise cosine: a common direction, and one of each one's own."""
    own = np.linalg.qr(np.random.default_rng(seed).standard_normal((d, n + 1)))[0].T
    return np.sqrt(cosine) * own[0] + np.sqrt(1 - cosine) * own[1:]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-13), (np.float32, 1e-7)])
def test_equal_loops(dtype: type, tolerance: float) -> None:
    cloud, C = X.astype(dtype), cosine_similarity(X)
    found = self_similarity(cloud, WORDS)
    for word, value, count in zip(NAMES, *found, strict=True):
        own = np.flatnonzero(word == WORDS)
        pairs = [C[i, j] for i, j in combinations(own, 2)]
        assert count == len(own)
        assert value == pytest.approx(
            np.mean(pairs) if pairs else np.nan, abs=tolerance, nan_ok=True
        )
    intra = intra_sentence_similarity(cloud, SENTENCES.astype(str))
    for sentence, *values in zip(np.unique(SENTENCES.astype(str)), *intra, strict=True):
        own = X[SENTENCES.astype(str) == sentence]
        whole = np.mean([cosine(x, own.mean(axis=0)) for x in own])
        others = [cosine(x, np.delete(own, i, axis=0).sum(axis=0)) for i, x in enumerate(own)]
        assert values == pytest.approx([whole, np.mean(others)], abs=tolerance)
    base = cosine_between(torch.from_numpy(cloud), torch.from_numpy(SENTENCES))
    groups = range(40)
    assert base.value == pytest.approx(between(C, groups), abs=tolerance)
    left = np.array([between(C, [g for g in groups if g != out]) for out in groups])
    jackknife = np.sqrt(39 / 40 * ((left - left.mean()) ** 2).sum())
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
    """Both ways: more occurrences than dimensions, and fewer."""
    cloud = X[:, :d].astype(dtype)
    found, wide = explainable_variance(cloud, WORDS), cloud.astype(np.float64)
    for i, word in enumerate(NAMES):
        own = wide[word == WORDS]
        if len(own) < 3:
            continue
        squares = np.linalg.svd(own, compute_uv=False) ** 2
        assert found.uncentred[i] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
        pca = PCA(1, svd_solver="full").fit(own)
        assert found.centred[i] == pytest.approx(pca.explained_variance_ratio_[0], abs=1e-12)
        svd = TruncatedSVD(1, algorithm="arpack", random_state=0).fit(own)
        assert found.truncated_svd[i] == pytest.approx(svd.explained_variance_ratio_[0], abs=1e-9)
        assert found.centred[i] >= 1 / (len(own) - 1) - 1e-12
    of_all = explainable_variance(cloud)
    assert [float(x[0]) for x in of_all] == pytest.approx(
        [float(x[0]) for x in explainable_variance(cloud, np.zeros(N))]
    )
    assert of_all.uncentred.shape == (1,)


def test_many_occurrences_take_the_other_solver() -> None:
    cloud = RNG.standard_normal((400, 150)) + 0.3
    found = explainable_variance(cloud)
    squares = np.linalg.svd(cloud, compute_uv=False) ** 2
    assert found.uncentred[0] == pytest.approx(squares[0] / squares.sum(), abs=1e-12)
    own = PCA(1, svd_solver="full").fit(cloud)
    assert found.centred[0] == pytest.approx(own.explained_variance_ratio_[0], abs=1e-12)
    assert (
        abs(first_components(cloud, np.zeros(400), centred=True)[0] @ own.components_[0]) > 1 - 1e-9
    )


def test_one_estimate_says_five_per_cent_where_the_formula_says_seventy() -> None:
    """A cloud of self-similarity 0.7: the formula has 0.7 and more, whatever the spectrum about the
    mean, and TruncatedSVD next to nothing."""
    cloud = common(0.7, 40)
    assert self_similarity(cloud, np.zeros(40)).values == pytest.approx(0.7, abs=1e-12)
    found = explainable_variance(cloud)
    assert found.uncentred[0] == pytest.approx(0.7 + 0.3 / 40, abs=1e-12)
    assert found.centred[0] == pytest.approx(1 / 39, abs=1e-12)  # all directions alike
    assert found.truncated_svd[0] < 1e-12


def test_spectrum_about_the_mean() -> None:
    """A cloud with given variances about a mean that is perpendicular to them."""
    corners = np.array(list(np.ndindex(2, 2, 2)), dtype=float) * 2 - 1
    spread = np.sqrt([6, 3, 1])
    cloud = np.c_[corners * spread, np.full(8, 10.0)]
    found = explainable_variance(cloud)
    assert found.centred[0] == pytest.approx(0.6, abs=1e-12)
    assert found.uncentred[0] == pytest.approx(100 / 110, abs=1e-12)
    assert found.truncated_svd[0] == pytest.approx(0, abs=1e-12)
    assert first_components(cloud, np.zeros(8)) == pytest.approx(np.eye(4)[3:], abs=1e-12)
    about = first_components(cloud, np.zeros(8), centred=True)
    assert np.abs(about) == pytest.approx(np.eye(4)[:1], abs=1e-12)


@pytest.mark.parametrize("a", [0.0, 0.4, 0.9])
@pytest.mark.parametrize("n", [2, 12, 40])
def test_intra_sentence_null(a: float, n: int) -> None:
    """Equal pairwise cosines and nothing else: the null is exact."""
    found = intra_sentence_similarity(common(a, n), np.zeros(n))
    for value, leave_one_out in zip(found, (False, True), strict=True):
        null = intra_sentence_null([n], a, leave_one_out=leave_one_out)
        assert value == pytest.approx(null, abs=1e-12)
    assert intra_sentence_null([1], 0.3) == 1
    assert np.isnan(intra_sentence_null([1], 0.3, leave_one_out=True)).all()


def test_contributions_sum_to_the_mean_cosine() -> None:
    found = cosine_contributions(X)
    assert found.sum() == pytest.approx(mean_cosine(X), abs=1e-13)
    units = X / np.linalg.norm(X, axis=1, keepdims=True)
    pairs = [(i, j) for i in range(30) for j in range(30) if i != j]
    by_hand = np.mean([units[i] * units[j] for i, j in pairs], axis=0)
    assert cosine_contributions(X[:30]) == pytest.approx(by_hand, abs=1e-13)
    one = np.c_[X, np.full(N, 50.0)]
    assert cosine_contributions(one).argmax() == D
    assert mean_cosine(np.delete(one, D, axis=1)) == pytest.approx(mean_cosine(X))


def test_components_point_towards_their_words() -> None:
    """The sign does not depend on the solver, and the first component about the origin is all but
    the mean where vectors are alike."""
    cloud = RNG.standard_normal((60, D)) + 3
    words = np.arange(60) % 3
    found = first_components(cloud, words)
    flipped = first_components(-cloud, words)
    assert found == pytest.approx(-flipped, abs=1e-12)
    for word in range(3):
        assert cosine(found[word], cloud[words == word].mean(axis=0)) > 0.99
    assert np.linalg.norm(found, axis=1) == pytest.approx(1)


def test_degenerate_words() -> None:
    """One occurrence, copies, zeros."""
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


@pytest.mark.parametrize("unit", [1e-160, 1e150])
def test_units_do_not_matter(unit: float) -> None:
    assert self_similarity(X * unit, WORDS).values == pytest.approx(
        self_similarity(X, WORDS).values, nan_ok=True
    )
    for own, other in zip(
        explainable_variance(X * unit, WORDS), explainable_variance(X, WORDS), strict=True
    ):
        assert own == pytest.approx(other, nan_ok=True, abs=1e-9)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 30), st.integers(1, 12))
def test_properties(seed: int, n: int, d: int) -> None:
    """Bounds, and no dependence on the order, a rotation or the unit."""
    random = np.random.default_rng(seed)
    cloud, words = random.standard_normal((n, d)) + random.normal(), random.integers(0, 4, n)
    order, turn = random.permutation(n), np.linalg.qr(random.standard_normal((d, d)))[0]
    similarity, shares = self_similarity(cloud, words), explainable_variance(cloud, words)
    moved = 7 * cloud[order] @ turn
    assert self_similarity(moved, words[order]).values == pytest.approx(
        similarity.values, nan_ok=True, abs=1e-9
    )
    for own, other in zip(explainable_variance(moved, words[order]), shares, strict=True):
        assert own == pytest.approx(other, nan_ok=True, abs=1e-6)
    k = similarity.counts
    several = k > 1
    low = -1 / (k[several] - 1) - 1e-9
    assert ((similarity.values[several] >= low) & (similarity.values[several] <= 1 + 1e-9)).all()
    assert (shares.uncentred[several] >= 1 / np.minimum(k[several], d) - 1e-9).all()
    known = ~np.isnan(shares.centred)
    assert (shares.centred[known] >= shares.truncated_svd[known] - 1e-9).all()
    whole, left = intra_sentence_similarity(cloud, words)
    assert (np.abs(whole) <= 1 + 1e-9).all()
    assert (np.isnan(left) == ~several).all()


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
