"""Direct optimization: the embeddings are the parameters, with a linear classifier on top (Mickus
et al. 2024, section 3).

Full-batch Adam with PyTorch's defaults on the whole data set. There are no held-out data, by
design: the question is how the geometry of the points changes as they become linearly separable.
This module has the training loop; `descent` makes updates, `evaluator` computes scores, and
`windows` interpolates the scores of many updates from a few evaluations.
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
from safetensors.torch import save_file
from tqdm import tqdm

from isotropy.checkpoint import CheckpointTimer, read_checkpoint
from isotropy.files import atomic
from isotropy.metrics.identities import (
    hinged_triplet_objective,
    silhouette_objective,
    triplet_objective,
)
from replication.optimize.descent import Descent, Items, read_evaluations
from replication.optimize.evaluator import Evaluator
from replication.optimize.spec import NODES, Objectives, OptimizeSpec, TrajectoryFacts
from replication.optimize.windows import DIRECT_UPDATES, MIN_WIDTH, ZERO_FACTS, Windows
from replication.prepare.table import Dataset
from replication.provenance.lineage import Lineage

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = 5.0
"""Seconds of work that a killed run may lose, plus one window; results do not depend on it."""
CHECKPOINT_PAUSE = 20  # pause between checkpoints as a multiple of the time that one takes
OBJECTIVE_ITEMS = 200
"""Size of the sample for the objectives of Appendix B: the hinged one is a sum over all
triplets."""


def optimize(
    spec: OptimizeSpec, items: Items, n_labels: int, device: torch.device, work: Path
) -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any]]:
    """Optimize embeddings for a classification task and measure them after every update.

    Args:
        spec: task, measurement and hyper-parameters.
        items: the data set; its vectors are not yet scaled to `mean_norm`.
        n_labels: number of outputs of the classifier.
        device: device on which to compute.
        work: folder of the checkpoint from which a killed run is resumed; the results are
            byte-identical to those of an uninterrupted run.

    Returns:
        One row per step (step, loss, accuracy, isoscore, silhouette), where step 0 is before the
        first update; facts about the evaluation that do not depend on the machine (those of
        `windows`, `objectives`, `n_params`); and measurements of this run, such as its speed.

    Raises:
        IsotropyError: the targets do not fit the loss or are all equal, or the loss is not finite.
    """
    run = _Optimization(spec, items, n_labels, device)
    checkpoint = work / "checkpoint.safetensors"
    run.start(checkpoint)
    first_update = run.descent.step
    started = perf_counter()
    _run_to_end(run, checkpoint)
    run.objectives.append(_compute_objectives(run.descent, items.targets))
    facts = ZERO_FACTS if run.windows is None else run.windows.facts
    seconds = perf_counter() - started
    return (
        pd.DataFrame(run.rows),
        {**facts, "objectives": run.objectives, "n_params": run.descent.model.n_params()},
        {
            "device": str(device),
            "updates_taken_up_from_a_killed_run": first_update,
            "seconds": round(seconds, 3),
            "updates_per_second": round((spec.updates - first_update) / seconds, 2),
            **facts,
        },
    )


class _Optimization:
    """State of a run between two updates.

    Attributes:
        descent: the parameters and their optimizer.
        windows: interpolates scores in windows of updates; None: every step is evaluated directly.
        rows: results of each step so far.
        objectives: the objectives at the start and at the end.
        direct_updates_left: updates to evaluate directly before the next window is tried.
    """

    def __init__(
        self, spec: OptimizeSpec, items: Items, n_labels: int, device: torch.device
    ) -> None:
        self.spec, self.targets = spec, items.targets
        self.descent = Descent(spec, items, n_labels, device)
        self.evaluator = Evaluator(items.targets, spec.measure.sample_size, spec.seed)
        self.windows: Windows | None = None
        if spec.measure.tolerance is not None and self.evaluator.can_interpolate(NODES):
            self.windows = Windows(self.evaluator, spec.measure.tolerance)
        self.rows: list[dict[str, Any]] = []
        self.objectives: list[Objectives] = []
        self.direct_updates_left = 0

    def start(self, checkpoint: Path) -> None:
        """Resume from a checkpoint; without one, evaluate step 0."""
        self.rows, self.objectives = _load(checkpoint, self.descent, self.windows)
        if self.descent.step:
            log.info("resuming from update %d of an interrupted run", self.descent.step)
        else:
            self.rows = [self._measure()]
            self.objectives = [_compute_objectives(self.descent, self.targets)]

    def advance(self) -> None:
        """Advance by a window of updates if possible, else by a few updates or a single one. A
        window that fails changes nothing but the width of the next one.
        """
        updates_left = self.spec.updates - self.descent.step
        if self.windows is None:
            self.descent.update()
            self.rows.append(self._measure())
        elif not self.direct_updates_left and updates_left >= MIN_WIDTH:
            new_rows = self.windows.advance_window(self.descent, updates_left)
            if new_rows is None and self.windows.width < MIN_WIDTH:
                self.windows.width, self.direct_updates_left = MIN_WIDTH, MIN_WIDTH
            self.rows += new_rows or []
        else:
            steps = min(updates_left, DIRECT_UPDATES)
            self.rows += self.windows.advance_directly(self.descent, steps)
            self.direct_updates_left = max(self.direct_updates_left - steps, 0)

    def _measure(self) -> dict[str, Any]:
        """Evaluate loss, accuracy and scores at the current step."""
        # The loss first, to stop if it is not finite.
        (row,) = read_evaluations([self.descent.evaluate()])
        return row | self.evaluator.scores(self.descent.model, self.descent.step)._asdict()


def _run_to_end(run: _Optimization, checkpoint: Path) -> None:
    """Make all remaining updates; show progress and save checkpoints regularly."""
    spec, descent = run.spec, run.descent
    last_logged = perf_counter()
    pace = CheckpointTimer(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE)
    quiet = not sys.stderr.isatty()
    with tqdm(
        total=spec.updates, initial=descent.step, unit="update", disable=quiet, desc=spec.setup
    ) as bar:
        while descent.step < spec.updates:
            if pace.due() and not run.direct_updates_left:
                save_started = perf_counter()
                _save(checkpoint, descent, run.windows, run.rows, run.objectives)
                pace.note_saved(save_started)
            run.advance()
            bar.update(descent.step - bar.n)
            if quiet and perf_counter() - last_logged > LOG_SECONDS:
                last_logged, row = perf_counter(), run.rows[-1]
                scores = f"IsoScore {row['isoscore']:.4f}, silhouette {row['silhouette']:.4f}"
                log.info("update %d of %d: %s", descent.step, spec.updates, scores)


def _compute_objectives(descent: Descent, targets: np.ndarray) -> Objectives:
    """Compute the objectives of Appendix B; the sample of items is the same at every step and for
    every seed.
    """
    sample = np.sort(np.random.default_rng(0).permutation(len(targets))[:OBJECTIVE_ITEMS])
    points = descent.model.points(torch.from_numpy(sample).to(descent.targets.device)).cpu()
    labels = np.unique(targets[sample], axis=0, return_inverse=True)[1].reshape(-1)
    has_two_classes = len(np.unique(labels)) > 1
    all_points = descent.model.points()
    return Objectives(
        step=descent.step,
        silhouette=silhouette_objective(all_points, targets),
        triplet=triplet_objective(all_points, targets),
        sample_triplet=triplet_objective(points, labels) if has_two_classes else None,
        sample_hinged=hinged_triplet_objective(points, labels) if has_two_classes else None,
    )


def _save(
    path: Path,
    descent: Descent,
    windows: Windows | None,
    rows: list[dict[str, Any]],
    objectives: list[Objectives],
) -> None:
    """Save a checkpoint: parameters, Adam's moments, state of the windows and results so far."""
    metadata = {
        "step": str(descent.step),
        "rows": json.dumps(rows),
        "objectives": json.dumps([o.model_dump() for o in objectives]),
        "windows": json.dumps(None if windows is None else windows.saved_state(descent)),
    }
    with atomic(path) as temporary:
        save_file(descent.state(), temporary, metadata=metadata)


def _load(
    path: Path, descent: Descent, windows: Windows | None
) -> tuple[list[dict[str, Any]], list[Objectives]]:
    """Restore descent and windows from a checkpoint; return its rows and objectives, or empty lists
    if there is none.
    """
    if not path.is_file():
        return [], []
    tensors, metadata = read_checkpoint(path)
    descent.restore(tensors, int(metadata["step"]))
    if windows is not None:
        windows.resume(descent, json.loads(metadata["windows"]))
    return json.loads(metadata["rows"]), [
        Objectives.model_validate(o) for o in json.loads(metadata["objectives"])
    ]


def describe_run(
    spec: OptimizeSpec,
    items: Items,
    dataset: Dataset,
    n_labels: int,
    lineage: Lineage,
    facts: dict[str, Any],
) -> TrajectoryFacts:
    """Collect facts about a run, which depend on spec and inputs alone; `facts` are from
    `optimize`.
    """
    n_items = len(items.targets)
    scaling = "" if spec.mean_norm is None else f", scaled to mean norm {spec.mean_norm:g}"
    return TrajectoryFacts.of(
        spec,
        lineage,
        model=spec.embedding,
        data=lineage.titles("dataset", "lexicon")[0]
        + (f", a sample of {n_items}" if dataset.sampled or spec.control else ""),
        embedding=lineage.titles("model", "vectors")[0] + scaling,
        evaluation=_describe_evaluation(spec, n_items, facts),
        error_bound=facts["error_bound"],
        n_items=n_items,
        n_vectors=len(items.vectors),
        n_params=facts["n_params"],
        dim=items.vectors.shape[1],
        n_labels=n_labels,
        n_classes=len(np.unique(items.targets, axis=0)),
        objectives=facts["objectives"],
    )


def _describe_evaluation(spec: OptimizeSpec, n_items: int, facts: dict[str, Any]) -> str:
    """Describe in words how the scores were evaluated."""
    text = f"metrics at step 0 and after each of {spec.updates:,} updates"
    if spec.measure.samples(n_items):
        return f"{text}, on {spec.measure.sample_size:,} items drawn each time"
    if facts["windows"]:
        return (
            f"{text}, interpolated between evaluations (certified error below "
            f"{spec.measure.tolerance:g})"
        )
    return text
