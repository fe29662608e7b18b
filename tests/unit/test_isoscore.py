"""isoscore against the authors' package, the definition in double precision, and the properties it must have."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from IsoScore import IsoScore as published_package

from isotropy.metrics import isoscore


def algorithm_1(X: np.ndarray) -> float:
    """Steps 1 to 4 of the paper, by eigenvalues, in double precision."""
    d = X.shape[1]
    eigenvalues = np.clip(np.linalg.eigvalsh(np.cov(X.astype(np.float64).T)), 0, None)
    normalized = np.sqrt(d) * eigenvalues / np.linalg.norm(eigenvalues)
    defect = np.linalg.norm(normalized - 1) / np.sqrt(2 * (d - np.sqrt(d)))
    phi = (d - defect**2 * (d - np.sqrt(d))) ** 2 / d**2
    return float((d * phi - 1) / (d - 1))


def cloud(seed: int, n: int, d: int, offset: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * rng.uniform(0.1, 3, d) + offset


@pytest.mark.parametrize(("n", "d"), [(500, 20), (2275, 300), (30, 100), (2, 2), (9000, 64)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-6)])
def test_equals_the_definition(n: int, d: int, dtype: type, tolerance: float) -> None:
    """Both branches (n >= d and n < d), both precisions."""
    X = cloud(0, n, d).astype(dtype)
    assert isoscore(X) == pytest.approx(algorithm_1(X), abs=tolerance)


@pytest.mark.parametrize(("n", "d"), [(500, 20), (60, 100)])
def test_equals_the_published_package(n: int, d: int) -> None:
    """IsoScore 2.0.1 takes (n, d), like us; its constants are float32, hence the tolerance."""
    X = cloud(1, n, d)
    assert isoscore(X) == pytest.approx(float(published_package.IsoScore(torch.from_numpy(X).numpy())), abs=1e-6)


def test_float32_far_from_the_origin() -> None:
    """A large mean must not eat the digits of the variance."""
    X = cloud(2, 4000, 50, offset=100.0).astype(np.float32)
    assert isoscore(X) == pytest.approx(algorithm_1(X), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(3, 60), d=st.integers(2, 12), scale=st.floats(1e-12, 1e12))
def test_invariance_and_bounds(seed: int, n: int, d: int, scale: float) -> None:
    """Rotation, translation, scale and order of points do not matter; the score lies in [0, 1]."""
    X = cloud(seed, n, d)
    score = isoscore(X)
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    assert -1e-12 <= score <= 1 + 1e-12
    assert score <= (min(n - 1, d) - 1) / (d - 1) + 1e-12  # the rank bound
    for changed in (X @ rotation, X + rng.standard_normal(d), X * scale, X[rng.permutation(n)]):
        assert isoscore(changed) == pytest.approx(score, abs=1e-9)


def test_limits() -> None:
    """Equal variances give 1, a line gives 0."""
    assert isoscore(np.vstack([np.eye(5), -np.eye(5)])) == pytest.approx(1, abs=1e-12)
    assert isoscore(np.outer(np.arange(6.0), np.ones(3))) == pytest.approx(0, abs=1e-12)


def test_tensors_stay_tensors_and_carry_gradients() -> None:
    """A tensor gives a 0-d tensor whose gradient is that of finite differences."""
    X = torch.from_numpy(cloud(3, 7, 4)).requires_grad_()
    assert torch.autograd.gradcheck(isoscore, (X,))
    assert isoscore(X.detach().float()).dtype == torch.float64


@pytest.mark.parametrize(("dtype", "exponent"), [(np.float32, 25), (np.float32, -25), (np.float64, 160), (np.float64, -170)])
def test_squares_beyond_the_float_range(dtype: type, exponent: int) -> None:
    """The unit does not matter, even where squares have no number."""
    X = cloud(6, 40, 6)
    assert isoscore((X * 10.0**exponent).astype(dtype)) == pytest.approx(isoscore(X), abs=1e-6)


def test_any_memory_layout() -> None:
    """Reversed, column-major, foreign byte order, read-only: the same numbers give the same score."""
    X = cloud(5, 40, 6)
    frozen = X.copy()
    frozen.flags.writeable = False
    for same in (X[::-1][::-1], np.asfortranarray(X), X.astype(">f8"), frozen):
        assert isoscore(same) == isoscore(X)


def test_integers_and_frames_are_not_truncated() -> None:
    """The published package gives 0 for integers; we give the score of the same numbers."""
    X = np.random.default_rng(4).integers(-9, 9, (50, 6))
    assert isoscore(X) == pytest.approx(algorithm_1(X), abs=1e-12)
    assert isoscore(pd.DataFrame(X)) == isoscore(X)
    assert isoscore(torch.from_numpy(X)).item() == isoscore(X)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.array([[0.0, np.nan], [1, 1]]), "NaN or infinity"),
        (np.array([[0.0, np.inf], [1, 1]]), "NaN or infinity"),
        (np.ones((5, 3)), "undefined"),
        (np.full((7, 3), 0.1), "undefined"),
        (np.full((33, 3), 1e8, dtype=np.float32), "undefined"),
        (np.ones(5), "shape"),
        (np.ones((1, 5)), "at least 2 points"),
        (np.ones((5, 1)), "2 dimensions"),
        (np.empty((0, 3)), "at least 2 points"),
    ],
)
def test_bad_input(X: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        isoscore(X)


def test_text_is_refused() -> None:
    with pytest.raises(TypeError, match="numeric"):
        isoscore(np.array([["a", "b"], ["c", "d"]]))
