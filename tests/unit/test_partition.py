"""I(W) against its definition, also where the definition overflows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from isotropy.metrics import StreamingPartition, partition_isotropy
from isotropy.metrics.partition import partition_isotropy_ranges

RNG = np.random.default_rng(0)


def definition(W: np.ndarray, *, both: bool = False) -> float:
    """Compute the definition of Mu & Viswanath (2018) by loops, with our choice of signs."""
    values = []
    for u in np.linalg.eigh(W.T @ W)[1].T:
        u = u * np.sign(u[np.abs(u).argmax()])
        values += [sum(np.exp(s * u @ w) for w in W) for s in ((1, -1) if both else (1,))]
    return min(values) / max(values)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 40), d=st.integers(2, 6), shift=st.floats(0, 2))
def test_isotropy_equals_the_definition(seed: int, n: int, d: int, shift: float) -> None:
    """Within [0, 1]; invariant to the order of points; with `signs="both"` also to reflection."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d)) * rng.uniform(0.5, 1, d) + shift
    score, both = partition_isotropy(W), partition_isotropy(W, signs="both")
    assert score == pytest.approx(definition(W), rel=1e-6)
    assert both == pytest.approx(definition(W, both=True), rel=1e-6)
    assert 0 < both <= score <= 1
    assert partition_isotropy(W[rng.permutation(n)]) == pytest.approx(score, rel=1e-6)
    assert partition_isotropy(-W, signs="both") == pytest.approx(both, rel=1e-9)
    assert np.exp(partition_isotropy(W, log=True)) == pytest.approx(score, rel=1e-12)


def test_float32_and_several_blocks() -> None:
    W = RNG.standard_normal((9000, 16)) * np.linspace(0.3, 1, 16) + 0.1
    assert partition_isotropy(torch.from_numpy(W).float()) == pytest.approx(definition(W), rel=1e-4)


def test_no_underflow_where_exp_overflows() -> None:
    """With a mean of 300 in one dimension the ratio is about e^-300, for which the plain formula in
    float32 gives 0 or NaN."""
    W = RNG.standard_normal((300, 8)) + 300 * np.eye(8)[0]
    assert partition_isotropy(W) == pytest.approx(definition(W), rel=1e-6)
    with np.errstate(over="ignore", invalid="ignore"):
        F = np.exp((W @ np.linalg.eigh(W.T @ W)[1]).astype(np.float32)).sum(0)
        assert not F.min() / F.max() > 0
    far = W * 10  # e^3000 is no float64
    assert partition_isotropy(far) == 0
    assert -3400 < partition_isotropy(far, log=True) < -2900


@settings(max_examples=60)
@given(seed=st.integers(0, 10**6), n=st.integers(4, 40), d=st.integers(2, 7), shift=st.floats(0, 3))
def test_range_over_signs_equals_all_choices(seed: int, n: int, d: int, shift: float) -> None:
    """The range is that of the definition over all 2^d choices of signs, and contains the values
    with fixed signs and with those of LAPACK."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n, d)) * rng.uniform(0.2, 1, d) + shift * rng.standard_normal(d)
    vectors = np.linalg.eigh(W.T @ W)[1]
    F = [np.exp(W @ (vectors * signs)).sum(axis=0) for signs in product((1, -1), repeat=d)]
    values = [f.min() / f.max() for f in F]
    (result,) = partition_isotropy_ranges(W, [1.0])
    assert result.low == pytest.approx(min(values), rel=1e-6)
    assert result.high == pytest.approx(max(values), rel=1e-6)
    assert result.fixed == partition_isotropy(W)
    # Rounding errors of W'W change the signs, so it is computed by the same library
    second = (torch.from_numpy(W).T @ torch.from_numpy(W)).numpy()
    authors = np.exp(W @ np.linalg.eig(second)[1]).sum(axis=0)
    lapack = partition_isotropy(W, signs="lapack")
    assert lapack == pytest.approx(authors.min() / authors.max(), rel=1e-6)
    assert result.low * (1 - 1e-6) <= lapack <= result.high * (1 + 1e-6)


@pytest.mark.parametrize("d", [2, 3, 50, 301])
def test_ranges_at_several_scales(d: int) -> None:
    """The value with fixed signs is that of `partition_isotropy` of the scaled cloud."""
    W = RNG.standard_normal((9000, d)).astype(np.float32) + 0.1
    ranges = partition_isotropy_ranges(W, [1.0, 3.0], log=True)
    expected = [partition_isotropy(scale * W, log=True) for scale in (1, 3)]
    assert [each.fixed for each in ranges] == pytest.approx(expected, rel=1e-5)
    assert all(each.low <= each.fixed <= each.high <= 0 for each in ranges)


def test_ranges_need_both_signs() -> None:
    with pytest.raises(ValueError, match="range over signs"):
        StreamingPartition(np.eye(2)).compute_ranges()


def test_isotropic_cloud_has_isotropy_one() -> None:
    assert partition_isotropy(np.vstack([np.eye(4), -np.eye(4)])) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize(
    ("W", "signs", "message"),
    [
        (np.zeros((5, 3)), "fixed", "all points are zero"),
        (np.ones((5, 1)), "fixed", "2 dimensions"),
        (np.ones((5, 3)), "any", "signs must be"),
    ],
)
def test_invalid_input_is_rejected(W: np.ndarray, signs: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        partition_isotropy(W, signs=signs)
