"""Estimates with 95 % intervals, one constructor per kind of sample.

The function `p` of an estimate is the two-sided p-value of the hypothesis that the quantity has a
given value. The interval contains exactly the values with p > 0.05, so that verdicts and multiple
testing adjustments rest on one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from replication.claims.spec import ALPHA
from replication.tables.items import Z, seeds_and_items

POWER = 0.8
"""Probability that a study with as many units as `Estimate.needed` returns decides."""
MAX_UNITS = 1_000_000
"""Largest number of units that `Estimate.needed` returns."""
ROUNDING = 1e-12
"""Spread that rounding errors cause, as a share of the values; values so close are equal."""
UNBOUNDED = (-math.inf, math.inf)
CORRELATIONS = (-1.0, 1.0)


@dataclass(frozen=True)
class Estimate:
    """A quantity with its uncertainty.

    Attributes:
        value: the estimate.
        interval: 95 % confidence interval; NaN if unknown.
        n_units: number of units of the sample.
        method: name of the method that made the interval, or why there is none, for readers.
        p: function from a value to the two-sided p-value of the quantity being that value; NaN if
            unknown.
        sd: standard deviation between units (ddof = 1); NaN if unknown.
        values: values of the units where they are known, or the estimate alone.
        unit_sd: standard deviation of a unit towards lower and towards higher values; NaN if
            unknown.
    """

    value: float
    interval: tuple[float, float]
    n_units: int
    method: str
    p: Callable[[float], float]
    sd: float = math.nan
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    unit_sd: tuple[float, float] = (math.nan, math.nan)

    def needed(self, edge: float, alpha: float = ALPHA) -> int | None:
        """Return the number of fresh units that would exclude the value `edge` with probability
        POWER, if value and spread are as observed; None if that is unknown or more than MAX_UNITS.
        """
        from statsmodels.stats.power import TTestPower  # takes a second to load

        distance, sd = abs(edge - self.value), self.unit_sd[edge > self.value]
        if not sd > 0 or not distance > 1e-5 * sd:
            return None
        # Of larger effects the solver finds no root; three units are needed in any case
        effect = min(distance / sd, 5)
        n = TTestPower().solve_power(effect, alpha=alpha, power=POWER)
        return math.ceil(n) if n <= MAX_UNITS else None


def exact(value: float) -> Estimate:
    """Make an estimate without uncertainty: a count, or an exact quantity of given data."""
    return Estimate(
        value,
        (value, value),
        1,
        "exact",
        lambda edge: 1.0 if math.isclose(edge, value, rel_tol=1e-9) else 0.0,
        values=np.array([value]),
    )


def over_convention(
    lowest: Estimate, chosen: Estimate, highest: Estimate, convention: str
) -> Estimate:
    """Widen an estimate to the values that another convention would give.

    More units cannot make it narrower.

    Args:
        lowest: estimate of the lowest value over all conventions.
        chosen: the estimate with the convention that was chosen.
        highest: estimate of the highest value.
        convention: what the convention decides.
    """
    together = (lowest, chosen, highest)

    def p(edge: float) -> float:
        """p-value of the value nearest to the edge; 1 for a value that a convention gives."""
        inside = lowest.value <= edge <= highest.value
        return 1.0 if inside else float(np.max([each.p(edge) for each in together]))

    low, high = np.transpose([each.interval for each in together])
    return Estimate(
        chosen.value,
        (float(low.min()), float(high.max())),
        chosen.n_units,
        f"{chosen.method}, over all {convention}",
        p,
        chosen.sd,
        chosen.values,
    )


def mean(
    values: np.ndarray, resolution: float = 0.0, bounds: tuple[float, float] = UNBOUNDED
) -> Estimate:
    """Estimate the mean over units by Student's t.

    Equal values have no interval: they say nothing of how units differ. If values can only differ
    in steps, the resolution squared over n is added to their variance, as if one unit were a step
    away: so that equal values have an interval, and one that is not wider where the effect is
    larger. `benchmarks/verdicts.py` compares this with Fisher's scale, which fails near 1.

    Args:
        values: one value per unit.
        resolution: least difference of two values, such as that of rank correlations of few points
            (`rank_resolution`); 0 if they are continuous.
        bounds: lowest and highest possible value; the interval is cut there.
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 2:
        return _without_interval(float(values.mean()), n, "one value", values)
    sd = float(values.std(ddof=1))
    error = math.sqrt((sd**2 + resolution**2 / n) / n)
    return _t_estimate(float(values.mean()), error, n - 1, n, "Student's t", sd, values, bounds)


def rank_resolution(n_points: int) -> float:
    """Return the least difference of Spearman correlations of so many points without ties."""
    return 12 / (n_points * (n_points**2 - 1)) if n_points > 1 else 2.0


def from_summary(value: float, sd: float, n: int) -> Estimate:
    """Estimate a mean from the mean and standard deviation of n units, by Student's t."""
    values = np.array([value])
    if n < 2 or not math.isfinite(sd):
        return _without_interval(value, n, "one value", values)
    return _t_estimate(value, sd / math.sqrt(n), n - 1, n, "Student's t", sd, values)


def mean_over_items(values: np.ndarray, items_error: float) -> Estimate:
    """Estimate the mean difference of two methods, generalizing to new seeds and new items
    (`replication.tables.items.seeds_and_items`).

    Args:
        values: difference between the methods for each seed, on the same items.
        items_error: standard error over items of the mean of `values`
            (`replication.tables.bootstrap`).
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 2 or not math.isfinite(items_error):
        return mean(values)
    sd = float(values.std(ddof=1))
    error, freedom = seeds_and_items(sd, n, items_error)

    method = "Student's t over seeds, and the error over items"
    estimate = _t_estimate(
        float(values.mean()), float(error), float(freedom), n, method, sd, values
    )
    return replace(estimate, unit_sd=(math.nan, math.nan))  # more seeds do not add items


def mean_of_cases(
    values: np.ndarray, by_seed: np.ndarray | None = None, bounds: tuple[float, float] = UNBOUNDED
) -> Estimate:
    """Estimate the mean over cases, which are the sample.

    Cases that were run with the same seeds have in common what depends on the seed: so the variance
    of the mean over seeds is added to that over cases, with degrees of freedom by Satterthwaite
    (1946). Without anything in common this is cautious (`benchmarks/verdicts.py`).

    Args:
        values: one value per case, shape (n,).
        by_seed: their values for each seed, shape (n, n_seeds); None if seeds differ.
        bounds: lowest and highest possible value; the interval is cut there.
    """
    n = len(values)
    over_cases = mean(values, bounds=bounds)
    if n < 2 or by_seed is None or by_seed.shape[1] < 2 or math.isnan(over_cases.interval[0]):
        return over_cases
    n_seeds = by_seed.shape[1]
    variances = np.array([values.var(ddof=1) / n, by_seed.mean(axis=0).var(ddof=1) / n_seeds])
    error, freedom = _satterthwaite(variances, [n - 1, n_seeds - 1])
    method = "Student's t over cases and their seeds"
    return _t_estimate(over_cases.value, error, freedom, n, method, over_cases.sd, values, bounds)


def difference(values: np.ndarray, subtracted: np.ndarray) -> Estimate:
    """Estimate the difference of the means of two independent samples with unequal variances
    (Welch 1947).
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (values, subtracted))
    value = float(a.mean() - b.mean())
    n = min(len(a), len(b))
    if n < 2:
        return from_summary(value, math.nan, n)
    squares = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    sd = math.hypot(a.std(ddof=1), b.std(ddof=1))
    if math.sqrt(squares.sum()) <= ROUNDING * max(abs(a.mean()), abs(b.mean())):
        return _without_interval(value, n, "all values are equal", np.array([value]))
    error, freedom = _satterthwaite(squares, [len(a) - 1, len(b) - 1])
    return _t_estimate(value, error, freedom, n, "Welch's t", sd, np.array([value]))


def deviation(values: np.ndarray) -> Estimate:
    """Estimate the standard deviation of normal values, by the chi-square distribution."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    sd = float(values.std(ddof=1)) if n > 1 else math.nan
    return deviation_from_sd(0.0 if sd <= ROUNDING * abs(float(values.mean())) else sd, n)


def deviation_from_sd(sd: float, n: int) -> Estimate:
    """Estimate a standard deviation from that of n values (ddof = 1)."""
    if n < 2 or sd == 0:
        reason = "one value" if n < 2 else "all values are equal"
        return _without_interval(sd, n, reason, np.array([sd]))

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        if edge <= 1e-100 * sd:
            return 0.0
        below = float(stats.chi2.cdf((n - 1) * (sd / edge) ** 2, n - 1))
        return 2 * min(below, 1 - below)

    high, low = (sd * math.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in _TAILS)
    return Estimate(sd, (low, high), n, "chi-square", p, values=np.array([sd]))


def from_draws(value: float, draws: np.ndarray, n: int, method: str) -> Estimate:
    """Make an estimate from draws of its sampling distribution, by their percentiles.

    Draws that all agree show that other values are rarer than one in their number, so that an
    interval without width has a reason here.

    Args:
        value: the estimate.
        draws: shape (resamples,).
        n: number of units.
        method: name of the method.
    """
    ordered = np.sort(draws)
    size = len(ordered)
    n_outside = max(math.ceil(ALPHA / 2 * (size + 1)) - 2, 0)  # the most on a side with p < ALPHA

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        at_most = int(np.searchsorted(ordered, edge, side="right"))
        at_least = size - int(np.searchsorted(ordered, edge, side="left"))
        return min(1.0, 2 * (min(at_most, at_least) + 1) / (size + 1))

    interval = (float(ordered[n_outside]), float(ordered[-1 - n_outside]))
    return Estimate(value, interval, n, method, p, values=np.array([value]))


def from_interval(value: float, low: float, high: float, n: int, method: str) -> Estimate:
    """Make an estimate from a value and its 95 % interval, such as one from resampling. Each half
    of the interval is taken as that of a normal distribution.
    """
    if low == high or math.isnan(low) or math.isnan(high):
        reason = "all values are equal" if low == high else "its ends are not numbers"
        return _without_interval(value, n, reason, np.empty(0))
    errors = [(value - low) / Z, (high - value) / Z]

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        distance, error = abs(edge - value), errors[edge > value]
        return 2 * float(stats.norm.sf(distance / error)) if error > 0 else float(distance == 0)

    unit_sd = (errors[0] * math.sqrt(n), errors[1] * math.sqrt(n))
    return Estimate(value, (low, high), n, method, p, unit_sd=unit_sd)


def _without_interval(value: float, n: int, reason: str, values: np.ndarray) -> Estimate:
    no_interval = (math.nan, math.nan)
    return Estimate(value, no_interval, n, reason, lambda _: math.nan, values=values)


def _t_estimate(
    value: float,
    error: float,
    freedom: float,
    n: int,
    method: str,
    sd: float,
    values: np.ndarray,
    bounds: tuple[float, float] = UNBOUNDED,
) -> Estimate:
    """Make an estimate from a standard error, with p-values by Student's t."""
    if error <= ROUNDING * abs(value):
        return _without_interval(value, n, "all values are equal", values)
    lowest, highest = bounds
    half = error * float(stats.t.ppf(1 - ALPHA / 2, freedom))

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        if not lowest <= edge <= highest:
            return 0.0
        return 2 * float(stats.t.sf(abs(edge - value) / error, freedom))

    interval = (max(value - half, lowest), min(value + half, highest))
    unit_sd = error * math.sqrt(n)
    return Estimate(value, interval, n, method, p, sd, values, (unit_sd, unit_sd))


def _satterthwaite(variances: np.ndarray, freedoms: list[int]) -> tuple[float, float]:
    """Standard error of a sum with these variances of its terms, and its degrees of freedom
    (Satterthwaite 1946).
    """
    total = float(variances.sum())
    return math.sqrt(total), total**2 / float((variances**2 / freedoms).sum())


_TAILS = (ALPHA / 2, 1 - ALPHA / 2)
