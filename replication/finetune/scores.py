"""Performance metrics of fine-tuned models, as defined by the benchmarks (GLUE: Wang et al. 2018;
SQuAD: Rajpurkar et al. 2016).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from replication.finetune.data import exact_match, f1


def classification_scores(
    predicted: np.ndarray, targets: np.ndarray, n_classes: int
) -> dict[str, float]:
    """Compute accuracy and Matthews correlation, and F1 of class 1 for two classes, all times 100.

    Args:
        predicted: predicted class numbers, shape (n,).
        targets: true class numbers, shape (n,).
        n_classes: number of classes of the task.
    """
    accuracy, matthews = (
        float((predicted == targets).mean()),
        float(matthews_corrcoef(targets, predicted)),
    )
    scores = {"accuracy": 100 * accuracy, "matthews": 100 * matthews}
    if n_classes == 2:
        scores["f1"] = 100 * float(f1_score(targets, predicted, labels=[0, 1], zero_division=0))
    return scores


def regression_scores(predicted: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Compute Pearson and Spearman correlation, times 100; 0 if all predictions are equal and the
    correlations undefined.

    Args:
        predicted: predicted scores, shape (n,).
        targets: true scores, shape (n,).
    """
    if np.ptp(predicted) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    pearson, spearman = stats.pearsonr(predicted, targets), stats.spearmanr(predicted, targets)
    return {"pearson": 100 * float(pearson.statistic), "spearman": 100 * float(spearman.statistic)}


def answer_scores(
    predicted: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Compute exact match and F1 of words of each answer, in percent, shape (n,).

    Args:
        predicted: n predicted answers.
        references: the reference answers of each item.
    """
    pairs = list(zip(predicted, references, strict=True))
    return {
        "exact_match": 100 * np.array([exact_match(p, r) for p, r in pairs], dtype=np.float64),
        "f1": 100 * np.array([f1(p, r) for p, r in pairs], dtype=np.float64),
    }
