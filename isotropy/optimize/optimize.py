"""Direct optimization: the embeddings are the parameters, with a linear classifier on top (Mickus
et al. 2024, section 3).

Full-batch Adam at PyTorch's defaults on the whole set; no held-out data, by design: the question is
how the geometry of the points changes as they become linearly separable. This is the loop;
`descent` is an update, `evaluator` a measurement, `windows` takes the measurements of many updates
from a few.
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

from isotropy.checkpoint import Pace, read_checkpoint
from isotropy.files import atomic
from isotropy.metrics.identities import (
    hinged_triplet_objective,
    silhouette_objective,
    triplet_objective,
)
from isotropy.optimize.descent import Descent, Items
from isotropy.optimize.evaluator import Evaluator
from isotropy.optimize.spec import NODES, Objectives, OptimizeSpec
from isotropy.optimize.windows import BY_STEPS, MIN_WIDTH, NO_WINDOWS, Windows

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = 5.0
"""How much work a killed run loses, and at most one window; where it is cut changes nothing."""
CHECKPOINT_PAUSE = 20  # times the time that the last one took: large models would do little else
OBJECTIVE_ITEMS = 200
"""Sampled for the objectives of Appendix B, whose hinged form is a sum over all triplets."""


def optimize(
    spec: OptimizeSpec, items: Items, n_labels: int, device: torch.device, work: Path
) -> tuple[pd.DataFrame, dict[str, Any], dict[str, Any]]:
    """Optimize embeddings for a classification task and measure them after every update.

    Args:
        spec: task, measurement and hyper-parameters.
        items: the data set; its vectors are those before `mean_norm` scales them.
        n_labels: outputs of the classifier.
        device: where to compute.
        work: folder of the checkpoint from which a killed run goes on, with the same bytes as an
            undisturbed one.

    Returns:
        One row per step (step, loss, accuracy, isoscore, silhouette), step 0 before any update;
        facts about the evaluation, the same in every run (those of `windows`, `objectives`,
        `n_params`); and what was measured of this run.

    Raises:
        IsotropyError: targets that do not fit the loss or are all alike, or a loss that is not
            finite.
    """
    run = _Run(spec, items, n_labels, device)
    checkpoint = work / "checkpoint.safetensors"
    run.start(checkpoint)
    first = run.descent.step
    started = perf_counter()
    _advance_to_the_end(run, checkpoint)
    run.objectives.append(_objectives(run.descent, items.targets))
    facts = NO_WINDOWS if run.windows is None else run.windows.facts
    seconds = perf_counter() - started
    return (
        pd.DataFrame(run.rows),
        {**facts, "objectives": run.objectives, "n_params": run.descent.model.n_params()},
        {
            "device": str(device),
            "updates_taken_up_from_a_killed_run": first,
            "seconds": round(seconds, 3),
            "updates_per_second": round((spec.updates - first) / seconds, 2),
            **facts,
        },
    )


class _Run:
    """The descent and what has been measured of it, between two updates.

    Attributes:
        descent: the parameters, and how they are updated.
        windows: for many updates measured from a few; None: each is measured.
        rows: of each step so far.
        objectives: at the start, and at the end.
        direct: updates left to measure one by one before the next window is tried.
    """

    def __init__(
        self, spec: OptimizeSpec, items: Items, n_labels: int, device: torch.device
    ) -> None:
        self.spec, self.targets = spec, items.targets
        self.descent = Descent(spec, items, n_labels, device)
        self.evaluator = Evaluator(items.targets, spec.measure.sample_size, spec.seed)
        self.windows: Windows | None = None
        if spec.measure.tolerance is not None and self.evaluator.fits_windows(NODES):
            self.windows = Windows(self.evaluator, spec.measure.tolerance)
        self.rows: list[dict[str, Any]] = []
        self.objectives: list[Objectives] = []
        self.direct = 0

    def start(self, checkpoint: Path) -> None:
        """Go on from a checkpoint; without one, measure step 0."""
        self.rows, self.objectives = _load(checkpoint, self.descent, self.windows)
        if self.descent.step:
            log.info("going on from update %d of a killed run", self.descent.step)
        else:
            self.rows = [self._measure()]
            self.objectives = [_objectives(self.descent, self.targets)]

    def advance(self) -> None:
        """Go on by a window of updates where one fits, else by a few, or one; a window that was
        given up leaves everything where it was, but for its width.
        """
        left = self.spec.updates - self.descent.step
        if self.windows is None:
            self.descent.update()
            self.rows.append(self._measure())
        elif not self.direct and left >= MIN_WIDTH:
            walked = self.windows.walk(self.descent, left)
            if walked is None and self.windows.width < MIN_WIDTH:
                self.windows.width, self.direct = MIN_WIDTH, MIN_WIDTH
            self.rows += walked or []
        else:
            steps = min(left, BY_STEPS)
            self.rows += self.windows.walk_by_steps(self.descent, steps)
            self.direct = max(self.direct - steps, 0)

    def _measure(self) -> dict[str, Any]:
        # First: a loss that is not finite ends the run, whatever the scores are.
        row = self.descent.evaluate()
        return row | self.evaluator.scores(self.descent.model, self.descent.step)._asdict()


def _advance_to_the_end(run: _Run, checkpoint: Path) -> None:
    """Make all updates that are left; show progress, and keep a checkpoint now and then."""
    spec, descent = run.spec, run.descent
    said = perf_counter()
    pace = Pace(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE)
    quiet = not sys.stderr.isatty()
    with tqdm(
        total=spec.updates, initial=descent.step, unit="update", disable=quiet, desc=spec.setup
    ) as bar:
        while descent.step < spec.updates:
            if pace.due() and not run.direct:
                began = perf_counter()
                _save(checkpoint, descent, run.windows, run.rows, run.objectives)
                pace.note_saved(began)
            run.advance()
            bar.update(descent.step - bar.n)
            if quiet and perf_counter() - said > LOG_SECONDS:
                said, row = perf_counter(), run.rows[-1]
                scores = f"IsoScore {row['isoscore']:.4f}, silhouette {row['silhouette']:.4f}"
                log.info("update %d of %d: %s", descent.step, spec.updates, scores)


def _objectives(descent: Descent, targets: np.ndarray) -> Objectives:
    """The objectives of Appendix B; the sample of items is the same at every step and for every
    seed.
    """
    chosen = np.sort(np.random.default_rng(0).permutation(len(targets))[:OBJECTIVE_ITEMS])
    points = descent.model.points(torch.from_numpy(chosen).to(descent.goal.device)).cpu()
    labels = np.unique(targets[chosen], axis=0, return_inverse=True)[1].reshape(-1)
    several = len(np.unique(labels)) > 1
    whole = descent.model.points()
    return Objectives(
        step=descent.step,
        silhouette=silhouette_objective(whole, targets),
        triplet=triplet_objective(whole, targets),
        sample_triplet=triplet_objective(points, labels) if several else None,
        sample_hinged=hinged_triplet_objective(points, labels) if several else None,
    )


def _save(
    path: Path,
    descent: Descent,
    windows: Windows | None,
    rows: list[dict[str, Any]],
    objectives: list[Objectives],
) -> None:
    """Keep parameters, Adam's moments and the rows so far."""
    metadata = {
        "step": str(descent.step),
        "rows": json.dumps(rows),
        "objectives": json.dumps([o.model_dump() for o in objectives]),
        "windows": json.dumps(None if windows is None else windows.kept(descent)),
    }
    with atomic(path) as temporary:
        save_file(descent.state(), temporary, metadata=metadata)


def _load(
    path: Path, descent: Descent, windows: Windows | None
) -> tuple[list[dict[str, Any]], list[Objectives]]:
    """Put a checkpoint into the descent and its windows; return the rows before it and the
    objectives. Nothing if none.
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
