"""Uncertainty of fine-tuned models over the items of their validation sets, from their answers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from isotropy.finetune.spec import FinetuneFacts
from isotropy.tables.bootstrap import RESAMPLES, items_error, score_draws


def performance_draws(
    run: FinetuneFacts, answers: pd.DataFrame, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Performance of a model, by its task's own metric, in resamples of the items.

    Args:
        run: facts about the model.
        answers: label and predicted, or exact_match and f1 of a span; a row per item.
        resamples: how many.
        seed: the same resamples for every model of a task.

    Returns:
        shape (resamples,), times 100 as the performance is.
    """
    spans = answers["predicted"].isna().all()
    metric, names = ("mean", [run.metric]) if spans else (run.metric, ["predicted", "label"])
    columns = [answers[name].dropna().to_numpy(dtype=np.float64) for name in names]
    draws = score_draws(metric, columns[0][None], columns[-1], resamples=resamples, seed=seed)
    found: np.ndarray = draws[0]
    return found


def error_of_change(
    runs: Sequence[tuple[FinetuneFacts, pd.DataFrame]], better: str, worse: str
) -> float:
    """Standard error over items of the mean difference in performance of two methods.

    Args:
        runs: of one task and model, with their answers; each seed with both methods.
        better: kind of a method.
        worse: kind of the other.
    """
    draws = [
        np.stack([performance_draws(run, answers) for run, answers in runs if run.method.kind == k])
        for k in (better, worse)
    ]
    return items_error(*draws)
