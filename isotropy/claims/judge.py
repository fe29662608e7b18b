"""The verdict on one number: `docs/verdicts.md`, "When is a claim decided?"."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from isotropy.claims.estimate import ALPHA, Estimate
from isotropy.claims.spec import Beyond, Claim, Equals

FEWEST = 3
"""Runs with which a stochastic quantity has a verdict."""


class Verdict(NamedTuple):
    """A verdict as if the number were the paper's own case.

    Attributes:
        word: `reproduced`, `deviates`, `contradicted` or `undecided`.
        amount: what was obtained minus what is published, or minus the bound; NaN where the verdict
            is not about one number.
        reason: why it is undecided, for people.
        n_judged: cases or values that it was made from, where it is about several.
        n_holding, n_failing: those by which the statement holds, and those by which it fails.
    """

    word: str
    amount: float = math.nan
    reason: str = ""
    n_judged: int | None = None
    n_holding: int | None = None
    n_failing: int | None = None


def p_value(claim: Claim, estimate: Estimate) -> float:
    """The p-value of a verdict: that of the least excluded edge.

    The interval lies on one side of every edge where this is below ALPHA. NaN where there is no
    interval.
    """
    if isinstance(claim.test, Beyond) and claim.test.every:
        return math.nan
    return max(map(estimate.p, edges(claim)))


def edges(claim: Claim) -> list[float]:
    """Values between agreement and disagreement: the bound, or both ends of the tolerance."""
    if isinstance(claim.test, Equals):
        assert claim.published is not None
        value = claim.published.value
        tolerance = claim.test.around(value)
        return [value - tolerance, value + tolerance]
    assert claim.test is not None
    return [claim.test.bound]


def judge(claim: Claim, estimate: Estimate, p: float) -> Verdict:
    """Verdict on an estimate.

    Args:
        claim: what is tested.
        estimate: our number.
        p: its p-value (`p_value`), adjusted where several cases are tested.
    """
    test = claim.test
    assert test is not None
    if isinstance(test, Beyond) and test.every:
        return _judge_every(test, estimate, claim.unit == "seeds")
    if claim.unit == "deterministic":
        return _judge_exact(claim, estimate)
    if claim.unit == "seeds" and estimate.n_units < FEWEST:
        return Verdict("undecided", reason=_too_few(estimate.n_units))
    if math.isnan(p):
        return Verdict("undecided", reason="no interval")
    if not p < ALPHA:
        what = "an end of the tolerance" if isinstance(test, Equals) else "the bound"
        outside = not any(estimate.interval[0] <= e <= estimate.interval[1] for e in edges(claim))
        adjusted = "once adjusted for the number of cases, " if outside else ""
        return Verdict("undecided", reason=f"{adjusted}the interval includes {what}")
    return _judge_point(claim, estimate)


def _judge_exact(claim: Claim, estimate: Estimate) -> Verdict:
    """Verdict on a number without uncertainty."""
    if isinstance(claim.test, Beyond) and estimate.value == claim.test.bound:
        return Verdict("undecided", reason="exactly at the bound")
    return _judge_point(claim, estimate)


def _judge_point(claim: Claim, estimate: Estimate) -> Verdict:
    """Verdict on a number whose interval lies on one side of every edge."""
    value = estimate.value
    if isinstance(claim.test, Equals):
        assert claim.published is not None
        gap = value - claim.published.value
        # The tolerance is a decimal number, the difference a rounded one.
        if abs(gap) <= claim.test.around(claim.published.value) * (1 + 1e-9):
            return Verdict("reproduced")
        low, high = estimate.interval
        if value * claim.published.value < 0 and not low <= 0 <= high:
            return Verdict("contradicted", gap, "the opposite sign")
        return Verdict("deviates", gap)
    assert claim.test is not None
    if float(beyond(claim.test, np.array(value))) > 0:
        return Verdict("reproduced")
    return _on_the_other_side(claim.test, value)


def _judge_every(test: Beyond, estimate: Estimate, stochastic: bool) -> Verdict:
    """Verdict on a claim that no value is on the other side of a bound."""
    distances = beyond(test, estimate.values)
    n, n_failing = len(distances), int((distances <= 0).sum())
    if not n_failing:
        if stochastic and estimate.n_units < FEWEST:
            return Verdict("undecided", reason=_too_few(estimate.n_units))
        return Verdict("reproduced")
    worst = float(estimate.values[distances.argmin()])
    failed = _on_the_other_side(test, worst)
    return failed._replace(n_judged=n, n_holding=n - n_failing, n_failing=n_failing)


def _on_the_other_side(test: Beyond, value: float) -> Verdict:
    opposite = test.bound == 0 or value * test.bound < 0
    return Verdict("contradicted" if opposite else "deviates", value - test.bound)


def beyond(test: Beyond, values: np.ndarray) -> np.ndarray:
    """How far values are on the side of the bound that the claim names."""
    distances: np.ndarray = values - test.bound
    return distances if test.kind == "above" else -distances


def _too_few(n: int) -> str:
    return f"{n} {'run' if n == 1 else 'runs'}, {FEWEST} are needed"
