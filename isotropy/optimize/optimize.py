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
from isotropy.optimize.spec import Objectives, OptimizeSpec
from isotropy.optimize.windows import MIN_WIDTH, NO_WINDOWS, NODES, Windows

log = logging.getLogger(__name__)

LOG_SECONDS = 20.0
CHECKPOINT_SECONDS = (
    5.0  # how much work a killed run loses, and at most one window; where it is cut changes nothing
)
CHECKPOINT_PAUSE = 20  # times the time that the last one took: large models would do little else
OBJECTIVE_ITEMS = (
    200  # sampled for the objectives of Appendix B, whose hinged form is a sum over all triplets
)


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
    descent = Descent(spec, items, n_labels, device)
    evaluator = Evaluator(items.targets, spec.measure.sample_size, spec.seed)
    windows = None
    if spec.measure.tolerance is not None and evaluator.fits_windows(NODES):
        windows = Windows(evaluator, spec.measure.tolerance)
    checkpoint = work / "checkpoint.safetensors"
    rows, objectives = _load(checkpoint, descent, windows)
    first = descent.step
    if first:
        log.info("going on from update %d of a killed run", first)
    else:
        rows = [descent.evaluate() | evaluator.scores(descent.model, 0)._asdict()]
        objectives = [_objectives(descent, items.targets)]
    started = said = perf_counter()
    pace = Pace(CHECKPOINT_SECONDS, CHECKPOINT_PAUSE)
    direct = 0  # steps to evaluate one by one before the next window is tried
    with tqdm(
        total=spec.updates,
        initial=first,
        unit="update",
        disable=not sys.stderr.isatty(),
        desc=spec.setup,
    ) as bar:
        while descent.step < spec.updates:
            if pace.due() and not direct:
                began = perf_counter()
                _save(checkpoint, descent, windows, rows, objectives)
                pace.saved_since(began)
            left = spec.updates - descent.step
            if windows is not None and not direct and left >= MIN_WIDTH:
                walked = windows.walk(descent, left)
                if walked is None and windows.width < MIN_WIDTH:
                    windows.width, direct = MIN_WIDTH, MIN_WIDTH
                rows += walked or []
            else:
                descent.update()
                rows.append(
                    descent.evaluate() | evaluator.scores(descent.model, descent.step)._asdict()
                )
                direct = max(direct - 1, 0)
            bar.update(descent.step - bar.n)
            if not sys.stderr.isatty() and perf_counter() - said > LOG_SECONDS:
                said, row = perf_counter(), rows[-1]
                scores = f"IsoScore {row['isoscore']:.4f}, silhouette {row['silhouette']:.4f}"
                log.info("update %d of %d: %s", descent.step, spec.updates, scores)
    objectives.append(_objectives(descent, items.targets))
    facts = NO_WINDOWS if windows is None else windows.facts
    seconds = perf_counter() - started
    return (
        pd.DataFrame(rows),
        {**facts, "objectives": objectives, "n_params": descent.model.n_params()},
        {
            "device": str(device),
            "updates_taken_up_from_a_killed_run": first,
            "seconds": round(seconds, 3),
            "updates_per_second": round((spec.updates - first) / seconds, 2),
            **facts,
        },
    )


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
