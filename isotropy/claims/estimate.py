"""Estimates with 95 % intervals, by what a number is a sample of.

Each says by `p` how well a value agrees with it: the two-sided p-value of the hypothesis that the
quantity is this value. The interval has all values with p > 0.05, so that verdicts and adjustments
for several tests come from one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from isotropy.tables.items import MAX_CORRELATION, Z, fisher_z

ALPHA = 0.05
"""One less the confidence of all intervals, and the level of all tests."""
POWER = 0.8
"""With which a study of the size that `Estimate.needed` names would decide."""
LARGEST = 1_000_000
"""Units beyond which `Estimate.needed` gives no number."""


@dataclass(frozen=True)
class Estimate:
    """A quantity with its uncertainty.

    Attributes:
        value: the estimate.
        interval: at 95 %; NaN where it is not known.
        n_units: units of the sample.
        method: how the interval was made, for readers.
        p: two-sided p-value of the quantity being a given value; NaN where it is not known.
        sd: standard deviation of one unit (ddof = 1); NaN where it is not known.
        values: those of the units, as far as they are known; or the value alone.
        reach: by a value and a number of units, how likely a sample of that size excludes the
            value.
    """

    value: float
    interval: tuple[float, float]
    n_units: int
    method: str
    p: Callable[[float], float]
    sd: float = math.nan
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    reach: Callable[[float, int], float] | None = None

    def needed(self, edge: float) -> int | None:
        """Units with which a sample like this one would exclude a value with power POWER; None
        where that is not known, or more than LARGEST.
        """
        if self.reach is None or not self.reach(edge, LARGEST) >= POWER:
            return None
        low, high = 2, LARGEST
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.reach(edge, middle) >= POWER else (middle, high)
        return high


def exact(value: float) -> Estimate:
    """A count, or an exact quantity of given data."""
    return Estimate(
        value,
        (value, value),
        1,
        "exact",
        lambda edge: 1.0 if math.isclose(edge, value, rel_tol=1e-9) else 0.0,
        values=np.array([value]),
    )


def mean(values: np.ndarray, correlation: bool = False) -> Estimate:
    """Mean of several units, by Student's t; of correlations with interval on Fisher's scale."""
    values = np.asarray(values, dtype=np.float64)
    if not correlation:
        sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        return of_summary(float(values.mean()), sd, len(values), values)
    scaled = np.arctanh(np.clip(values, -MAX_CORRELATION, MAX_CORRELATION))
    inner = mean(scaled)
    low, high = map(float, np.tanh(inner.interval))
    plain = float(values.mean())
    return Estimate(
        plain if math.isnan(low) else min(max(plain, low), high),
        (low, high),
        len(values),
        "Student's t on Fisher's scale" if len(values) > 1 else "one value",
        lambda edge: inner.p(fisher_z(edge)),
        float(values.std(ddof=1)) if len(values) > 1 else math.nan,
        values,
        None if inner.reach is None else _on_fishers_scale(inner.reach),
    )


def of_summary(value: float, sd: float, n: int, values: np.ndarray | None = None) -> Estimate:
    """From the mean and standard deviation of n units, by Student's t."""
    values = np.array([value]) if values is None else values
    if n < 2 or not math.isfinite(sd):
        return _without_interval(value, n, "one value", values)
    return _by_t(value, sd / math.sqrt(n), n - 1, n, "Student's t", sd, values)


def mean_over_items(values: np.ndarray, items_error: float) -> Estimate:
    """Mean difference of two methods for new seeds and new items.

    The variances of the mean over seeds and of the mean over items add up; their degrees of freedom
    are those of Satterthwaite (1946), since only the first is estimated from few values.

    Args:
        values: difference of each seed, on the items that there are.
        items_error: standard error over items of their mean (`isotropy.tables.bootstrap`).
    """
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    if n < 2 or not math.isfinite(items_error):
        return mean(values)
    sd = float(values.std(ddof=1))

    def error(m: int) -> float:
        """Standard error with m seeds."""
        return math.hypot(sd / math.sqrt(m), items_error)

    def freedom(m: int) -> float:
        """Degrees of freedom with m seeds."""
        return (m - 1) * (error(m) * math.sqrt(m) / sd) ** 4 if sd > 0 else math.inf

    def reach(edge: float, m: int) -> float:
        """Power of m seeds, and the same items, to exclude a value."""
        if error(m) == 0:
            return float(edge != values.mean())
        distance = abs(edge - float(values.mean())) / error(m)
        return float(stats.t.cdf(distance - stats.t.ppf(1 - ALPHA / 2, freedom(m)), freedom(m)))

    method = "Student's t over seeds, and the error over items"
    found = _by_t(float(values.mean()), error(n), freedom(n), n, method, sd, values)
    return replace(found, reach=reach)


def difference(values: np.ndarray, subtracted: np.ndarray) -> Estimate:
    """Difference of the means of two independent samples with variances of their own (Welch
    1947).
    """
    a, b = (np.asarray(x, dtype=np.float64) for x in (values, subtracted))
    value = float(a.mean() - b.mean())
    n = min(len(a), len(b))
    if n < 2:
        return of_summary(value, math.nan, n)
    squares = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    total = float(squares.sum())
    parts = float((squares**2 / [len(a) - 1, len(b) - 1]).sum())
    freedom = total**2 / parts if parts > 0 else float(n - 1)
    sd = math.hypot(a.std(ddof=1), b.std(ddof=1))
    return _by_t(value, math.sqrt(total), freedom, n, "Welch's t", sd, np.array([value]))


def deviation(values: np.ndarray) -> Estimate:
    """Standard deviation of normal values, by the chi-square distribution."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    return deviation_of(float(values.std(ddof=1)) if n > 1 else math.nan, n)


def deviation_of(sd: float, n: int) -> Estimate:
    """The same from the standard deviation (ddof = 1) of n values."""
    if n < 2:
        return _without_interval(sd, n, "one value", np.array([sd]))

    def p(edge: float) -> float:
        """Two-sided p-value of a value."""
        if edge <= 1e-100 * sd or sd == 0:
            return float(edge == sd)
        return _two_sided(float(stats.chi2.cdf((n - 1) * (sd / edge) ** 2, n - 1)))

    high, low = (sd * math.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in _TAILS)
    return Estimate(sd, (low, high), n, "chi-square", p, values=np.array([sd]))


def share(successes: int, n: int) -> Estimate:
    """Share of units, by Clopper and Pearson (1934)."""
    found = stats.binomtest(successes, n).proportion_ci(1 - ALPHA, method="exact")

    def p(edge: float) -> float:
        """Two-sided p-value of a value."""
        at_most = float(stats.binom.cdf(successes, n, edge))
        at_least = float(stats.binom.sf(successes - 1, n, edge))
        return min(1.0, 2 * min(at_most, at_least))

    interval = (float(found.low), float(found.high))
    return Estimate(successes / n, interval, n, "Clopper-Pearson", p)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> Estimate:
    """Spearman's rho over units, with the standard error of Bonett and Wright (2000) on Fisher's
    scale; four units or more, and values that differ.
    """
    n = len(x)
    rho = float(stats.spearmanr(x, y).statistic) if n > 1 and np.ptp(x) and np.ptp(y) else math.nan
    if n < 4 or not math.isfinite(rho):
        return _without_interval(rho, n, "too few units", np.empty(0))
    centre = fisher_z(rho)

    def error(m: int) -> float:
        """Standard error over m units."""
        return math.sqrt((1 + rho**2 / 2) / max(m - 3, 1e-9))

    half = Z * error(n)
    return Estimate(
        rho,
        (math.tanh(centre - half), math.tanh(centre + half)),
        n,
        "Bonett-Wright",
        lambda edge: _two_sided(float(stats.norm.cdf((fisher_z(edge) - centre) / error(n)))),
        reach=lambda edge, m: float(stats.norm.cdf(abs(fisher_z(edge) - centre) / error(m) - Z)),
    )


def of_interval(
    value: float, low: float, high: float, n: int, method: str, correlation: bool = False
) -> Estimate:
    """From a value with its interval, as resampling gives one: each half is read as that of a
    normal distribution; of correlations, on Fisher's scale.
    """
    to: Callable[[float], float] = fisher_z if correlation else float
    centre = to(value)
    errors = [(centre - to(low)) / Z, (to(high) - centre) / Z]

    def reach(edge: float, m: int) -> float:
        """Power of m units to exclude a value."""
        distance, error = abs(to(edge) - centre), errors[to(edge) > centre] * math.sqrt(n / m)
        return float(stats.norm.cdf(distance / error - Z)) if error else float(distance > 0)

    def p(edge: float) -> float:
        """Two-sided p-value of a value."""
        distance, error = abs(to(edge) - centre), errors[to(edge) > centre]
        return 2 * float(stats.norm.sf(distance / error)) if error > 0 else float(distance == 0)

    return Estimate(value, (low, high), n, method, p, reach=reach)


def _without_interval(value: float, n: int, method: str, values: np.ndarray) -> Estimate:
    nothing = (math.nan, math.nan)
    return Estimate(value, nothing, n, method, lambda _: math.nan, values=values)


def _by_t(
    value: float,
    error: float,
    freedom: float,
    n: int,
    method: str,
    sd: float,
    values: np.ndarray,
) -> Estimate:
    half = error * float(stats.t.ppf(1 - ALPHA / 2, freedom))

    def p(edge: float) -> float:
        """Two-sided p-value of a value."""
        if error == 0:
            return 1.0 if math.isclose(edge, value, rel_tol=1e-9) else 0.0
        return 2 * float(stats.t.sf(abs(edge - value) / error, freedom))

    def reach(edge: float, m: int) -> float:
        """Power of m units to exclude a value."""
        if error == 0:
            return float(edge != value)
        distance = abs(edge - value) / (error * math.sqrt(n / m))
        return float(stats.t.cdf(distance - stats.t.ppf(1 - ALPHA / 2, m - 1), m - 1))

    return Estimate(value, (value - half, value + half), n, method, p, sd, values, reach)


def _on_fishers_scale(reach: Callable[[float, int], float]) -> Callable[[float, int], float]:
    return lambda edge, n: reach(fisher_z(edge), n)


def _two_sided(below: float) -> float:
    return 2 * min(below, 1 - below)


_TAILS = (ALPHA / 2, 1 - ALPHA / 2)
