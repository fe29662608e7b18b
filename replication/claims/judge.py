"""The verdict on one number; see `docs/verdicts.md`, "When is a claim decided?"."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from replication.claims.estimate import Estimate
from replication.claims.spec import ALPHA, Beyond, Claim, Equals

MIN_RUNS = 3
"""Minimum number of runs for a verdict on a stochastic quantity."""
MAX_FAILURE_RATE = 0.5
"""What holds in every run is reproduced once fewer runs than this share can fail, with 95 %
confidence."""
MIN_RUNS_WITHOUT_FAILURE = math.floor(math.log(ALPHA) / math.log(1 - MAX_FAILURE_RATE)) + 1
"""So many runs are needed for that: five."""

MIN_ITEMS = 20
"""Minimum number of items for a verdict over items. With fewer, a correlation of 0.45 cannot be
told from 0, and resampling is unreliable."""


class Verdict(NamedTuple):
    """A verdict, as if the number were the paper's own case.

    Attributes:
        word: `reproduced`, `deviates`, `contradicted` or `undecided`.
        amount: obtained minus published value, or minus the bound; NaN if the verdict is not on a
            single number.
        reason: why it is undecided, as text.
        n_judged: number of cases or values of a verdict on several.
        n_holding, n_failing: in how many of these the statement holds, and fails.
        failure_bound: 95 % upper bound on the share of runs that fail, where none of them did.
    """

    word: str
    amount: float = math.nan
    reason: str = ""
    n_judged: int | None = None
    n_holding: int | None = None
    n_failing: int | None = None
    failure_bound: float = math.nan


def p_value(claim: Claim, estimate: Estimate) -> float:
    """Compute the p-value of a verdict, the largest over all edges.

    It is below ALPHA exactly if the interval contains no edge. NaN without an interval.
    """
    if isinstance(claim.test, Beyond) and claim.test.every:
        return math.nan
    return max(map(estimate.p, edges(claim)))


def edges(claim: Claim) -> list[float]:
    """Return the values that separate agreement from disagreement: the bound, or both ends of the
    tolerance.
    """
    if isinstance(claim.test, Equals):
        tolerance = claim.test.around(claim.value)
        return [claim.value - tolerance, claim.value + tolerance]
    assert claim.test is not None
    return [claim.test.bound]


def judge(claim: Claim, estimate: Estimate, p: float) -> Verdict:
    """Judge a claim by an estimate.

    Args:
        claim: the claim to test.
        estimate: our estimate of its quantity.
        p: its p-value (`p_value`), adjusted if several cases are tested.
    """
    test = claim.test
    assert test is not None
    if isinstance(test, Beyond) and test.every:
        return _judge_every(test, estimate, claim.unit == "seeds")
    if claim.unit == "deterministic":
        return _judge_exact(claim, estimate)
    if claim.unit == "seeds" and estimate.n_units < MIN_RUNS:
        return Verdict("undecided", reason=too_few(estimate.n_units))
    if claim.unit == "items" and estimate.n_units < MIN_ITEMS:
        return Verdict("undecided", reason=f"{estimate.n_units} items; a verdict needs {MIN_ITEMS}")
    if math.isnan(p):
        return Verdict("undecided", reason=f"no interval: {estimate.method}")
    if not p < ALPHA:
        excluded = not any(
            estimate.interval[0] <= edge <= estimate.interval[1] for edge in edges(claim)
        )
        reason = f"the interval includes {_edge_name(claim)}"
        if excluded:
            alone = "holds" if _judge_point(claim, estimate).word == "reproduced" else "fails"
            reason = f"{alone}, but not after correction for multiple tests"
        return Verdict("undecided", reason=reason)
    if claim.unit == "seeds" and (n_outliers := count_outliers(estimate.values)):
        sides = [tuple(value > edge for edge in edges(claim)) for value in estimate.values]
        if len(set(sides)) > 1:
            groups = f"{len(sides) - n_outliers} and {n_outliers}"
            return Verdict("undecided", reason=f"runs fall into two groups, of {groups}")
    return _judge_point(claim, estimate)


def count_outliers(values: np.ndarray) -> int:
    """Count the runs that are apart from the others, such as fine-tuning that collapsed; of fewer
    than five runs that cannot be told.

    Values fall into two groups where the largest gap between neighbours is a larger share of their
    range than in 99 % of normal samples, in the manner of Dixon's (1950) test of outliers. Return
    the size of the smaller group, or 0.
    """
    ordered = np.sort(values)
    gaps = np.diff(ordered)
    if len(ordered) < 5 or gaps.sum() <= 1e-6 * np.abs(ordered).max():
        return 0
    # 99th percentile in normal samples of 5 to 100, within 0.01
    if gaps.max() <= (0.205 + 2.13 * len(ordered) ** -0.75) * gaps.sum():
        return 0
    below = int(gaps.argmax()) + 1
    return min(below, len(ordered) - below)


def _judge_exact(claim: Claim, estimate: Estimate) -> Verdict:
    """Judge a number without uncertainty, but for that of a convention."""
    low, high = estimate.interval
    if low < high and any(low <= edge <= high for edge in edges(claim)):
        reason = f"the range of the convention includes {_edge_name(claim)}"
        return Verdict("undecided", reason=reason)
    if isinstance(claim.test, Beyond) and estimate.value == claim.test.bound:
        return Verdict("undecided", reason="exactly at the bound")
    return _judge_point(claim, estimate)


def _edge_name(claim: Claim) -> str:
    return "an end of the tolerance" if isinstance(claim.test, Equals) else "the bound"


def _judge_point(claim: Claim, estimate: Estimate) -> Verdict:
    """Judge a number by its value alone, once the interval excludes every edge."""
    value = estimate.value
    if isinstance(claim.test, Equals):
        gap = value - claim.value
        # Floating-point slack: the tolerance is a decimal number, the gap is rounded.
        if abs(gap) <= claim.test.around(claim.value) * (1 + 1e-9):
            return Verdict("reproduced")
        low, high = estimate.interval
        if value * claim.value < 0 and not low <= 0 <= high:
            return Verdict("contradicted", gap, "the opposite sign")
        return Verdict("deviates", gap)
    assert claim.test is not None
    if float(beyond(claim.test, np.array(value))) > 0:
        return Verdict("reproduced")
    return _wrong_side_verdict(claim.test, value)


def _judge_every(test: Beyond, estimate: Estimate, stochastic: bool) -> Verdict:
    """Judge a claim that all values lie on one side of a bound."""
    distances = beyond(test, estimate.values)
    n, n_failing = len(distances), int((distances <= 0).sum())
    if not n_failing and not stochastic:
        return Verdict("reproduced")
    if not n_failing:
        bound = float(1 - ALPHA ** (1 / n))
        if n >= MIN_RUNS_WITHOUT_FAILURE:
            return Verdict("reproduced", failure_bound=bound)
        return Verdict("undecided", failure_bound=bound)
    worst = float(estimate.values[distances.argmin()])
    failed = _wrong_side_verdict(test, worst)
    return failed._replace(n_judged=n, n_holding=n - n_failing, n_failing=n_failing)


def _wrong_side_verdict(test: Beyond, value: float) -> Verdict:
    opposite = test.bound == 0 or value * test.bound < 0
    return Verdict("contradicted" if opposite else "deviates", value - test.bound)


def beyond(test: Beyond, values: np.ndarray) -> np.ndarray:
    """Return signed distances from the bound, positive on the side that the claim names."""
    distances: np.ndarray = values - test.bound
    return distances if test.kind == "above" else -distances


def too_few(n: int, noun: str = "run") -> str:
    """Return that so many runs, or other units, are too few for a verdict."""
    return f"{n} {noun}{'' if n == 1 else 's'}, {MIN_RUNS} are needed"
