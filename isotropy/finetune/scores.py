"""How good a fine-tuned model is, by the metrics that each task is known by (Wang et al. 2018,
GLUE; Rajpurkar et al. 2016).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats
from sklearn.metrics import f1_score, matthews_corrcoef

from isotropy.finetune.question_answering import exact_match, f1


def classification_scores(
    predicted: np.ndarray, right: np.ndarray, n_classes: int
) -> dict[str, float]:
    """Accuracy and Matthews correlation; F1 of class 1 where there are two classes. All times 100.

    Args:
        predicted: class numbers, shape (n,).
        right: class numbers, shape (n,).
        n_classes: classes of the task.
    """
    accuracy, matthews = (
        float((predicted == right).mean()),
        float(matthews_corrcoef(right, predicted)),
    )
    scores = {"accuracy": 100 * accuracy, "matthews": 100 * matthews}
    if n_classes == 2:
        scores["f1"] = 100 * float(f1_score(right, predicted, labels=[0, 1], zero_division=0))
    return scores


def regression_scores(predicted: np.ndarray, right: np.ndarray) -> dict[str, float]:
    """Pearson and Spearman correlation, times 100; 0 for predictions that are all alike, which no
    correlation has.

    Args:
        predicted: scores, shape (n,).
        right: scores, shape (n,).
    """
    if np.ptp(predicted) == 0:
        return {"pearson": 0.0, "spearman": 0.0}
    pearson, spearman = stats.pearsonr(predicted, right), stats.spearmanr(predicted, right)
    return {"pearson": 100 * float(pearson.statistic), "spearman": 100 * float(spearman.statistic)}


def answer_scores(
    predicted: Sequence[str], right: Sequence[Sequence[str]]
) -> dict[str, np.ndarray]:
    """Exact match and F1 of words of each answer, in percent, shape (n,).

    Args:
        predicted: n answers.
        right: the right answers of each item.
    """
    pairs = list(zip(predicted, right, strict=True))
    return {
        "exact_match": 100 * np.array([exact_match(p, r) for p, r in pairs], dtype=np.float64),
        "f1": 100 * np.array([f1(p, r) for p, r in pairs], dtype=np.float64),
    }
