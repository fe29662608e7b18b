"""I-STAR and CosReg against the authors' formulas, on random hidden states."""

from __future__ import annotations

from collections.abc import Callable

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
    """Compute IsoScore* with the authors' package."""
    return published_package.istar().IsoScore_star(points, C0, zeta, is_eval=False, gpu_id="cpu")


def authors_cosreg(points: torch.Tensor) -> torch.Tensor:
    """Compute the authors' formula: (sum of all cosines - N) / N^2."""
    units = torch.nn.functional.normalize(points, dim=1)
    return ((units @ units.T).sum() - len(points)) / len(points) ** 2


def istar_loss(**options: object) -> IStarLoss:
    loss = IStarLoss(D, **{"strength": 2.0, "zeta": 0.3, **options})  # type: ignore[arg-type]
    loss.update_shrinkage(
        torch.randn(L, B, T, D, generator=torch.Generator().manual_seed(1)).double(),
        torch.ones(B, T),
    )
    return loss


def test_istar_equals_the_authors_formula() -> None:
    """On all layers but the embeddings, with padding, as in the authors' code, and without."""
    with_padding = istar_loss(keep_padding=True)
    C0 = with_padding.shrinkage.covariance()
    points = STATES[1:].reshape(-1, D)
    assert with_padding(STATES).item() == pytest.approx(
        2 * (1 - authors_isoscore_star(points, C0, 0.3).item()), abs=1e-6
    )
    masked = istar_loss()
    points = torch.cat([STATES[i][MASK.bool()] for i in (1, 2, 3)])
    assert len(points) == 3 * 14
    assert masked(STATES, MASK).item() == pytest.approx(
        2 * (1 - authors_isoscore_star(points, C0, 0.3).item()), abs=1e-6
    )
    assert masked(STATES, MASK) != with_padding(STATES)
    last = istar_loss(layers=[-1], zeta=0.0)
    assert last(tuple(STATES), MASK).item() == pytest.approx(
        2 * (1 - isoscore(STATES[-1][MASK.bool()]).item()), abs=1e-9
    )


def test_unbiased_penalty_is_that_of_the_unbiased_score() -> None:
    """On all layers but the embeddings, and on the last; in float32 for half precision."""
    points = torch.cat([STATES[i][MASK.bool()] for i in (1, 2, 3)])
    loss = UnbiasedIsoScoreLoss(strength=-3.0)
    assert loss(STATES, MASK).item() == pytest.approx(-3 * (1 - isoscore_unbiased(points).item()))
    assert loss(STATES.half(), MASK).dtype == torch.float32
    last = UnbiasedIsoScoreLoss(strength=1.0, layers=[-1], validate=False)
    expected = 1 - isoscore_unbiased(STATES[-1][MASK.bool()]).item()
    assert last(tuple(STATES), MASK).item() == pytest.approx(expected)
    with pytest.raises(ValueError, match="at least 4 points"):
        last(STATES[:, :1, :3], MASK[:1, :3])
    with pytest.raises(ValueError, match="strength must be a finite number"):
        UnbiasedIsoScoreLoss(strength=float("nan"))


def test_unbiased_penalty_of_a_batch_is_that_of_a_large_sample() -> None:
    """IsoScore of few tokens needs Sigma_S to be near; the mean over batches does not."""
    states = torch.randn(2, 100, 20, D, generator=torch.Generator().manual_seed(2)).double()
    states = states * torch.linspace(0.2, 2, D)
    penalties = {
        name: torch.stack([loss(batch) for batch in states.split(2, dim=1)]).mean().item()
        for name, loss in (
            ("unbiased", UnbiasedIsoScoreLoss(strength=1.0, keep_padding=True)),
            ("istar", IStarLoss(D, strength=1.0, zeta=0.0, keep_padding=True)),
        )
    }
    whole = 1 - isoscore(states[1].flatten(0, 1)).item()
    assert penalties["unbiased"] == pytest.approx(whole, abs=0.02)
    assert penalties["istar"] > whole + 0.05


def test_cosreg_equals_the_authors_formula() -> None:
    """On the last layer, and on all layers with padding."""
    assert CosRegLoss()(STATES, MASK).item() == pytest.approx(
        authors_cosreg(STATES[-1][MASK.bool()]).item(), abs=1e-9
    )
    with_padding = CosRegLoss(strength=-3, layers="all", keep_padding=True)
    assert with_padding(STATES).item() == pytest.approx(
        -3 * authors_cosreg(STATES[1:].reshape(-1, D)).item(), abs=1e-9
    )


@pytest.mark.parametrize(
    "loss",
    [
        istar_loss(),
        istar_loss(strength=-1.0, zeta=0.0),
        CosRegLoss(layers="all"),
        UnbiasedIsoScoreLoss(strength=2.0),
    ],
    ids=["istar", "lower", "cosreg", "unbiased"],
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
    all_tokens = torch.cat([STATES[i][MASK.bool()] for i in (1, 2, 3)])
    assert loss.shrinkage.covariance().numpy() == pytest.approx(np.cov(all_tokens.T), abs=1e-10)
    first = loss(STATES, MASK)
    other = istar_loss()
    other.strength, other.zeta = 1.0, 0.2
    assert other(STATES, MASK) != first
    other.load_state_dict(loss.state_dict())
    assert other(STATES, MASK) == first
    loss.reset_shrinkage()
    with pytest.raises(ValueError, match="update_shrinkage"):
        loss(STATES, MASK)


def test_penalties_of_half_precision_states() -> None:
    """bfloat16 states give a float32 penalty, and gradients in bfloat16."""
    states = STATES.bfloat16().requires_grad_()
    for loss in (istar_loss(), CosRegLoss()):
        states.grad = None
        penalty = loss(states, MASK)
        penalty.backward()
        assert penalty.dtype == torch.float32
        assert penalty.item() == pytest.approx(loss(STATES, MASK).item(), abs=0.02)
        assert states.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: istar_loss(layers=[9])(STATES, MASK), "no such layer"),
        (lambda: istar_loss(layers="last"), "layers"),
        (lambda: IStarLoss(D, strength=1.0)(STATES, MASK), "update_shrinkage"),
        (lambda: istar_loss(zeta=0.0)(torch.ones(L, B, T, D), MASK), "equal"),
        (lambda: CosRegLoss()(STATES, MASK * 0), "no token"),
        (lambda: istar_loss()(STATES, MASK * 0), "at least 2 points"),
    ],
)
def test_invalid_input_is_rejected(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_training_works_after_inference_mode() -> None:
    """Values cached in inference mode can be used in training, and are updated."""
    expected = istar_loss()(STATES, MASK)
    loss = istar_loss()
    with torch.inference_mode():
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


def points_with_eigenvalues(n: int, values: list[float], seed: int = 0) -> torch.Tensor:
    """Return n points in float64 whose covariance (ddof = 1) has exactly these eigenvalues; if
    n <= d, random points."""
    generator = torch.Generator().manual_seed(seed)
    d = len(values)
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
    ids=[
        "all equal",
        "two groups",
        "half flat",
        "all equal, shrunk",
        "fewer points than dimensions",
    ],
)
def test_gradient_with_equal_eigenvalues(values: list[float], n: int, zeta: float) -> None:
    """Against central differences in double precision; in single precision compared with the
    authors' package."""
    X, shrinkage = (
        points_with_eigenvalues(n, values),
        torch.diag(torch.linspace(1, 2, len(values), dtype=torch.float64)),
    )

    def ours(points: torch.Tensor) -> torch.Tensor:
        return isoscore_star(points, zeta, shrinkage.double() if zeta else None)

    def gradient(
        function: Callable[[torch.Tensor], torch.Tensor], points: torch.Tensor
    ) -> torch.Tensor:
        points = points.detach().clone().requires_grad_()
        return torch.autograd.grad(function(points), points)[0].double()

    exact = gradient(ours, X)
    for i, j in ((0, 0), (3, 5), (n - 1, 7)):
        step = torch.zeros_like(X)
        step[i, j] = 1e-5
        difference = float(ours(X + step) - ours(X - step)) / 2e-5
        assert exact[i, j].item() == pytest.approx(difference, abs=2e-9)
    single = gradient(ours, X.float())
    theirs = gradient(
        lambda points: authors_isoscore_star(points, shrinkage.to(points.dtype), zeta), X.float()
    )
    # With all eigenvalues equal the score is maximal, and the gradient is 0
    scale = max(float(exact.abs().max()), 1 / n)
    error, their_error = (float((g - exact).abs().max()) / scale for g in (single, theirs))
    assert error < 2e-6
    assert error < 3 * their_error + 3e-7
    print(f"relative error in single precision: ours {error:.1e}, the authors' {their_error:.1e}")
