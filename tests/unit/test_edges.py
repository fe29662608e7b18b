"""Edge cases of the library: scales at which squares overflow, masks, missing labels, and torch's
function transforms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from isotropy.losses import CosRegLoss, IStarLoss
from isotropy.metrics import isoscore, isoscore_from_covariance
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement

D = 16
STATES = [torch.randn(4, 7, D, generator=torch.Generator().manual_seed(i)) for i in range(3)]
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 2 + [0] * 5, [1] * 3 + [0] * 4])


def istar(unit: float = 1.0, zeta: float = 0.2) -> IStarLoss:
    loss = IStarLoss(D, strength=1.0, zeta=zeta)
    loss.update_shrinkage([s.flip(0) * unit for s in STATES], MASK.flip(0))
    return loss


def cosreg(_: float = 1.0) -> CosRegLoss:
    return CosRegLoss()


PENALTIES = pytest.mark.parametrize("penalty", [istar, cosreg])


@PENALTIES
@pytest.mark.parametrize("unit", [1e-30, 1e-15, 1e15, 1e30])
def test_penalties_at_any_scale(penalty: Callable[[float], torch.nn.Module], unit: float) -> None:
    """Penalty and gradient are invariant to the scale of hidden states, even if squares in float32
    underflow or overflow."""

    def value_and_gradient(scale: float, dtype: torch.dtype) -> tuple[float, torch.Tensor]:
        states = [(s.to(dtype) * scale).requires_grad_() for s in STATES]
        value = penalty(scale)(states, MASK)
        value.backward()
        gradient = states[-1].grad
        assert gradient is not None
        return value.item(), gradient.double() * scale

    (expected, slope), (value, gradient) = (
        value_and_gradient(1.0, torch.float64),
        value_and_gradient(unit, torch.float32),
    )
    assert value == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(gradient, slope, rtol=1e-3, atol=1e-6)


@PENALTIES
@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ((1 - MASK) * -1e9, "from -1e\\+09 to -?0; for an additive mask, pass attention_mask == 0"),
        (MASK * 0.5, "from 0 to 0.5"),
        (MASK * 2, "from 0 to 2"),
    ],
)
def test_masks_with_other_values_are_rejected(
    penalty: Callable[[], torch.nn.Module], mask: torch.Tensor, message: str
) -> None:
    """An additive mask, with -1e9 at padding, would count padding as tokens, and leave out the
    tokens."""
    with pytest.raises(ValueError, match=f"1 for tokens and 0 for padding, got values {message}"):
        penalty()(STATES, mask)
    assert penalty()(STATES, MASK.bool()) == penalty()(STATES, MASK.float())


@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e15, 1e18])
@pytest.mark.parametrize(
    "transform", [Center(), AllButTheTop(2), ClusterBasedEnhancement(3, 2)], ids=repr
)
@pytest.mark.filterwarnings("error")
def test_transforms_at_any_scale(transform: Center, unit: float) -> None:
    """In float32, also for new points, results are as in float64 at scale 1, without warnings."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 20)) * np.r_[5, 3, np.ones(18)] + rng.normal(size=20)
    expected = transform.fit(X).transform(X[:50])
    obtained = transform.fit((X * unit).astype(np.float32)).transform((X[:50] * unit).astype("f4"))
    assert np.abs(obtained / unit - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("far", [1e5, 1e6, 1e8])
@pytest.mark.parametrize(("n", "d"), [(100, 8), (50, 100)])
def test_isoscore_with_an_outlier_is_not_negative(n: int, d: int, far: float) -> None:
    """The participation ratio is 1 then, and rounding in float32 must not make it smaller."""
    for seed in range(40):
        X = np.random.default_rng(seed).normal(size=(n, d)).astype(np.float32)
        X[0] *= far
        assert 0 <= isoscore(X) < 1e-5


def test_score_of_a_rank_one_covariance_is_not_negative() -> None:
    v = np.random.default_rng(0).normal(size=30)
    assert isoscore_from_covariance(np.outer(v, v)) >= 0
