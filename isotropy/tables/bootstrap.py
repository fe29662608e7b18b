"""Paired bootstrap over the items of a test set: both sides of a comparison see the same items."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

RESAMPLES = 2000
PAIRED_BOOTSTRAP = "paired bootstrap over items, seeds drawn outside"
"""Value of the column `interval_method`."""
_BLOCK = 200  # resamples that are computed at a time, to bound memory


def spearman_draws(
    values: np.ndarray, scores: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Spearman's rho of each row of `values` with `scores`, in resamples of the items.

    A resample is a count for each item. Values are sorted once, and their ranks in a resample are
    cumulative sums of the counts; equal values share the mean of their ranks.

    Args:
        values: shape (m, n); one row per method and seed.
        scores: shape (n,).
        resamples: number of resamples.
        seed: random seed; the same seed and number of items give the same resamples.

    Returns:
        Correlations, shape (m, resamples); NaN where all values of a resample are equal.

    Source:
        Efron & Tibshirani (1993), chapters 6 and 10.
    """
    values, scores = np.atleast_2d(values).astype(np.float64), np.asarray(scores, np.float64)
    rho = np.empty((len(values), resamples))
    for block, counts in _resamples(len(scores), resamples, seed):
        score_ranks = _centred_ranks(scores, counts)
        for i, row in enumerate(values):
            rho[i, block] = _correlation(_centred_ranks(row, counts), score_ranks, counts)
    return rho


def _resamples(n: int, resamples: int, seed: int) -> Iterator[tuple[slice, np.ndarray]]:
    """Blocks of resamples: how often each of n items counts, shape (resamples of the block, n)."""
    draws = np.random.default_rng(seed)
    for start in range(0, resamples, _BLOCK):
        size = min(_BLOCK, resamples - start)
        counts = draws.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        yield slice(start, start + size), counts


def score_draws(
    metric: str,
    predicted: np.ndarray,
    target: np.ndarray,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """A task's metric of each row of `predicted`, in resamples of the items, times 100.

    Args:
        metric: accuracy, f1 (of class 1), matthews, pearson, spearman; or mean, for items that
            have a score each, such as the F1 of an answer, in percent.
        predicted: shape (m, n); one row per method and seed.
        target: true labels or scores, shape (n,); ignored for mean.
        resamples: number of resamples.
        seed: random seed; the same seed and number of items give the same resamples.

    Returns:
        Scores, shape (m, resamples); NaN where a resample has no such score; 0 for a correlation of
        predictions that are all equal.
    """
    if metric == "spearman":
        scores = 100 * spearman_draws(predicted, target, resamples=resamples, seed=seed)
        scores[np.ptp(predicted, axis=1) == 0] = 0
        return scores
    scores = np.empty((len(predicted), resamples))
    for block, counts in _resamples(len(target), resamples, seed):
        for i, row in enumerate(predicted):
            scores[i, block] = _SCORES[metric](row, target, counts)
    return scores


def _mean(row: np.ndarray, target: np.ndarray, counts: np.ndarray) -> np.ndarray:
    mean: np.ndarray = counts @ row / len(row)
    return mean


def _accuracy(row: np.ndarray, target: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _mean(100.0 * (row == target), target, counts)


def _f1(row: np.ndarray, target: np.ndarray, counts: np.ndarray) -> np.ndarray:
    n_both = counts @ ((row == 1) & (target == 1))
    n_positive = counts @ (row == 1) + counts @ (target == 1)
    f1: np.ndarray = 200 * n_both / np.maximum(n_positive, 1)
    return f1


def _matthews(row: np.ndarray, target: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Matthews correlation of K classes (Gorodkin 2004); like scikit-learn 0 if a side has one."""
    n = len(row)
    classes = np.union1d(row, target)
    n_predicted, n_true = (
        counts @ (side[:, None] == classes).astype(np.float64) for side in (row, target)
    )
    covariance = n * (counts @ (row == target)) - (n_predicted * n_true).sum(axis=1)
    spread = (n**2 - (n_predicted**2).sum(axis=1)) * (n**2 - (n_true**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        matthews: np.ndarray = np.where(spread > 0, 100 * covariance / np.sqrt(spread), 0)
    return matthews


def _pearson(row: np.ndarray, target: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if np.ptp(row) == 0:  # as in `isotropy.finetune.scores.regression_scores`
        return np.zeros(len(counts))
    x, y = (side - side.mean() for side in (row, target))
    n = len(row)
    sum_x, sum_y = counts @ x, counts @ y
    covariance = counts @ (x * y) - sum_x * sum_y / n
    spread = (counts @ x**2 - sum_x**2 / n) * (counts @ y**2 - sum_y**2 / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        pearson: np.ndarray = 100 * covariance / np.sqrt(spread)
    return pearson


_SCORES = {
    "mean": _mean,
    "accuracy": _accuracy,
    "f1": _f1,
    "matthews": _matthews,
    "pearson": _pearson,
}


def mean_of_seeds(draws: np.ndarray, *, seed: int = 0) -> np.ndarray:
    """Mean over seeds that are drawn anew for each resample, shape (resamples,).

    Args:
        draws: shape (seeds, resamples): a statistic of each seed in each resample of the items.
        seed: random seed for drawing the seeds.
    """
    n_seeds, resamples = draws.shape
    chosen = np.random.default_rng([seed, 1]).integers(n_seeds, size=(n_seeds, resamples))
    mean: np.ndarray = np.take_along_axis(draws, chosen, axis=0).mean(axis=0)
    return mean


def items_error(better: np.ndarray, worse: np.ndarray) -> float:
    """Standard error over items of the mean difference of two methods on the same items.

    Args:
        better: shape (seeds, resamples): the score of each seed in each resample.
        worse: the same for the method that is subtracted.
    """
    return float(np.nanstd((better - worse).mean(axis=0), ddof=1))


def percentiles(draws: np.ndarray) -> tuple[float, float]:
    """The 95 % percentile interval."""
    low, high = np.nanpercentile(draws, [2.5, 97.5])
    return float(low), float(high)


def _centred_ranks(row: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Mid-ranks of values in each resample, less their mean, shape (resamples, n)."""
    _, group = np.unique(row, return_inverse=True)
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    weights = np.add.reduceat(counts[:, order], starts, axis=1)
    middle = np.cumsum(weights, axis=1) - weights / 2
    ranks: np.ndarray = middle[:, group] - len(row) / 2
    return ranks


def _correlation(x: np.ndarray, y: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Pearson's r of centred ranks, each item counted as often as it was drawn."""
    weighted = x * counts
    with np.errstate(invalid="ignore", divide="ignore"):
        r: np.ndarray = np.einsum("ij,ij->i", weighted, y) / np.sqrt(
            np.einsum("ij,ij->i", weighted, x) * np.einsum("ij,ij,ij->i", y, y, counts)
        )
    return r
