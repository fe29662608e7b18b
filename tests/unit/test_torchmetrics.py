"""Metrics of torchmetrics equal those of the library: over batches, merged, and over processes."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import distributed, multiprocessing
from torchmetrics import MetricCollection

from isotropy.integrations.torchmetrics import IsoScore, IsoScoreStar, MeanCosine, PartitionIsotropy
from isotropy.metrics import isoscore, isoscore_star, mean_cosine, partition_isotropy
from isotropy.metrics.unbiased import StreamingUnbiasedIsoScore
from tests.unit.process_groups import leave_together

D, ZETA = 5, 0.3


def vectors(n: int = 120) -> torch.Tensor:
    draws = np.random.default_rng(0)
    return torch.from_numpy(draws.normal(size=(n, D)) * np.arange(1, D + 1) + 3).float()


def shrinkage() -> torch.Tensor:
    return torch.diag(torch.arange(1.0, D + 1))


def collection() -> MetricCollection:
    star, partition = IsoScoreStar(D, ZETA, shrinkage()), PartitionIsotropy(D, log=True)
    return MetricCollection([IsoScore(D), star, MeanCosine(D), partition])


def expected(X: torch.Tensor) -> dict[str, float]:
    return {
        "IsoScore": float(isoscore(X)),
        "IsoScoreStar": float(isoscore_star(X, ZETA, shrinkage())),
        "MeanCosine": mean_cosine(X),
        "PartitionIsotropy": partition_isotropy(X, log=True),
    }


def values(metrics: MetricCollection) -> dict[str, float]:
    return {name: float(value) for name, value in metrics.compute().items()}


@pytest.mark.parametrize("offset", [0, 1000])
def test_batches_are_the_whole(offset: float) -> None:
    """Also a batch of one vector, far from the origin, after a reset."""
    X, metrics = vectors() + offset, collection()
    for _ in range(2):
        metrics.reset()
        for batch in (X[:50], X[50:51], X[51:]):
            metrics.update(batch)
        assert values(metrics) == pytest.approx(expected(X), rel=1e-5, abs=1e-7)


def test_metrics_made_in_an_evaluation_are_updated_in_training() -> None:
    X = vectors()
    with torch.inference_mode():
        metrics, stream = collection(), StreamingUnbiasedIsoScore(D)
    for batch in X.split(40):
        metrics.update(batch)
        stream.update(batch)
    assert values(metrics) == pytest.approx(expected(X), rel=1e-5)
    assert stream.compute() == pytest.approx(float(isoscore(X)), rel=1e-5)


def test_forward_gives_the_value_of_the_batch() -> None:
    X, metrics = vectors(), collection()
    for batch in X.split(40):
        assert metrics(batch) == pytest.approx(expected(batch), rel=1e-5)
    assert values(metrics) == pytest.approx(expected(X), rel=1e-5)


@pytest.mark.parametrize(
    "convert",
    [
        torch.nn.Module.half,
        torch.nn.Module.bfloat16,
        lambda module: module.to(torch.float16),
        lambda module: [metric.set_dtype(torch.float16) for metric in module],
    ],
)
def test_conversion_of_a_module_does_not_round(convert: Callable[[Any], object]) -> None:
    X, sigma = vectors(), torch.diag(torch.arange(1.0, D + 1)) / 3
    metrics = [*collection().values(), IsoScoreStar(D, 0.9, sigma)]
    for batch in X.split(70):
        for metric in metrics:
            metric.update(batch)
        convert(torch.nn.ModuleList(metrics))
    scores = [*expected(X).values(), float(isoscore_star(X, 0.9, sigma))]
    assert [float(metric.compute()) for metric in metrics] == pytest.approx(scores, rel=1e-5)


def test_arguments_may_be_overwritten() -> None:
    """By the next batch, or the next estimate of Sigma_S."""
    X, metrics, sigma = vectors(), collection(), shrinkage().double()
    star, buffer = IsoScoreStar(D, ZETA, sigma), torch.empty(40, D)
    sigma.zero_()
    for batch in X.split(40):
        buffer.copy_(batch)
        metrics.update(buffer)
        star.update(buffer)
    assert values(metrics) == pytest.approx(expected(X), rel=1e-5)
    assert float(star.compute()) == pytest.approx(expected(X)["IsoScoreStar"], rel=1e-5)


def test_states_are_merged_saved_and_copied() -> None:
    X = vectors()
    for name, first in collection().items():
        second = first.clone()
        first.update(X[:20])
        second.update(X[20:])
        second.persistent(True)
        restored = first.clone()
        restored.reset()
        restored.load_state_dict(second.state_dict())
        first.merge_state(restored)
        assert float(first.compute()) == pytest.approx(expected(X)[name], rel=1e-5), name
        assert float(pickle.loads(pickle.dumps(first)).compute()) == float(first.compute())


def work(rank: int, folder: str) -> None:
    """Measure the share of a process, and write the value of all."""
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2
    )
    X, metrics = vectors(), collection()
    for batch in X[:90].split(40) if rank == 0 else X[90:].split(13):
        metrics.update(batch)
    together = values(metrics)
    alone = collection()
    if rank == 0:
        alone.update(X)
    Path(folder, f"{rank}.json").write_text(json.dumps([together, values(alone)]))
    leave_together(Path(folder, f"{one}.json") for one in range(2))


def test_two_processes(tmp_path: Path) -> None:
    """With shares of different size, and with one process that has seen nothing."""
    multiprocessing.spawn(work, (str(tmp_path),), nprocs=2)
    for rank in range(2):
        for scores in json.loads((tmp_path / f"{rank}.json").read_text()):
            assert scores == pytest.approx(expected(vectors()), rel=1e-5)


@pytest.mark.parametrize("name", ["IsoScore", "IsoScoreStar", "MeanCosine", "PartitionIsotropy"])
def test_invalid_vectors_are_refused(name: str) -> None:
    metric = collection()[name]
    for batch in (torch.ones(3, D + 1), torch.ones(3), torch.full((3, D), torch.nan)):
        with pytest.raises(ValueError, match=r"dimensions|shape|NaN"):
            metric.update(batch)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: IsoScoreStar(D, 2, shrinkage()), "zeta"),
        (lambda: IsoScoreStar(D, ZETA, torch.eye(3)), "5, 5"),
        (lambda: MeanCosine(D).compute(), "at least 2"),
    ],
)
def test_invalid_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_a_missing_package_is_named() -> None:
    program = (
        "import sys; sys.modules['torchmetrics'] = None\nimport isotropy.integrations.torchmetrics"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    last_line = done.stderr.strip().splitlines()[-1]
    assert last_line.startswith("ModuleNotFoundError: isotropy.integrations.torchmetrics")
    assert "pip install torchmetrics" in last_line
