"""Uncertainty of scores over the items of a test set, and whether models learned their task."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import scipy

NEAREST_ONE = 1 - 1e-6
"""Correlations nearer to 1 count as this one: 1 itself has no place on Fisher's scale."""
Z = 1.959963984540054
"""97.5 % of the normal distribution; written down, since scipy.stats takes a second to load."""
SHARES = ("accuracy", "f1", "exact_match")
"""Metrics that are shares of items; the others are correlations."""
BY_ITEMS = "t over seeds, and over items"
"""What `interval` is, for the column `interval_method`."""


def interval(values: np.ndarray, n_items: int, metric: str) -> tuple[float, float]:
    """95 % interval of a mean score, for new seeds and new items.

    Its half width has two parts, added as squares: that of the mean over seeds, by Student's t,
    and that of the items, on Fisher's scale for correlations. Shares count as binomial, which for
    F1 is an approximation; rank correlations have the standard error of Bonett and Wright (2000).

    Args:
        values: of each seed, in percent (correlations times 100).
        n_items: items of the test set.
        metric: accuracy, f1, exact_match, matthews, pearson or spearman.
    """
    parts = np.asarray(values, dtype=np.float64) / 100
    n, mean = len(parts), float(np.mean(parts))
    correlation = metric not in SHARES
    scaled = np.arctanh(parts.clip(-NEAREST_ONE, NEAREST_ONE)) if correlation else parts
    seeds = _half_width_of_mean(scaled)
    half = math.hypot(seeds, Z * _items_error(mean, n_items, metric))
    if not math.isfinite(mean) or n == 0:
        return math.nan, math.nan
    if correlation:
        centre = fisher(mean)
        return 100 * math.tanh(centre - half), 100 * math.tanh(centre + half)
    return 100 * max(mean - half, 0.0), 100 * min(mean + half, 1.0)


def fisher(r: float) -> float:
    """A correlation on Fisher's scale."""
    return math.atanh(min(max(r, -NEAREST_ONE), NEAREST_ONE))


def rows_have_learned(rows: pd.DataFrame, score: str = "performance") -> bool:
    """`has_learned` of the runs of one task and model without any method: a row per seed, with the
    columns chance, n_validation and metric.
    """
    first = rows.iloc[0]
    values = rows[score].to_numpy(dtype=float)
    return has_learned(values, first["chance"], first["n_validation"], first["metric"])


def has_learned(performance: np.ndarray, chance: float, n_items: int, metric: str) -> bool:
    """Whether models are above the most frequent class by more than their own uncertainty.

    Args:
        performance: of each seed, in percent.
        chance: of the most frequent class, in percent.
        n_items: items of the validation set.
        metric: as in `interval`.
    """
    return interval(performance, n_items, metric)[0] > chance


def _half_width_of_mean(values: np.ndarray) -> float:
    n = len(values)
    if n < 2:
        return 0.0
    return float(scipy.stats.t.ppf(0.975, n - 1)) * float(values.std(ddof=1)) / math.sqrt(n)


def _items_error(value: float, n_items: int, metric: str) -> float:
    """Standard error over items; of correlations, on Fisher's scale."""
    if metric in SHARES:
        part = min(max(value, 0.0), 1.0)
        return math.sqrt(part * (1 - part) / n_items)
    spread = 1 + value**2 / 2 if metric == "spearman" else 1.0
    return math.sqrt(spread / max(n_items - 3, 1))
