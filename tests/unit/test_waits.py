"""Loops never wait for a GPU: how often they read a number from the device is counted on the CPU,
where the same code runs.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from isotropy.device import to_device
from isotropy.losses import CosRegLoss, IStarLoss
from isotropy.metrics import isoscore_star, moving, silhouettes
from isotropy.metrics.moving import interpolated_silhouettes
from isotropy.models.loading import SDPA_WITH_GIVEN_MASK, avoid_reading_masks
from replication.finetune import train
from replication.finetune.data import collate
from replication.finetune.spec import Method
from replication.optimize.descent import Descent, Items
from replication.optimize.evaluator import Evaluator
from replication.optimize.windows import Windows
from tests.unit.factories import ISTAR, learnable_inputs, optimize_spec, tiny
from tests.unit.factories import finetune_spec as spec

CPU = torch.device("cpu")
COSREG = Method(kind="cosreg", strength=1.0)
READING = {"cpu", "numpy", "tolist"}
"""Methods of tensors that copy from the device, without an operator."""
WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "equal", "_unique2", "unique_dim"}
"""Operators of torch for which a GPU is waited for."""


class _Functions(TorchFunctionMode):
    def __init__(self, counts: Counter[str]) -> None:
        super().__init__()
        self.counts = counts

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in READING:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


class Waits(TorchDispatchMode):
    """Counts numbers that are read, selections by a mask, and copies to the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self._functions = _Functions(self.counts)

    def __enter__(self) -> Any:
        self._functions.__enter__()
        return super().__enter__()

    def __exit__(self, *args: Any) -> None:
        super().__exit__(*args)
        self._functions.__exit__(*args)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name().split("::")[-1].split(".")[0]
        masked = name in ("index", "index_put_") and any(
            i is not None and i.dtype == torch.bool for i in args[1]
        )
        if name in WAITING or masked:
            self.counts[name] += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", [Method(kind="none"), ISTAR, COSREG], ids=lambda m: m.kind)
@pytest.mark.parametrize("keep_padding", [False, True])
def test_an_update_of_fine_tuning_reads_nothing(
    method: Method, keep_padding: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two readings; that of all updates together is one."""
    monkeypatch.setattr(train, "READ_EVERY", 8)
    settings = spec(method, keep_padding=keep_padding, batch_size=2, epochs=4)
    run = train.TrainingRun(settings, tiny(), learnable_inputs(), 0, CPU)
    avoid_reading_masks(run.model)
    assert run.model.config._attn_implementation == SDPA_WITH_GIVEN_MASK
    run.step()  # estimates the shrinkage covariance
    with Waits() as waits:
        for _ in range(6):
            run.step()
    assert not waits.counts
    assert run.updates_per_epoch > 8
    with Waits() as waits:
        run.step()
    assert waits.counts == {"tolist": 1}
    assert len(run.rows) == 8


def test_penalties_select_by_position_as_by_mask() -> None:
    states = torch.randn(3, 4, 6, 8, dtype=torch.float64)
    mask = (torch.arange(6) < torch.tensor([6, 3, 1, 4])[:, None]).long()
    positions = to_device(np.flatnonzero(mask.numpy()), CPU)
    for make in (
        lambda **k: IStarLoss(8, strength=-2.0, zeta=0.0, **k),
        lambda **k: CosRegLoss(layers="all", **k),
    ):
        x, y = (states.clone().requires_grad_() for _ in range(2))
        by_mask, by_position = make()(x, mask), make(validate=False)(y, positions=positions)
        assert torch.allclose(by_mask, by_position, rtol=1e-14, atol=0)
        by_mask.backward(), by_position.backward()
        assert x.grad is not None
        assert torch.allclose(x.grad, y.grad, rtol=1e-12, atol=0)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", [(40, 8), (6, 8)])
def test_score_without_checks(shape: tuple[int, int]) -> None:
    """The same score and gradient; NaN where the score is undefined."""
    points = torch.randn(*shape, dtype=torch.float64)
    S = torch.cov(torch.randn(99, 8, dtype=torch.float64).T)
    for zeta, shrinkage in ((0.0, None), (0.3, S)):
        x, y = (points.clone().requires_grad_() for _ in range(2))
        checked = isoscore_star(x, zeta, shrinkage)
        unchecked = isoscore_star(y, zeta, shrinkage, validate=False)
        assert float(unchecked) == pytest.approx(float(checked), rel=1e-14)
        checked.backward(), unchecked.backward()  # type: ignore[union-attr, no-untyped-call]
        assert torch.allclose(x.grad, y.grad, rtol=1e-12, atol=1e-18)  # type: ignore[arg-type]
    equal, broken = torch.ones(shape), torch.full(shape, torch.nan)
    for undefined in (equal, broken):
        assert not np.isfinite(float(isoscore_star(undefined, 0.0, validate=False)))


def test_masks_are_taken_as_given() -> None:
    """The outputs are those of transformers' own way, with padding and without."""
    model, inputs = tiny().eval(), learnable_inputs()
    for rows in (range(4), [0]):
        batch = collate(inputs, list(rows), 0, CPU)
        expected = model(**batch.model_inputs).logits
        given = tiny().eval()
        avoid_reading_masks(given)
        with Waits() as waits:
            logits = given(**batch.model_inputs).logits
        assert not waits.counts
        assert torch.allclose(logits, expected, atol=1e-6)
        without = {k: v for k, v in batch.model_inputs.items() if k != "attention_mask"}
        if len(rows) == 1:
            assert torch.allclose(given(**without).logits, expected, atol=1e-6)


def test_a_window_of_a_trajectory_reads_per_node_not_per_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moving, "scores_from_sums", silhouettes._scores_by_torch)
    rng = np.random.default_rng(0)
    vectors = rng.standard_normal((300, 12)).astype(np.float32)
    items = Items(vectors, np.arange(300)[:, None], rng.integers(0, 2, 300))
    descent = Descent(optimize_spec(updates=400), items, 2, CPU)
    with Waits() as waits:
        for _ in range(20):
            descent.evaluate()
            descent.update()
    assert not waits.counts
    counts = {}
    for width in (64, 256):
        windows = Windows(Evaluator(items.targets, None, 0), tolerance=1.0, width=width)
        with Waits() as waits:
            rows = windows.advance_window(descent, width)
        assert rows is not None
        assert len(rows) == width
        counts[width] = waits.counts.total()
    assert counts[256] - counts[64] < 20


@pytest.mark.parametrize("n_classes", [2, 40, 700])
@pytest.mark.parametrize("close", ["none", "some", "collapsed"])
def test_sums_of_distances_on_a_gpu(
    n_classes: int, close: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its way, on the CPU in several tiles, gives the sums of the other; it reads once."""
    rng = np.random.default_rng(0)
    X, labels = rng.standard_normal((1500, 16)), rng.integers(0, n_classes, 1500)
    if close == "some":
        X[7] = X[8] + 1e-9
    if close == "collapsed":
        X = rng.standard_normal((n_classes, 16))[labels] + 1e-4 * X
    expected = silhouettes.distance_sums(X, labels)
    monkeypatch.setattr(silhouettes, "GPU_TILE", 400)
    codes, counts, order = silhouettes.sort_by_class(labels, len(X))
    cloud = silhouettes.normalized(torch.from_numpy(X)[order])
    parts = {}
    with Waits() as waits:
        silhouettes._sums_by_torch(cloud, codes, counts, lambda rows, s: parts.update({0: s}))
    if close == "none":
        assert waits.counts["tolist"] == 2  # sizes of classes, which are on the CPU, and close rows
        assert not waits.counts["nonzero"]
    sums = torch.empty_like(parts[0])
    sums[order] = parts[0]
    assert torch.allclose(sums, expected, rtol=1e-9, atol=1e-9)
    weights = rng.dirichlet(np.ones(3), size=4)
    nodes = torch.stack([sums, 2 * sums, sums + 1])
    means = interpolated_silhouettes(nodes, weights, labels)
    for row, mean in zip(weights, means, strict=True):
        interpolated = torch.tensordot(torch.tensor(row), nodes, 1)
        direct = silhouettes.silhouette_from_sums(interpolated, labels)
        assert mean == pytest.approx(float(direct.mean()), abs=1e-12)
        given = silhouettes.as_codes(labels, len(X))
        by_torch = silhouettes._scores_by_torch(interpolated, given, torch.bincount(given))
        assert torch.allclose(by_torch, direct, atol=1e-12)
