"""Direct optimization: the embeddings are the parameters, with a linear classifier on top (Mickus et al. 2024, section 3).

Full-batch Adam at PyTorch's defaults on the whole set; no held-out data, by design: the question is how the geometry of
the points changes as they become linearly separable.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional
from tqdm import tqdm

from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.metrics.isoscores import isoscore
from isotropy.metrics.silhouettes import silhouette
from isotropy.optimize.spec import OptimizeSpec, Run
from isotropy.prepare.table import Dataset
from isotropy.provenance.record import Lineage

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = 5.0  # how much work a killed run loses at most; where it is cut does not change the result


class Classifier(nn.Module):
    """Trainable embeddings, shape (n, d), and a linear layer over them."""

    def __init__(self, embeddings: np.ndarray, n_labels: int, *, bias: bool, seed: int) -> None:
        super().__init__()
        self.embeddings = nn.Parameter(torch.from_numpy(embeddings.astype(np.float32)))
        with torch.random.fork_rng(devices=[]):  # the layer's default initialization, from this seed alone
            torch.manual_seed(seed)
            self.linear = nn.Linear(embeddings.shape[1], n_labels, bias=bias)

    def forward(self) -> torch.Tensor:
        """Logits of all items, shape (n, n_labels)."""
        logits: torch.Tensor = self.linear(self.embeddings)
        return logits

    def n_params(self) -> int:
        """Number of trainable numbers, as in the paper's Tables 1 and 2."""
        return sum(p.numel() for p in self.parameters())


def optimize(
    spec: OptimizeSpec, embeddings: np.ndarray, targets: np.ndarray, n_labels: int, device: torch.device, work: Path
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Optimize embeddings for a classification task and measure them on the way.

    Args:
        spec: task, schedule and hyper-parameters.
        embeddings: starting points, shape (n, d), before `mean_norm` scales them.
        targets: class numbers, shape (n,), for cross-entropy; indicators, shape (n, n_labels), for binary cross-entropy.
        n_labels: outputs of the classifier.
        device: where to compute.
        work: folder of the checkpoint from which a killed run goes on, with the same bytes as an undisturbed one.

    Returns:
        One row per evaluated step (step, loss, accuracy, isoscore, silhouette), and what was measured. Accuracy is the
        share of right decisions: one per item, or one per item and label.

    Raises:
        IsotropyError: targets that do not fit the loss or are all alike, or a loss that is not finite.
    """
    if (spec.loss == "cross_entropy") != (targets.ndim == 1):
        raise IsotropyError(f"setup {spec.setup}: loss {spec.loss} does not fit targets of shape {targets.shape}")
    if len(np.unique(targets, axis=0)) < 2:
        raise IsotropyError(f"setup {spec.setup}: all items have the same label, there is nothing to classify")
    if spec.mean_norm is not None:
        embeddings = embeddings * (spec.mean_norm / np.linalg.norm(embeddings, axis=1).mean(dtype=np.float64)).astype(
            np.float32
        )
    model = Classifier(embeddings, n_labels, bias=spec.bias, seed=spec.seed).to(device)
    adam = torch.optim.Adam(model.parameters(), lr=spec.learning_rate, fused=True)
    goal = torch.from_numpy(targets).to(device)
    evaluated = set(spec.schedule.steps(spec.updates))
    checkpoint = work / "checkpoint.safetensors"
    first, rows = _load(checkpoint, model, adam)
    if first:
        log.info("going on from update %d of a killed run", first)
    started = saved = said = perf_counter()
    metric_seconds = 0.0
    with tqdm(total=spec.updates, initial=first, unit="update", disable=not sys.stderr.isatty(), desc=spec.setup) as bar:
        for step in range(first, spec.updates + 1):
            logits = model()
            loss = _loss(logits, goal)
            if step in evaluated:
                clock = perf_counter()
                rows.append(_measure(step, float(loss.detach()), logits.detach(), goal, model.embeddings.detach(), targets))
                metric_seconds += perf_counter() - clock
            if step == spec.updates:
                break
            if perf_counter() - saved > CHECKPOINT_SECONDS:
                _save(checkpoint, model, adam, step, rows)
                saved = perf_counter()
            if not sys.stderr.isatty() and perf_counter() - said > LOG_SECONDS:
                said, row = perf_counter(), rows[-1]
                log.info(
                    "update %d of %d: IsoScore %.4f, silhouette %.4f", step, spec.updates, row["isoscore"], row["silhouette"]
                )
            adam.zero_grad(set_to_none=True)
            torch.autograd.backward(loss)
            adam.step()
            bar.update()
    seconds = perf_counter() - started
    return pd.DataFrame(rows), {
        "device": str(device),
        "updates_taken_up_from_a_killed_run": first,
        "seconds": round(seconds, 3),
        "metric_seconds": round(metric_seconds, 3),
        "metric_share": round(metric_seconds / seconds, 4),
    }


def describe_run(spec: OptimizeSpec, embeddings: np.ndarray, targets: np.ndarray, dataset: Dataset, lineage: Lineage) -> Run:
    """Facts about a run that its tables and figures need; the same for the same spec and inputs."""
    titles = {source["kind"]: source["content"]["title"] for source in lineage.sources}
    n_labels = len(dataset.label_names)
    scaled = "" if spec.mean_norm is None else f", scaled to mean norm {spec.mean_norm:g}"
    return Run(
        setup=spec.setup,
        dataset=spec.dataset,
        model=spec.embedding,
        seed=spec.seed,
        data=(titles.get("dataset") or titles["lexicon"]) + (f", a sample of {len(targets)}" if dataset.sampled else ""),
        embedding=(titles.get("model") or titles["vectors"]) + scaled,
        status=lineage.status,
        schedule=spec.schedule.describe(spec.updates),
        n_items=len(targets),
        n_vectors=len(embeddings),
        n_params=Classifier(embeddings, n_labels, bias=spec.bias, seed=spec.seed).n_params(),
        dim=embeddings.shape[1],
        n_labels=n_labels,
        n_classes=len(np.unique(targets, axis=0)),
        loss=spec.loss,
        bias=spec.bias,
    )


def _loss(logits: torch.Tensor, goal: torch.Tensor) -> torch.Tensor:
    if goal.ndim == 1:
        return functional.cross_entropy(logits, goal)
    return functional.binary_cross_entropy_with_logits(logits, goal)


def _measure(
    step: int, loss: float, logits: torch.Tensor, goal: torch.Tensor, points: torch.Tensor, targets: np.ndarray
) -> dict[str, Any]:
    """One row of the trajectory.

    Raises:
        IsotropyError: the loss is not finite.
    """
    if not np.isfinite(loss):
        raise IsotropyError(f"the loss is {loss} at update {step}: training diverged; lower the learning rate")
    right = logits.argmax(dim=1) == goal if goal.ndim == 1 else (logits > 0) == (goal > 0.5)
    return {
        "step": step,
        "loss": loss,
        "accuracy": float(right.double().mean()),
        "isoscore": float(isoscore(points)),
        "silhouette": silhouette(points, targets),
    }


def _save(path: Path, model: Classifier, adam: torch.optim.Adam, step: int, rows: list[dict[str, Any]]) -> None:
    """Keep parameters, Adam's moments and the rows so far, before update `step` + 1."""
    tensors = {f"parameter.{name}": p.detach() for name, p in model.named_parameters()}
    for name, p in model.named_parameters():
        tensors |= {f"adam.{key}.{name}": value for key, value in adam.state[p].items()}
    with atomic(path) as temporary:
        save_file(tensors, temporary, metadata={"step": str(step), "rows": json.dumps(rows)})


def _load(path: Path, model: Classifier, adam: torch.optim.Adam) -> tuple[int, list[dict[str, Any]]]:
    """Put a checkpoint into model and optimizer; return the step to go on with and the rows before it.

    The row of that step, if it was evaluated, was taken before the checkpoint; it is dropped and taken again.
    """
    if not path.is_file():
        return 0, []
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
        tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    state: dict[int, dict[str, torch.Tensor]] = {}
    with torch.no_grad():
        for i, (name, p) in enumerate(model.named_parameters()):
            p.copy_(tensors[f"parameter.{name}"])
            state[i] = {key: tensors[f"adam.{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
    adam.load_state_dict({**adam.state_dict(), "state": state})
    step = int(metadata["step"])
    return step, [row for row in json.loads(metadata["rows"]) if row["step"] < step]
