"""Paired bootstrap over the items of a test set: both sides of a comparison are drawn together."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

RESAMPLES = 2000
BY_PAIRS = "paired bootstrap over items, seeds drawn outside"
"""For the column `interval_method`."""
_BLOCK = 200  # resamples at a time, for memory


def spearman_draws(
    values: np.ndarray, scores: np.ndarray, *, resamples: int = RESAMPLES, seed: int = 0
) -> np.ndarray:
    """Spearman's rho of each row of `values` with `scores`, in resamples of the items.

    A resample is a number of times that each item counts. Values are sorted once, and their ranks
    in a resample follow from sums of these numbers; equal values share the mean of their ranks.

    Args:
        values: shape (m, n); one row per method and seed.
        scores: shape (n,).
        resamples: how many.
        seed: the same resamples for every row, and for every call with as many items.

    Returns:
        shape (m, resamples); NaN where a resample has one value only.

    Source:
        Efron & Tibshirani (1993), chapters 6 and 10.
    """
    values, scores = np.atleast_2d(values).astype(np.float64), np.asarray(scores, np.float64)
    found = np.empty((len(values), resamples))
    for block, counts in _resamples(len(scores), resamples, seed):
        of_scores = _centred_ranks(scores, counts)
        for i, row in enumerate(values):
            found[i, block] = _correlation(_centred_ranks(row, counts), of_scores, counts)
    return found


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
    right: np.ndarray,
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> np.ndarray:
    """A task's metric of each row of `predicted`, in resamples of the items, times 100.

    Args:
        metric: accuracy, f1 (of class 1), matthews, pearson, spearman; or mean, for items that
            have a score each, such as the F1 of an answer, in percent.
        predicted: shape (m, n); one row per method and seed.
        right: shape (n,); of no account for mean.
        resamples: how many.
        seed: the same resamples for every row, and for every call with as many items.

    Returns:
        shape (m, resamples); NaN where a resample has no such score; 0 for a correlation of
        predictions that are all alike.
    """
    if metric == "spearman":
        found = 100 * spearman_draws(predicted, right, resamples=resamples, seed=seed)
        found[np.ptp(predicted, axis=1) == 0] = 0
        return found
    found = np.empty((len(predicted), resamples))
    for block, counts in _resamples(len(right), resamples, seed):
        for i, row in enumerate(predicted):
            found[i, block] = _SCORES[metric](row, right, counts)
    return found


def _mean(row: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    mean: np.ndarray = counts @ row / len(row)
    return mean


def _accuracy(row: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    return _mean(100.0 * (row == right), right, counts)


def _f1(row: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    both = counts @ ((row == 1) & (right == 1))
    each = counts @ (row == 1) + counts @ (right == 1)
    f1: np.ndarray = 200 * both / np.maximum(each, 1)
    return f1


def _matthews(row: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of any number of classes (Gorodkin 2004); 0 where one side has one class, as scikit-learn."""
    n = len(row)
    classes = np.union1d(row, right)
    said, true = (counts @ (side[:, None] == classes).astype(np.float64) for side in (row, right))
    covariance = n * (counts @ (row == right)) - (said * true).sum(axis=1)
    spread = (n**2 - (said**2).sum(axis=1)) * (n**2 - (true**2).sum(axis=1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = np.where(spread > 0, 100 * covariance / np.sqrt(spread), 0)
    return found


def _pearson(row: np.ndarray, right: np.ndarray, counts: np.ndarray) -> np.ndarray:
    if np.ptp(row) == 0:  # as `isotropy.finetune.scores.regression_scores`
        return np.zeros(len(counts))
    x, y = (side - side.mean() for side in (row, right))
    n = len(row)
    of_x, of_y = counts @ x, counts @ y
    covariance = counts @ (x * y) - of_x * of_y / n
    spread = (counts @ x**2 - of_x**2 / n) * (counts @ y**2 - of_y**2 / n)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = 100 * covariance / np.sqrt(spread)
    return found


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
        seed: of the draws of seeds.
    """
    n_seeds, resamples = draws.shape
    chosen = np.random.default_rng([seed, 1]).integers(n_seeds, size=(n_seeds, resamples))
    mean: np.ndarray = np.take_along_axis(draws, chosen, axis=0).mean(axis=0)
    return mean


def items_error(better: np.ndarray, worse: np.ndarray) -> float:
    """Standard error over items of the mean difference of two methods on the same items.

    Args:
        better: shape (seeds, resamples): the score of each seed in each resample.
        worse: the same of the other method.
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
