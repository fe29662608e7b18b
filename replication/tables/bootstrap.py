"""Paired bootstrap over the items of a test set: both sides of a comparison see the same items.
Pairs of texts are not independent where they share a text: see `widen`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import scipy

from replication.finetune.spec import FinetuneFacts
from replication.tables.items import Z

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
    if np.ptp(row) == 0:  # as in `replication.finetune.scores.regression_scores`
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


def spearman_influences(values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Influence of each item on Spearman's rho of each row of `values` with `scores`.

    It is the derivative by the share of the item, from the definition of rho as the correlation of
    mid-distribution values; Croux & Dehon (2010), doi:10.1007/s10260-010-0142-z.

    Args:
        values: shape (m, n); one row per method and seed, none of them constant.
        scores: shape (n,).

    Returns:
        Shape (m, n).
    """
    score_shares, above_score = _shares(np.asarray(scores, np.float64))
    score_variance, by_score = _moment(score_shares, score_shares, above_score, above_score)
    influences = np.empty(np.atleast_2d(values).shape)
    for i, row in enumerate(np.atleast_2d(values).astype(np.float64)):
        shares, above = _shares(row)
        covariance, by_both = _moment(shares, score_shares, above, above_score)
        variance, by_row = _moment(shares, shares, above, above)
        relative = by_row / variance + by_score / score_variance
        product = variance * score_variance
        influences[i] = (by_both - covariance * relative / 2) / np.sqrt(product)
    return influences


def _shares(row: np.ndarray) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """Share of items below each item, ties counted half, less 1/2; and a function from weights to
    the mean weight of the items above each item, ties counted half.
    """
    _, group = np.unique(row, return_inverse=True)
    counts = np.bincount(group)
    below = (np.cumsum(counts) - counts / 2) / len(row)

    def above(weights: np.ndarray) -> np.ndarray:
        """Mean weight of the items above each item."""
        sums = np.bincount(group, weights)
        mean: np.ndarray = ((sums.sum() - np.cumsum(sums)) + sums / 2)[group] / len(row)
        return mean

    return below[group] - 0.5, above


def _moment(
    x: np.ndarray,
    y: np.ndarray,
    above_x: Callable[[np.ndarray], np.ndarray],
    above_y: Callable[[np.ndarray], np.ndarray],
) -> tuple[float, np.ndarray]:
    """Mean product of two centred shares of items below, and the influence of each item on it."""
    mean = float(np.mean(x * y))
    return mean, (x + 0.5) * (y + 0.5) + above_x(y + 0.5) + above_y(x + 0.5) - 3 * (mean + 0.25)


def widen(draws: np.ndarray, value: float, influences: np.ndarray, texts: np.ndarray) -> np.ndarray:
    """Widen draws of a statistic of pairs by what pairs that share a text have in common, which a
    bootstrap of independent pairs leaves out.

    The variance is that of a sum of influences with all products of pairs that share a text
    (Aronow, Samii & Assenova 2015, doi:10.1093/pan/mpv018). It is known as well as the sums of
    influences per text are many, for which Student's t with Satterthwaite's degrees of freedom
    allows. Draws are never narrowed.

    Args:
        draws: shape (resamples,).
        value: the statistic.
        influences: influence of each pair on it, shape (n,), up to a factor.
        texts: the two texts of each pair, as integers, shape (n, 2).
    """
    ends = np.sort(texts, axis=1)
    _, same = np.unique(ends, axis=0, return_inverse=True)
    differ = ends[:, 0] != ends[:, 1]
    sums = np.bincount(ends[:, 0], influences, minlength=int(texts.max()) + 1)
    sums += np.bincount(ends[differ, 1], influences[differ], minlength=len(sums))
    # Equal pairs share both texts, and are in the sums of both
    twice = np.bincount(same.ravel()[differ], influences[differ])
    variance = float(np.square(sums).sum() - np.square(twice).sum())
    independent = float(np.square(influences).sum())
    if independent <= 1e-20 * len(influences):  # such as of two methods that rank all pairs alike
        return draws
    ratio = variance / independent
    freedom = float(np.square(sums).sum() ** 2 / (sums**4).sum())
    quantiles = scipy.stats.t.ppf(0.975, freedom) / Z
    wider: np.ndarray = value + quantiles * np.sqrt(max(ratio, 1.0)) * (draws - value)
    return wider


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
