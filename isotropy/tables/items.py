"""Uncertainty of scores over the items of a test set, and whether models learned their task."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy

MAX_CORRELATION = 1 - 1e-6
"""Largest absolute correlation; closer ones are clipped, since Fisher's z of 1 is infinite."""
Z = 1.959963984540054
"""97.5 % of the normal distribution; written down, since scipy.stats takes a second to load."""
SHARES = ("accuracy", "f1", "exact_match")
"""Metrics that are shares of items; all others are correlations."""
SEEDS_AND_ITEMS = "t over seeds, and over items"
"""Name of the method of `interval`, for the column `interval_method`."""


def interval(values: np.ndarray, n_items: int, metric: str) -> tuple[float, float]:
    """95 % interval of a mean score, for new seeds and new items.

    Its half width has two parts, whose squares are added: that of the mean over seeds, by Student's
    t, and that of the items, on Fisher's scale for correlations. Shares are taken as binomial,
    which for F1 is approximate; rank correlations have the standard error of Bonett and Wright
    (2000).

    Args:
        values: score of each seed, in percent (correlations times 100).
        n_items: number of items in the test set.
        metric: accuracy, f1, exact_match, matthews, pearson or spearman.
    """
    parts = np.asarray(values, dtype=np.float64) / 100
    n, mean = len(parts), float(np.mean(parts))
    correlation = metric not in SHARES
    scaled = np.arctanh(parts.clip(-MAX_CORRELATION, MAX_CORRELATION)) if correlation else parts
    seeds = _half_width_of_mean(scaled)
    half = math.hypot(seeds, Z * _items_error(mean, n_items, metric))
    if not math.isfinite(mean) or n == 0:
        return math.nan, math.nan
    if correlation:
        centre = fisher_z(mean)
        return 100 * math.tanh(centre - half), 100 * math.tanh(centre + half)
    return 100 * max(mean - half, 0.0), 100 * min(mean + half, 1.0)


def fisher_z(r: float) -> float:
    """Fisher's z of a correlation."""
    return math.atanh(min(max(r, -MAX_CORRELATION), MAX_CORRELATION))


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


def _half_width_of_mean(values: np.ndarray) -> float:
    n = len(values)
    if n < 2:
        return 0.0
    return float(scipy.stats.t.ppf(0.975, n - 1)) * float(values.std(ddof=1)) / math.sqrt(n)


def _items_error(value: float, n_items: int, metric: str) -> float:
    """Standard error of a score over items; for correlations, on Fisher's scale."""
    if metric in SHARES:
        share = min(max(value, 0.0), 1.0)
        return math.sqrt(share * (1 - share) / n_items)
    spread = 1 + value**2 / 2 if metric == "spearman" else 1.0
    return math.sqrt(spread / max(n_items - 3, 1))
