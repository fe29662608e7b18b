"""Uncertainty of scores over the items of a test set, and whether models learned their task."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy

Z = 1.959963984540054
"""97.5 % of the normal distribution; written down, since scipy.stats takes a second to load."""
SHARES = ("accuracy", "f1", "exact_match")
"""Metrics that are shares of items; all others are correlations."""
SEEDS_AND_ITEMS = "t over seeds, and over items"
"""Name of the method of `interval`, for the column `interval_method`."""


def seeds_and_items(
    sd: float | np.ndarray, n: int, items_error: float
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Standard error of a mean over seeds, for new seeds and new items, and its degrees of freedom.

    The variance is the sum of those of the mean over seeds and of the mean over items. Degrees of
    freedom follow Satterthwaite (1946), since only the first is estimated from few values.

    Args:
        sd: standard deviation between seeds (ddof = 1), a number or an array.
        n: number of seeds.
        items_error: standard error over items of the mean over seeds.
    """
    error = np.hypot(np.asarray(sd) / math.sqrt(n), items_error)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = (n - 1) * (error * math.sqrt(n) / sd) ** 4
    return error, np.where(np.asarray(sd) > 0, freedom, math.inf)


def interval(values: np.ndarray, n_items: int, metric: str) -> tuple[float, float]:
    """95 % interval of a mean score, for new seeds and new items (`seeds_and_items`); of a single
    seed for new items alone.

    Shares are taken as binomial, which for F1 is approximate; rank correlations have the standard
    error of Bonett and Wright (2000), other correlations that of Fisher.

    Args:
        values: score of each seed, in percent (correlations times 100).
        n_items: number of items in the test set.
        metric: accuracy, f1, exact_match, matthews, pearson or spearman.
    """
    scores = np.asarray(values, dtype=np.float64)
    n = len(scores)
    mean = float(np.mean(scores)) if n else math.nan
    if not math.isfinite(mean):
        return math.nan, math.nan
    sd = float(scores.std(ddof=1)) if n > 1 else 0.0
    error, freedom = seeds_and_items(sd, n, 100 * _items_error(mean / 100, n_items, metric))
    half = float(scipy.stats.t.ppf(0.975, freedom) * error)
    lowest = 0.0 if metric in SHARES else -100.0
    return max(mean - half, lowest), min(mean + half, 100.0)


def rows_have_learned(rows: pd.DataFrame, score: str = "performance") -> bool:
    """`has_learned` for runs of one task and model without any method.

    Args:
        rows: a row per seed, with the columns chance, n_validation, metric and `score`.
        score: name of the column with the performance.
    """
    first = rows.iloc[0]
    values = rows[score].to_numpy(dtype=float)
    return has_learned(values, first["chance"], first["n_validation"], first["metric"])


def has_learned(performance: np.ndarray, chance: float, n_items: int, metric: str) -> bool:
    """Whether models are above the most frequent class by more than their own uncertainty.

    Args:
        performance: score of each seed, in percent.
        chance: score of predicting the most frequent class, in percent.
        n_items: number of items in the validation set.
        metric: as in `interval`.
    """
    return interval(performance, n_items, metric)[0] > chance


def _items_error(value: float, n_items: int, metric: str) -> float:
    """Standard error of a score over items; of a share from Agresti and Coull's (1998) estimate,
    which is above 0 also where all answers are right.
    """
    if metric in SHARES:
        n = n_items + Z**2
        share = (min(max(value, 0.0), 1.0) * n_items + Z**2 / 2) / n
        return math.sqrt(share * (1 - share) / n)
    spread = 1 + value**2 / 2 if metric == "spearman" else 1.0
    return (1 - value**2) * math.sqrt(spread / max(n_items - 3, 1))
