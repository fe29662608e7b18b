"""I-STAR and CosReg on hidden states of a real transformer and on made ones, against the authors'
formulas."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from IsoScore import IsoScore as published_package
from transformers import BertConfig, BertModel

from isotropy.losses import CosRegLoss, IStarLoss
from isotropy.metrics import isoscore, isoscore_star

L, B, T, D = 4, 3, 7, 16
GENERATOR = torch.Generator().manual_seed(0)
STATES = torch.randn(L, B, T, D, generator=GENERATOR).double() + 0.5
MASK = torch.tensor([[1] * 7, [1] * 5 + [0] * 2, [1] * 2 + [0] * 5])


def authors_istar(points: torch.Tensor, C0: torch.Tensor, zeta: float) -> torch.Tensor:
    """The authors' module, on the CPU."""
    return published_package.istar().IsoScore_star(points, C0, zeta, is_eval=False)


def authors_cosreg(points: torch.Tensor) -> torch.Tensor:
    """The authors' formula: (sum of all cosines - N) / N^2."""
    units = torch.nn.functional.normalize(points, dim=1)
    return ((units @ units.T).sum() - len(points)) / len(points) ** 2


def made(**options: object) -> IStarLoss:
    loss = IStarLoss(D, **{"strength": 2.0, "zeta": 0.3, **options})  # type: ignore[arg-type]
    loss.update_shrinkage(
        torch.randn(L, B, T, D, generator=torch.Generator().manual_seed(1)).double(),
        torch.ones(B, T),
    )
    return loss


def test_istar_is_the_authors_formula() -> None:
    """All layers but the embeddings; with padding, as they do, and without."""
    kept = made(keep_padding=True)
    C0 = kept.shrinkage.covariance()
    points = STATES[1:].reshape(-1, D)
    assert kept(STATES).item() == pytest.approx(
        2 * (1 - authors_istar(points, C0, 0.3).item()), abs=1e-6
    )
    masked = made()
    points = torch.cat([STATES[i][MASK.bool()] for i in (1, 2, 3)])
    assert len(points) == 3 * 14
    assert masked(STATES, MASK).item() == pytest.approx(
        2 * (1 - authors_istar(points, C0, 0.3).item()), abs=1e-6
    )
    assert masked(STATES, MASK) != kept(STATES)
    last = made(layers=[-1], zeta=0.0)
    assert last(tuple(STATES), MASK).item() == pytest.approx(
        2 * (1 - isoscore(STATES[-1][MASK.bool()]).item()), abs=1e-9
    )


def test_cosreg_is_the_authors_formula() -> None:
    """The last layer; division by N^2."""
    assert CosRegLoss()(STATES, MASK).item() == pytest.approx(
        authors_cosreg(STATES[-1][MASK.bool()]).item(), abs=1e-9
    )
    kept = CosRegLoss(strength=-3, layers="all", keep_padding=True)
    assert kept(STATES).item() == pytest.approx(
        -3 * authors_cosreg(STATES[1:].reshape(-1, D)).item(), abs=1e-9
    )


@pytest.mark.parametrize(
    "loss",
    [made(), made(strength=-1.0, zeta=0.0), CosRegLoss(layers="all")],
    ids=["istar", "lower", "cosreg"],
)
def test_gradients(loss: IStarLoss) -> None:
    """First and second derivatives by finite differences; padding gets none."""
    states = STATES[:, :2, :3].clone().requires_grad_()
    mask = torch.tensor([[1, 1, 1], [1, 0, 0]])
    assert torch.autograd.gradcheck(lambda s: loss(s, mask), (states,))
    assert torch.autograd.gradgradcheck(lambda s: loss(s, mask), (states,))
    torch.autograd.backward(loss(states, mask))
    assert states.grad[:, 1, 1:].abs().max() == 0
    assert states.grad[0].abs().max() == 0  # the embedding layer
    assert states.grad[1:, 0].abs().min() > 0


def test_a_positive_strength_raises_isotropy_of_a_real_model_and_a_negative_lowers_it() -> None:
    """A randomly initialized BERT, ten steps on the penalty alone."""
    found = {}
    for strength in (1.0, -1.0):
        torch.manual_seed(0)
        config = BertConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            hidden_dropout_prob=0,
            attention_probs_dropout_prob=0,
        )
        model = BertModel(config)
        ids, mask = torch.randint(0, 50, (8, 12)), torch.ones(8, 12, dtype=torch.int64)
        mask[::2, 8:] = 0
        loss = IStarLoss(32, strength=strength, zeta=0.2)
        given = {"input_ids": ids, "attention_mask": mask, "output_hidden_states": True}
        states = lambda model=model, given=given: model(**given).hidden_states  # noqa: E731
        seen = loss.update_shrinkage(states(), mask)
        assert seen == 2 * int(mask.sum())
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        scores = []
        for _ in range(10):
            penalty = loss(states(), mask)
            scores.append(1 - penalty.item() / strength)
            optimizer.zero_grad()
            penalty.backward()
            optimizer.step()
        found[strength] = scores
    assert found[1.0][-1] > found[1.0][0] + 0.01
    assert found[-1.0][-1] < found[-1.0][0] - 0.01


def test_shrinkage_streams_resets_and_is_saved() -> None:
    """Batch by batch equals all at once; the state goes with the module."""
    loss = IStarLoss(D, strength=1.0)
    for i in range(B):
        loss.update_shrinkage(STATES[:, i : i + 1], MASK[i : i + 1])
    whole = torch.cat([STATES[i][MASK.bool()] for i in (1, 2, 3)])
    assert loss.shrinkage.covariance().numpy() == pytest.approx(np.cov(whole.T), abs=1e-10)
    first = loss(STATES, MASK)
    other = made()
    other.strength, other.zeta = 1.0, 0.2
    assert other(STATES, MASK) != first
    other.load_state_dict(loss.state_dict())
    assert other(STATES, MASK) == first
    loss.reset_shrinkage()
    with pytest.raises(ValueError, match="update_shrinkage"):
        loss(STATES, MASK)


def test_half_precision() -> None:
    """bfloat16 states give a float32 penalty, and gradients in bfloat16."""
    states = STATES.bfloat16().requires_grad_()
    for loss in (made(), CosRegLoss()):
        states.grad = None
        penalty = loss(states, MASK)
        penalty.backward()
        assert penalty.dtype == torch.float32
        assert penalty.item() == pytest.approx(loss(STATES, MASK).item(), abs=0.02)
        assert states.grad.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: made()(STATES), "pass attention_mask"),
        (lambda: CosRegLoss()(STATES), "pass attention_mask"),
        (lambda: made()(STATES, MASK[:, :-1]), r"shape \(3, 7\)"),
        (lambda: made(layers=[9])(STATES, MASK), "no such layer"),
        (lambda: made(layers="last"), "layers"),
        (lambda: made(layers=[]), "layers"),
        (lambda: made(zeta=1.1), "zeta"),
        (lambda: IStarLoss(D, strength=1.0)(STATES, MASK), "update_shrinkage"),
        (lambda: made()(STATES[0], MASK), r"\(B, T, d\)"),
        (lambda: made()(STATES[..., :5], MASK), "dimensions"),
        (lambda: made()(STATES * torch.nan, MASK), "NaN"),
        (lambda: made(zeta=0.0)(torch.ones(L, B, T, D), MASK), "equal"),
        (lambda: CosRegLoss()(STATES, MASK * 0), "no token"),
        (lambda: made()(STATES, MASK * 0), "at least 2 points"),
    ],
)
def test_bad_input(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_an_evaluation_in_inference_mode_is_no_hindrance() -> None:
    """What it computes of the estimate, training uses: the same penalty, and its gradient."""
    expected = made()(STATES, MASK)
    loss = made()
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


def test_any_change_of_the_estimate_is_seen() -> None:
    """Merging shards, or loading a state, through the public attribute: no stale estimate is
    used."""
    loss, other = made(), made()
    before = loss(STATES, MASK)
    other.shrinkage.update(
        100 * torch.randn(500, D, generator=GENERATOR).double() * torch.linspace(0, 1, D)
    )
    loss.shrinkage.merge(other.shrinkage)
    after = loss(STATES, MASK)
    assert after != before
    fresh = made()
    fresh.shrinkage.load_state_dict(loss.shrinkage.state_dict())
    assert fresh(STATES, MASK) == after
    loss.shrinkage.reset()
    with pytest.raises(ValueError, match="update_shrinkage"):
        loss(STATES, MASK)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu_equals_cpu() -> None:
    loss = made()
    expected = loss(STATES, MASK).item()
    assert loss.cuda()(STATES.cuda(), MASK.cuda()).item() == pytest.approx(expected, abs=1e-9)
    cosreg = CosRegLoss()
    assert cosreg(STATES.cuda(), MASK.cuda()).item() == pytest.approx(
        cosreg(STATES, MASK).item(), abs=1e-9
    )


def spread(n: int, values: list[float], seed: int = 0) -> torch.Tensor:
    """n points whose covariance has exactly these eigenvalues (ddof = 1), float64; with n <= d as
    many zeros as it must."""
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
def test_gradient_where_eigenvalues_coincide(values: list[float], n: int, zeta: float) -> None:
    """Against central differences in double precision; and in single precision, beside the authors'
    module."""
    X, shrinkage = (
        spread(n, values),
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
        lambda points: authors_istar(points, shrinkage.to(points.dtype), zeta), X.float()
    )
    # Where all are equal the score is at its largest, and the gradient is 0
    scale = max(float(exact.abs().max()), 1 / n)
    error, their_error = (float((g - exact).abs().max()) / scale for g in (single, theirs))
    assert error < 2e-6
    assert error < 3 * their_error + 3e-7
    print(f"relative error in single precision: ours {error:.1e}, the authors' {their_error:.1e}")
