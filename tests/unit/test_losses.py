"""I-STAR and CosReg against the authors' formulas, on random hidden states."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from IsoScore import IsoScore as published_package

from isotropy.losses import CosRegLoss, IStarLoss, UnbiasedIsoScoreLoss
from isotropy.metrics import isoscore, isoscore_star, isoscore_unbiased

L, B, T, D = 4, 3, 7, 16
GENERATOR = torch.Generator().manual_seed(0)
STATES = torch.randn(L, B, T, D, generator=GENERATOR).double() + 0.5
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 2 + [0] * 5])


def authors_isoscore_star(points: torch.Tensor, C0: torch.Tensor, zeta: float) -> torch.Tensor:
    return published_package.istar().IsoScore_star(points, C0, zeta, is_eval=False, gpu_id="cpu")


def token_points(layers: Sequence[int]) -> torch.Tensor:
    """The vectors of the tokens of layers, without padding."""
    return torch.cat([STATES[i][MASK.bool()] for i in layers])


def authors_cosreg(points: torch.Tensor) -> torch.Tensor:
    """The authors' formula: (sum of all cosines - N) / N^2."""
    units = torch.nn.functional.normalize(points, dim=1)
    return ((units @ units.T).sum() - len(points)) / len(points) ** 2


def istar_loss(**options: Any) -> IStarLoss:
    loss = IStarLoss(D, **{"strength": 2.0, "zeta": 0.3, **options})
    draws = torch.Generator().manual_seed(1)
    loss.update_shrinkage(torch.randn(L, B, T, D, generator=draws).double(), torch.ones(B, T))
    return loss


def test_istar_equals_the_authors_formula() -> None:
    """On all layers but the embeddings, with padding, as in the authors' code, and without."""
    with_padding, masked = istar_loss(keep_padding=True), istar_loss()
    C0 = with_padding.shrinkage.covariance()
    theirs = authors_isoscore_star(STATES[1:].reshape(-1, D), C0, 0.3).item()
    assert with_padding(STATES).item() == pytest.approx(2 * (1 - theirs), abs=1e-6)
    theirs = authors_isoscore_star(token_points([1, 2, 3]), C0, 0.3).item()
    assert masked(STATES, MASK).item() == pytest.approx(2 * (1 - theirs), abs=1e-6)
    assert masked(STATES, MASK) != with_padding(STATES)
    last = istar_loss(layers=[-1], zeta=0.0)
    expected = 2 * (1 - isoscore(token_points([-1])).item())
    assert last(tuple(STATES), MASK).item() == pytest.approx(expected, abs=1e-9)


def test_unbiased_penalty_is_that_of_the_unbiased_score() -> None:
    """On all layers but the embeddings, and on the last."""
    loss = UnbiasedIsoScoreLoss(strength=-3.0)
    expected = -3 * (1 - isoscore_unbiased(token_points([1, 2, 3])).item())
    assert loss(STATES, MASK).item() == pytest.approx(expected)
    last = UnbiasedIsoScoreLoss(strength=1.0, layers=[-1], validate=False)
    expected = 1 - isoscore_unbiased(token_points([-1])).item()
    assert last(tuple(STATES), MASK).item() == pytest.approx(expected)


def test_cosreg_equals_the_authors_formula() -> None:
    """On the last layer, and on all layers with padding."""
    theirs = authors_cosreg(token_points([-1])).item()
    assert CosRegLoss()(STATES, MASK).item() == pytest.approx(theirs, abs=1e-9)
    with_padding = CosRegLoss(strength=-3, layers="all", keep_padding=True)
    theirs = authors_cosreg(STATES[1:].reshape(-1, D)).item()
    assert with_padding(STATES).item() == pytest.approx(-3 * theirs, abs=1e-9)


def test_zero_vectors_have_no_cosine_and_no_gradient() -> None:
    states = STATES.clone()
    states[-1, 0, 1] = 0
    states.requires_grad_()
    penalty = CosRegLoss()(states, MASK)
    assert penalty.item() == pytest.approx(
        (authors_cosreg(states[-1][MASK == 1]) + 1 / 14**2).item()
    )
    penalty.backward()
    assert states.grad[-1, 0, 1].abs().max() == 0
    assert 0 < states.grad[-1, 0, 2].abs().max() < 1


@pytest.mark.parametrize(
    "loss",
    [
        istar_loss(),
        istar_loss(strength=-1.0, zeta=0.0),
        CosRegLoss(layers="all"),
        UnbiasedIsoScoreLoss(strength=2.0),
    ],
)
def test_gradients(loss: IStarLoss) -> None:
    """First and second derivatives equal finite differences; gradients of padding are 0."""
    states = STATES[:, :2, :3].clone().requires_grad_()
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert torch.autograd.gradcheck(lambda s: loss(s, mask), (states,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, mask), (states,), fast_mode=True)
    torch.autograd.backward(loss(states, mask))
    assert states.grad[:, 1, 1:].abs().max() == 0
    assert states.grad[0].abs().max() == 0  # the embedding layer
    assert states.grad[1:, 0].abs().min() > 0


def test_shrinkage_estimate_is_streamed_reset_and_saved() -> None:
    """Batches give the covariance of all tokens; the estimate is part of the state dict."""
    loss = IStarLoss(D, strength=1.0)
    for i in range(B):
        n_tokens = loss.update_shrinkage(STATES[:, i : i + 1], MASK[i : i + 1])
        assert n_tokens == 3 * MASK[: i + 1].sum()
    expected = np.cov(token_points([1, 2, 3]).T)
    assert loss.shrinkage.covariance().numpy() == pytest.approx(expected, abs=1e-10)
    first, other = loss(STATES, MASK), istar_loss(strength=1.0, zeta=0.2)
    assert other(STATES, MASK) != first
    other.load_state_dict(loss.state_dict())
    assert other(STATES, MASK) == first
    loss.reset_shrinkage()
    with pytest.raises(ValueError, match="update_shrinkage"):
        loss(STATES, MASK)


@pytest.mark.parametrize("loss", [istar_loss(), CosRegLoss(), UnbiasedIsoScoreLoss(strength=1.0)])
def test_penalties_of_half_precision_states(loss: CosRegLoss) -> None:
    """bfloat16 states give a float32 penalty, and gradients in bfloat16."""
    states = STATES.bfloat16().requires_grad_()
    penalty = loss(states, MASK)
    penalty.backward()
    assert penalty.dtype == torch.float32
    assert penalty.item() == pytest.approx(loss(STATES, MASK).item(), abs=0.02)
    assert states.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("loss", "mask", "message"),
    [
        (CosRegLoss(layers=[9]), MASK, "no such layer"),
        (IStarLoss(D, strength=1.0), MASK, "update_shrinkage"),
        (CosRegLoss(), MASK * 0, "no token"),
        (istar_loss(), MASK * 0, "2 points"),
        (UnbiasedIsoScoreLoss(strength=1.0, layers=[-1]), (MASK.cumsum(1) < 2) * MASK, "4 points"),
    ],
)
def test_invalid_input_is_rejected(loss: CosRegLoss, mask: torch.Tensor, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loss(STATES, mask)


def test_equal_tokens_are_rejected() -> None:
    with pytest.raises(ValueError, match="equal"):
        istar_loss(zeta=0.0)(torch.ones(L, B, T, D), MASK)


def test_training_works_after_inference_mode() -> None:
    """A loss and cached values of inference mode can be used in training, and are updated."""
    expected = istar_loss()(STATES, MASK)
    with torch.inference_mode():
        loss = istar_loss()
        assert torch.equal(loss(STATES, MASK), expected)
    states = STATES.clone().requires_grad_()
    trained = loss(states, MASK)
    trained.backward()
    assert torch.equal(trained.detach(), expected)
    assert states.grad is not None
    with torch.inference_mode():
        loss.update_shrinkage(10 * STATES, MASK)
        assert not torch.equal(loss(STATES, MASK), expected)


def test_changes_of_the_shrinkage_estimate_take_effect() -> None:
    """Merging or loading a state through the attribute `shrinkage` invalidates cached values."""
    loss, other = istar_loss(), istar_loss()
    before = loss(STATES, MASK)
    other.shrinkage.update(
        100 * torch.randn(500, D, generator=GENERATOR).double() * torch.linspace(0, 1, D)
    )
    loss.shrinkage.merge(other.shrinkage)
    after = loss(STATES, MASK)
    assert after != before
    fresh = istar_loss()
    fresh.shrinkage.load_state_dict(loss.shrinkage.state_dict())
    assert fresh(STATES, MASK) == after
    loss.shrinkage.reset()
    with pytest.raises(ValueError, match="update_shrinkage"):
        loss(STATES, MASK)


def points_with_eigenvalues(n: int, values: list[float]) -> torch.Tensor:
    """Return n points in float64 whose covariance (ddof = 1) has exactly these eigenvalues; if
    n <= d, random points."""
    generator, d = torch.Generator().manual_seed(0), len(values)
    raw = torch.randn(n, d, generator=generator, dtype=torch.float64)
    if n <= d:
        return raw
    white = torch.linalg.qr(raw - raw.mean(dim=0))[0] * (n - 1) ** 0.5
    basis = torch.linalg.qr(torch.randn(d, d, generator=generator, dtype=torch.float64))[0]
    return (white * torch.tensor(values, dtype=torch.float64).sqrt()) @ basis.T


@pytest.mark.parametrize(
    ("values", "n", "zeta"),
    [
        ([1.0] * 8, 40, 0.0),
        ([4.0] * 3 + [1.0] * 5, 40, 0.2),
        ([1.0] * 4 + [0.0] * 4, 40, 0.0),
        ([1.0] * 8, 40, 0.5),
        ([1.0] * 8, 5, 0.3),
    ],
)
def test_gradient_with_equal_eigenvalues(values: list[float], n: int, zeta: float) -> None:
    """Against central differences in double precision; in single precision compared with the
    authors' package."""
    X, S = points_with_eigenvalues(n, values), torch.linspace(1, 2, len(values)).double().diag()
    ours = partial(isoscore_star, zeta=zeta, shrinkage_covariance=S if zeta else None)

    def theirs(points: torch.Tensor) -> torch.Tensor:
        return authors_isoscore_star(points, S.to(points.dtype), zeta)

    def gradient(score: Callable[[torch.Tensor], Any], points: torch.Tensor) -> torch.Tensor:
        points = points.clone().requires_grad_()
        return torch.autograd.grad(score(points), points)[0].double()

    differentiable = X.clone().requires_grad_()
    assert torch.autograd.gradcheck(ours, (differentiable,), eps=1e-5, atol=2e-9, rtol=0)
    exact = gradient(ours, X)
    # With all eigenvalues equal the score is maximal, and the gradient is 0
    scale = max(float(exact.abs().max()), 1 / n)
    error, their_error = (
        float((gradient(score, X.float()) - exact).abs().max()) / scale for score in (ours, theirs)
    )
    assert error < 2e-6
    assert error < 3 * their_error + 3e-7


def scaled_istar(unit: float) -> IStarLoss:
    loss = IStarLoss(D, strength=1.0, zeta=0.2)
    loss.update_shrinkage((STATES.flip(1) * unit).float(), MASK)
    return loss


@pytest.mark.parametrize("penalty", [scaled_istar, lambda _: CosRegLoss()])
@pytest.mark.parametrize("unit", [1e-30, 1e-15, 1e15, 1e30])
def test_penalties_at_any_scale(penalty: Callable[[float], torch.nn.Module], unit: float) -> None:
    """Penalty and gradient are invariant to the scale of hidden states, even if squares in float32
    underflow or overflow."""

    def value_and_gradient(scale: float, dtype: torch.dtype) -> tuple[float, torch.Tensor]:
        states = (STATES * scale).to(dtype).requires_grad_()
        value = penalty(scale)(states, MASK)
        value.backward()
        return value.item(), states.grad[-1].double() * scale

    expected, slope = value_and_gradient(1.0, torch.float64)
    value, gradient = value_and_gradient(unit, torch.float32)
    assert value == pytest.approx(expected, rel=1e-4)
    assert torch.allclose(gradient, slope, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("loss", [istar_loss(), CosRegLoss()])
@pytest.mark.parametrize("mask", [(1 - MASK) * -1e9, MASK * 0.5, MASK * 2])
def test_masks_with_other_values_are_rejected(loss: CosRegLoss, mask: torch.Tensor) -> None:
    """An additive mask, with -1e9 at padding, would count padding as tokens, and leave out the
    tokens."""
    with pytest.raises(ValueError, match="1 for tokens"):
        loss(STATES, mask)
    assert loss(STATES, MASK.bool()) == loss(STATES, MASK.float())
