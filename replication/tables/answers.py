"""Uncertainty of a fine-tuned model's score over the items of its validation set."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from replication.finetune.spec import FinetuneFacts
from replication.tables.bootstrap import RESAMPLES, items_error, score_draws


def performance_draws(
    run: FinetuneFacts, answers: pd.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Performance of a model, by its task's own metric, in resamples of the items.

    Args:
        run: facts about the model.
        answers: a row per item, with columns label and predicted, or exact_match and f1 for spans.
        resamples: number of resamples.
        seed: random seed; the same seed gives the same resamples for every model of a task.

    Returns:
        Performance in percent, shape (resamples,).
    """
    spans = answers["predicted"].isna().all()
    metric, names = ("mean", [run.metric]) if spans else (run.metric, ["predicted", "label"])
    columns = [answers[name].dropna().to_numpy(dtype=np.float64) for name in names]
    draws = score_draws(metric, columns[0][None], columns[-1], resamples=resamples, seed=seed)
    performance: np.ndarray = draws[0]
    return performance


def error_of_change(
    runs: Sequence[tuple[FinetuneFacts, pd.DataFrame]], better: str, worse: str
) -> float:
    """Standard error over items of the mean difference in performance of two methods.

    Args:
        runs: all runs of one task and model, with their answers; each seed has both methods.
        better: kind of the first method.
        worse: kind of the method that is subtracted.
    """
    draws = [
        np.stack([performance_draws(run, answers) for run, answers in runs if run.method.kind == k])
        for k in (better, worse)
    ]
    return items_error(*draws)
