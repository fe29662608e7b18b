"""Confidence intervals and p-values of verdicts: against SciPy, and consistent with each other."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from isotropy.claims import estimate as estimates
from isotropy.claims.estimate import ALPHA, Estimate

VALUES = np.array([0.31, 0.42, 0.38, 0.45, 0.29])


def test_interval_of_a_mean_is_students_t() -> None:
    obtained = estimates.mean(VALUES)
    expected = stats.t.interval(0.95, 4, loc=VALUES.mean(), scale=stats.sem(VALUES))
    assert obtained.interval == pytest.approx(expected)
    assert obtained.p(0.3) == pytest.approx(stats.ttest_1samp(VALUES, 0.3).pvalue)
    from_summary = estimates.from_summary(VALUES.mean(), VALUES.std(ddof=1), 5)
    assert from_summary.interval == pytest.approx(expected)
    assert np.isnan(estimates.mean(VALUES[:1]).interval).all()
    assert math.isnan(estimates.mean(VALUES[:1]).p(0.3))


def test_interval_combines_errors_over_seeds_and_items() -> None:
    """Without an error over items it is Student's t, with a large one the normal interval."""
    plain, without_error = estimates.mean(VALUES), estimates.mean_over_items(VALUES, 0.0)
    assert without_error.interval == pytest.approx(plain.interval)
    assert without_error.p(0.3) == pytest.approx(plain.p(0.3))
    assert without_error.needed(0.3) == plain.needed(0.3)
    large_error = estimates.mean_over_items(VALUES, 10.0)
    assert large_error.interval == pytest.approx(
        stats.norm.interval(0.95, VALUES.mean(), 10), rel=1e-3
    )
    assert large_error.needed(0.3) is None  # no number of seeds narrows it
    assert np.isnan(estimates.mean_over_items(VALUES[:1], 1.0).interval).all()
    a, b = VALUES.std(ddof=1) / np.sqrt(5), 0.02
    degrees_of_freedom = 4 * (a**2 + b**2) ** 2 / a**4
    expected = stats.t.interval(0.95, degrees_of_freedom, VALUES.mean(), np.hypot(a, b))
    assert estimates.mean_over_items(VALUES, b).interval == pytest.approx(expected)


def test_interval_of_a_correlation_stays_within_minus_one_and_one() -> None:
    """For five values near −1 the plain t interval would extend below −1."""
    values = np.array([-0.999, -0.95, -0.9995, -0.98, -0.9])
    assert stats.t.interval(0.95, 4, loc=values.mean(), scale=stats.sem(values))[0] < -1
    result = estimates.mean(values, correlation=True)
    low, high = result.interval
    assert -1 < low < result.value < high < 0
    scaled = stats.ttest_1samp(np.arctanh(values), np.arctanh(-0.5))
    assert result.p(-0.5) == pytest.approx(scaled.pvalue)
    assert math.isfinite(estimates.mean(np.array([1.0, 1.0, 0.9]), correlation=True).value)


def test_interval_of_a_difference_is_welchs() -> None:
    """The order of the runs does not matter."""
    others = VALUES[::-1] * 1.3 + 0.02
    welch = stats.ttest_ind(VALUES, others, equal_var=False)
    for other in (others, others[::-1]):
        result = estimates.difference(VALUES, other)
        assert result.interval == pytest.approx(welch.confidence_interval(0.95))
        assert result.p(0.0) == pytest.approx(welch.pvalue)
    assert np.isnan(estimates.difference(VALUES[:1], others[:1]).interval).all()


def test_interval_of_a_share_is_clopper_pearson() -> None:
    obtained = estimates.share(9, 10)
    expected = stats.binomtest(9, 10).proportion_ci(method="exact")
    assert obtained.interval == pytest.approx((expected.low, expected.high))
    assert estimates.share(6, 6).interval[1] == 1
    assert estimates.share(0, 6).interval[0] == 0


def test_interval_of_a_standard_deviation_is_chi_square() -> None:
    obtained = estimates.deviation(VALUES)
    squares = VALUES.var(ddof=1) * 4
    expected = [math.sqrt(squares / stats.chi2.ppf(q, 4)) for q in (0.975, 0.025)]
    assert obtained.interval == pytest.approx(tuple(expected))
    assert obtained.value == pytest.approx(VALUES.std(ddof=1))
    assert estimates.deviation_from_sd(obtained.value, 5).interval == pytest.approx(
        obtained.interval
    )


def test_interval_of_a_rank_correlation() -> None:
    """A rho of 0.71 over seven layers is not significant."""
    layers, values = np.arange(7), np.array([1.0, 3.0, 2.0, 5.0, 4.0, 4.5, 3.5])
    result = estimates.rank_correlation(layers, values)
    rho = stats.spearmanr(layers, values).statistic
    half = 1.959964 * math.sqrt((1 + rho**2 / 2) / 4)
    ends = (math.tanh(math.atanh(rho) - half), math.tanh(math.atanh(rho) + half))
    assert result.interval == pytest.approx(ends)
    assert result.interval[0] < 0 < result.interval[1]
    assert math.isnan(estimates.rank_correlation(layers[:3], values[:3]).p(0))
    assert math.isnan(estimates.rank_correlation(layers, np.ones(7)).value)


MAKERS: dict[str, Callable[[np.ndarray], Estimate]] = {
    "mean": estimates.mean,
    "mean over items": lambda x: estimates.mean_over_items(x, 0.3),
    "correlation": lambda x: estimates.mean(np.tanh(x), correlation=True),
    "difference": lambda x: estimates.difference(x[:4], x[3:]),
    "deviation": estimates.deviation,
    "share": lambda x: estimates.share(int((x > 0).sum()), len(x)),
    "rank": lambda x: estimates.rank_correlation(np.arange(len(x)), x),
    "resampled": lambda x: estimates.from_interval(0.2, 0.1, 0.5, 40, "bootstrap"),
    "resampled correlation": lambda x: estimates.from_interval(
        0.2, 0.1, 0.5, 40, "bootstrap", correlation=True
    ),
}


@pytest.mark.parametrize("kind", MAKERS)
@given(
    seed=st.integers(0, 10_000),
    n=st.integers(6, 30),
    edge=st.floats(-0.999, 0.999, allow_nan=False),
)
def test_p_is_below_alpha_where_the_interval_excludes_a_value(
    kind: str, seed: int, n: int, edge: float
) -> None:
    result = MAKERS[kind](np.random.default_rng(seed).normal(0.2, 1, n))
    edge = abs(edge) if kind in ("share", "deviation") else edge
    low, high = result.interval
    if min(abs(edge - low), abs(edge - high)) > 1e-6:
        assert (result.p(edge) < ALPHA) == (edge < low or edge > high)
    assert 0 <= result.p(edge) <= 1


@pytest.mark.parametrize("effect", [0.4, 0.8, 1.5])
def test_needed_units_give_a_power_of_eighty_percent(effect: float) -> None:
    """Simulated studies with the number of units that `needed` gives reach a power of 80 %."""
    observed = stats.norm.ppf(np.linspace(0.1, 0.9, 9))
    observed = effect + (observed - observed.mean()) / observed.std(ddof=1)
    needed = estimates.mean(observed).needed(0.0)
    assert needed is not None
    draws = np.random.default_rng(0).normal(effect, 1, (4000, needed))
    decided = (stats.ttest_1samp(draws, 0, axis=1).pvalue < ALPHA).mean()
    assert 0.77 < decided < 0.87
    assert estimates.mean(observed).needed(effect) is None
    assert estimates.exact(3.0).needed(2.0) is None
    # Runs with equal values need the minimum of three, unless they are at the bound.
    assert estimates.mean(np.zeros(2)).needed(0.5) == 3
    assert estimates.mean(np.zeros(3)).needed(0.0) is None


def test_interval_of_an_exact_number_is_a_point() -> None:
    result = estimates.exact(4094976)
    assert (result.interval, result.n_units, result.method) == ((4094976, 4094976), 1, "exact")
    assert (result.p(4094976), result.p(4094975)) == (1, 0)
