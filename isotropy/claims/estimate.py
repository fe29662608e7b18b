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

from isotropy.tables.items import MAX_CORRELATION, Z, fisher_z

ALPHA = 0.05
"""Significance level of all tests; the confidence of all intervals is 1 - ALPHA."""
POWER = 0.8
"""Power of a study with as many units as `Estimate.needed` returns."""
MAX_UNITS = 1_000_000
"""Largest number of units that `Estimate.needed` returns."""


@dataclass(frozen=True)
class Estimate:
    """A quantity with its uncertainty.

    Attributes:
        value: the estimate.
        interval: 95 % confidence interval; NaN if unknown.
        n_units: number of units of the sample.
        method: name of the method that made the interval, for readers.
        p: function from a value to the two-sided p-value of the quantity being that value; NaN if
            unknown.
        sd: standard deviation between units (ddof = 1); NaN if unknown.
        values: values of the units where they are known, or the estimate alone.
        power: function from a value and a number of units to the probability that a sample of that
            size excludes the value; None if unknown.
    """

    value: float
    interval: tuple[float, float]
    n_units: int
    method: str
    p: Callable[[float], float]
    sd: float = math.nan
    values: np.ndarray = field(default_factory=lambda: np.empty(0))
    power: Callable[[float, int], float] | None = None

    def needed(self, edge: float) -> int | None:
        """Return the number of units with which a sample like this one would exclude the value
        `edge` with power POWER; None if that is unknown or more than MAX_UNITS.
        """
        if self.power is None or not self.power(edge, MAX_UNITS) >= POWER:
            return None
        low, high = 2, MAX_UNITS
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.power(edge, middle) >= POWER else (middle, high)
        return high


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


def mean(values: np.ndarray, correlation: bool = False) -> Estimate:
    """Estimate the mean over units by Student's t; for correlations, on Fisher's scale."""
    values = np.asarray(values, dtype=np.float64)
    if not correlation:
        sd = float(values.std(ddof=1)) if len(values) > 1 else math.nan
        return from_summary(float(values.mean()), sd, len(values), values)
    scaled = np.arctanh(np.clip(values, -MAX_CORRELATION, MAX_CORRELATION))
    on_fisher_scale = mean(scaled)
    low, high = map(float, np.tanh(on_fisher_scale.interval))
    mean_value = float(values.mean())
    return Estimate(
        mean_value if math.isnan(low) else min(max(mean_value, low), high),
        (low, high),
        len(values),
        "Student's t on Fisher's scale" if len(values) > 1 else "one value",
        lambda edge: on_fisher_scale.p(fisher_z(edge)),
        float(values.std(ddof=1)) if len(values) > 1 else math.nan,
        values,
        None if on_fisher_scale.power is None else _on_fishers_scale(on_fisher_scale.power),
    )


def from_summary(value: float, sd: float, n: int, values: np.ndarray | None = None) -> Estimate:
    """Estimate a mean from the mean and standard deviation of n units, by Student's t."""
    values = np.array([value]) if values is None else values
    if n < 2 or not math.isfinite(sd):
        return _without_interval(value, n, "one value", values)
    return _t_estimate(value, sd / math.sqrt(n), n - 1, n, "Student's t", sd, values)


def mean_over_items(values: np.ndarray, items_error: float) -> Estimate:
    """Estimate the mean difference of two methods, generalizing to new seeds and new items.

    The variance is the sum of those of the mean over seeds and of the mean over items. Degrees of
    freedom follow Satterthwaite (1946), since only the first is estimated from few values.

    Args:
        values: difference between the methods for each seed, on the same items.
        items_error: standard error over items of the mean of `values`
            (`isotropy.tables.bootstrap`).
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

    def power(edge: float, m: int) -> float:
        """Power of m seeds, on the same items, to exclude a value."""
        if error(m) == 0:
            return float(edge != values.mean())
        distance = abs(edge - float(values.mean())) / error(m)
        return float(stats.t.cdf(distance - stats.t.ppf(1 - ALPHA / 2, freedom(m)), freedom(m)))

    method = "Student's t over seeds, and the error over items"
    estimate = _t_estimate(float(values.mean()), error(n), freedom(n), n, method, sd, values)
    return replace(estimate, power=power)


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
    total = float(squares.sum())
    denominator = float((squares**2 / [len(a) - 1, len(b) - 1]).sum())
    freedom = total**2 / denominator if denominator > 0 else float(n - 1)
    sd = math.hypot(a.std(ddof=1), b.std(ddof=1))
    return _t_estimate(value, math.sqrt(total), freedom, n, "Welch's t", sd, np.array([value]))


def deviation(values: np.ndarray) -> Estimate:
    """Estimate the standard deviation of normal values, by the chi-square distribution."""
    values = np.asarray(values, dtype=np.float64)
    n = len(values)
    return deviation_from_sd(float(values.std(ddof=1)) if n > 1 else math.nan, n)


def deviation_from_sd(sd: float, n: int) -> Estimate:
    """Estimate a standard deviation from that of n values (ddof = 1)."""
    if n < 2:
        return _without_interval(sd, n, "one value", np.array([sd]))

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        if edge <= 1e-100 * sd or sd == 0:
            return float(edge == sd)
        return _two_sided(float(stats.chi2.cdf((n - 1) * (sd / edge) ** 2, n - 1)))

    high, low = (sd * math.sqrt((n - 1) / stats.chi2.ppf(q, n - 1)) for q in _TAILS)
    return Estimate(sd, (low, high), n, "chi-square", p, values=np.array([sd]))


def share(successes: int, n: int) -> Estimate:
    """Estimate a share of units, by Clopper and Pearson (1934)."""
    bounds = stats.binomtest(successes, n).proportion_ci(1 - ALPHA, method="exact")

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        at_most = float(stats.binom.cdf(successes, n, edge))
        at_least = float(stats.binom.sf(successes - 1, n, edge))
        return min(1.0, 2 * min(at_most, at_least))

    interval = (float(bounds.low), float(bounds.high))
    return Estimate(successes / n, interval, n, "Clopper-Pearson", p)


def rank_correlation(x: np.ndarray, y: np.ndarray) -> Estimate:
    """Estimate Spearman's rho over units, with the standard error of Bonett and Wright (2000) on
    Fisher's scale. There is no interval for fewer than four units or constant values.
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
        power=lambda edge, m: float(stats.norm.cdf(abs(fisher_z(edge) - centre) / error(m) - Z)),
    )


def from_interval(
    value: float, low: float, high: float, n: int, method: str, correlation: bool = False
) -> Estimate:
    """Make an estimate from a value and its 95 % interval, such as one from resampling. Each half
    of the interval is taken as that of a normal distribution; for correlations, on Fisher's scale.
    """
    transform: Callable[[float], float] = fisher_z if correlation else float
    centre = transform(value)
    errors = [(centre - transform(low)) / Z, (transform(high) - centre) / Z]

    def power(edge: float, m: int) -> float:
        """Power of m units to exclude that the true value is `edge`."""
        distance, error = (
            abs(transform(edge) - centre),
            errors[transform(edge) > centre] * math.sqrt(n / m),
        )
        return float(stats.norm.cdf(distance / error - Z)) if error else float(distance > 0)

    def p(edge: float) -> float:
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        distance, error = abs(transform(edge) - centre), errors[transform(edge) > centre]
        return 2 * float(stats.norm.sf(distance / error)) if error > 0 else float(distance == 0)

    return Estimate(value, (low, high), n, method, p, power=power)


def _without_interval(value: float, n: int, method: str, values: np.ndarray) -> Estimate:
    no_interval = (math.nan, math.nan)
    return Estimate(value, no_interval, n, method, lambda _: math.nan, values=values)


def _t_estimate(
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
        """Two-sided p-value of the hypothesis that the true value is `edge`."""
        if error == 0:
            return 1.0 if math.isclose(edge, value, rel_tol=1e-9) else 0.0
        return 2 * float(stats.t.sf(abs(edge - value) / error, freedom))

    def power(edge: float, m: int) -> float:
        """Power of m units to exclude that the true value is `edge`."""
        if error == 0:
            return float(edge != value)
        distance = abs(edge - value) / (error * math.sqrt(n / m))
        return float(stats.t.cdf(distance - stats.t.ppf(1 - ALPHA / 2, m - 1), m - 1))

    return Estimate(value, (value - half, value + half), n, method, p, sd, values, power)


def _on_fishers_scale(power: Callable[[float, int], float]) -> Callable[[float, int], float]:
    return lambda edge, n: power(fisher_z(edge), n)


def _two_sided(below: float) -> float:
    return 2 * min(below, 1 - below)


_TAILS = (ALPHA / 2, 1 - ALPHA / 2)
