"""Confidence intervals and p-values of verdicts: against SciPy, and consistent with each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from replication.claims import estimate as estimates
from replication.claims.estimate import CORRELATIONS, Estimate
from replication.claims.spec import ALPHA

VALUES = np.array([0.31, 0.42, 0.38, 0.45, 0.29])


def test_interval_of_a_mean_is_students_t() -> None:
    obtained = estimates.mean(VALUES)
    expected = stats.t.interval(0.95, 4, loc=VALUES.mean(), scale=stats.sem(VALUES))
    assert obtained.interval == pytest.approx(expected)
    assert obtained.p(0.3) == pytest.approx(stats.ttest_1samp(VALUES, 0.3).pvalue)
    from_summary = estimates.from_summary(VALUES.mean(), VALUES.std(ddof=1), 5)
    assert from_summary.interval == pytest.approx(expected)


def test_interval_combines_errors_over_seeds_and_items() -> None:
    """Without an error over items it is Student's t, with a large one the normal interval; between
    them the degrees of freedom are Satterthwaite's."""
    plain, without_error = estimates.mean(VALUES), estimates.mean_over_items(VALUES, 0.0)
    assert without_error.interval == pytest.approx(plain.interval)
    assert without_error.p(0.3) == pytest.approx(plain.p(0.3))
    assert without_error.needed(0.3) is None
    large_error = estimates.mean_over_items(VALUES, 10.0)
    normal = stats.norm.interval(0.95, VALUES.mean(), 10)
    assert large_error.interval == pytest.approx(normal, rel=1e-3)
    assert large_error.needed(0.3) is None  # no number of seeds narrows it
    a, b = VALUES.std(ddof=1) / np.sqrt(5), 0.02
    degrees_of_freedom = 4 * (a**2 + b**2) ** 2 / a**4
    expected = stats.t.interval(0.95, degrees_of_freedom, VALUES.mean(), np.hypot(a, b))
    assert estimates.mean_over_items(VALUES, b).interval == pytest.approx(expected)


def test_interval_of_a_bounded_mean_is_cut_at_its_bounds() -> None:
    """For five values near −1 the plain t interval would extend below −1."""
    values = np.array([-0.999, -0.95, -0.9995, -0.98, -0.9])
    plain, bounded = estimates.mean(values), estimates.mean(values, bounds=CORRELATIONS)
    assert plain.interval[0] < -1 == bounded.interval[0]
    assert bounded.interval[1] == plain.interval[1]
    assert (bounded.p(-0.5), bounded.p(-1.01)) == (plain.p(-0.5), 0)


EQUAL = np.full(3, 0.2)


@pytest.mark.parametrize(
    "estimate",
    [
        *(estimates.mean(values) for values in (EQUAL, VALUES[:1])),
        *(estimates.mean_over_items(*x) for x in ((EQUAL, 0.0), (VALUES[:1], 1.0))),
        *(estimates.difference(*x) for x in ((EQUAL, EQUAL), (VALUES[:1], VALUES[1:2]))),
        estimates.from_summary(0.2, 0.0, 3),
        estimates.deviation(EQUAL),
        estimates.from_interval(0.2, 0.2, 0.2, 9, "bootstrap"),
    ],
)
def test_equal_values_and_single_ones_have_no_interval(estimate: Estimate) -> None:
    assert np.isnan(estimate.interval).all()
    assert math.isnan(estimate.p(0.3))


def test_equal_values_have_an_interval_if_their_resolution_is_known() -> None:
    """Equal rank correlations of four points could be 0.2 apart; more runs narrow that."""
    orders = [stats.spearmanr(range(4), order).statistic for order in permutations(range(4))]
    resolution = estimates.rank_resolution(4)
    assert np.diff(np.unique(np.round(orders, 9))).min() == pytest.approx(resolution)
    few, many = (
        estimates.mean(np.full(n, 0.2), resolution, CORRELATIONS).interval for n in (3, 10)
    )
    assert few[0] < 0 < many[0] < 0.2 < many[1] < few[1]


def test_power_rises_with_the_effect() -> None:
    """Correlations of 4 values of lambda with a rising effect: the share of studies that find it,
    and the p-value of three equal ones, never turn back near 1."""
    rng, resolution = np.random.default_rng(0), estimates.rank_resolution(4)
    powers = []
    for effect in (0, 2, 4, 8, 16, 64):
        scores = effect * np.arange(4) / 3 + rng.standard_normal((300, 3, 4))
        ranks = scores.argsort(axis=-1).argsort(axis=-1)
        rho = 1 - 6 * np.square(ranks - np.arange(4)).sum(axis=-1) / (4 * (4**2 - 1))  # Spearman's
        studies = [estimates.mean(r, resolution, CORRELATIONS) for r in rho]
        powers.append(np.mean([s.interval[0] > 0 for s in studies]))
    assert powers == sorted(powers)
    assert powers[0] < 0.05
    assert powers[-1] == 1


def test_interval_of_a_difference_is_welchs() -> None:
    """The order of the runs does not matter."""
    others = VALUES[::-1] * 1.3 + 0.02
    welch = stats.ttest_ind(VALUES, others, equal_var=False)
    for other in (others, others[::-1]):
        result = estimates.difference(VALUES, other)
        assert result.interval == pytest.approx(welch.confidence_interval(0.95))
        assert result.p(0.0) == pytest.approx(welch.pvalue)


def test_interval_of_cases_that_share_seeds() -> None:
    """Without seeds it is Student's t over cases; what seeds add is in its error."""
    rng = np.random.default_rng(0)
    by_seed = rng.standard_normal((9, 3))
    alone = estimates.mean_of_cases(by_seed.mean(axis=1))
    assert alone.interval == estimates.mean(by_seed.mean(axis=1)).interval
    shifted = by_seed + np.array([-2.0, 0.0, 2.0])  # the cases' means stay
    wide = estimates.mean_of_cases(by_seed.mean(axis=1), shifted)
    assert wide.value == alone.value
    errors = [by_seed.mean(axis=1).var(ddof=1) / 9, shifted.mean(axis=0).var(ddof=1) / 3]
    freedom = sum(errors) ** 2 / (errors[0] ** 2 / 8 + errors[1] ** 2 / 2)
    expected = stats.t.interval(0.95, freedom, alone.value, math.sqrt(sum(errors)))
    assert wide.interval == pytest.approx(expected)


def test_interval_of_a_standard_deviation_is_chi_square() -> None:
    obtained = estimates.deviation(VALUES)
    squares = VALUES.var(ddof=1) * 4
    expected = [math.sqrt(squares / stats.chi2.ppf(q, 4)) for q in (0.975, 0.025)]
    assert obtained.interval == pytest.approx(tuple(expected))
    assert obtained.value == pytest.approx(VALUES.std(ddof=1))
    from_sd = estimates.deviation_from_sd(obtained.value, 5)
    assert from_sd.interval == pytest.approx(obtained.interval)


MAKERS: dict[str, Callable[[np.ndarray], Estimate]] = {
    "mean": estimates.mean,
    "mean over items": lambda x: estimates.mean_over_items(x, 0.3),
    "correlation": lambda x: estimates.mean(np.tanh(x), 0.2, CORRELATIONS),
    "cases": lambda x: estimates.mean_of_cases(x, x[:, None] + np.array([-1.0, 0.2, 0.8])),
    "difference": lambda x: estimates.difference(x[:4], x[3:]),
    "deviation": estimates.deviation,
    "draws": lambda x: estimates.from_draws(0.2, np.round(np.tile(x, 20), 1), 40, "draws"),
    "resampled": lambda x: estimates.from_interval(0.2, 0.1, 0.5, 40, "bootstrap"),
}


@pytest.mark.parametrize("kind", MAKERS)
@given(seed=st.integers(0, 10_000), n=st.integers(6, 30), edge=st.floats(-0.999, 0.999))
def test_p_is_below_alpha_where_the_interval_excludes_a_value(
    kind: str, seed: int, n: int, edge: float
) -> None:
    result = MAKERS[kind](np.random.default_rng(seed).normal(0.2, 1, n))
    edge = abs(edge) if kind == "deviation" else edge
    low, high = result.interval
    if min(abs(edge - low), abs(edge - high)) > 1e-6:
        assert (result.p(edge) < ALPHA) == (edge < low or edge > high)
    assert 0 <= result.p(edge) <= 1


@pytest.mark.parametrize(("n", "effect"), [(5, 0.5), (5, 1.0), (10, 0.5)])
def test_needed_units_decide_in_eighty_percent(n: int, effect: float) -> None:
    """On average over first studies that did not decide, new ones of the size that `needed` gives
    decide at least as often as promised, also at a level that is adjusted for ten tests."""
    rng = np.random.default_rng(0)
    decided = []
    for _ in range(30):
        first = estimates.mean(rng.normal(effect, 1, n))
        if first.p(0) < ALPHA:
            continue
        for alpha in (ALPHA, ALPHA / 10):
            needed = first.needed(0.0, alpha)
            assert needed is not None
            studies = rng.normal(effect, 1, (100, needed))
            decided.append((stats.ttest_1samp(studies, 0, axis=1).pvalue < alpha).mean())
    assert np.mean(decided) > 0.75
    assert estimates.exact(3.0).needed(2.0) is None
    assert estimates.mean(np.zeros(3)).needed(0.0) is None


def test_interval_of_an_exact_number_is_a_point() -> None:
    result = estimates.exact(4094976)
    assert (result.interval, result.n_units, result.method) == ((4094976, 4094976), 1, "exact")
    assert (result.p(4094976), result.p(4094975)) == (1, 0)
