"""One verdict for what a paper says once, of several cases: `docs/verdicts.md`, "What if a paper
says one thing of many cases?".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from isotropy.claims import estimate as estimates
from isotropy.claims.estimate import Estimate
from isotropy.claims.judge import Verdict, judge, p_value
from isotropy.claims.spec import Claim, Family


@dataclass
class Case:
    """A claim in one case that the study has.

    Attributes:
        claim: the claim.
        estimate: our number.
        original: whether it is of the paper's own data, model and protocol.
        p: as the verdict needs it, adjusted for the cases of its family.
        verdict: as if it were the paper's own case.
    """

    claim: Claim
    estimate: Estimate
    original: bool
    p: float = math.nan
    verdict: Verdict = field(default_factory=lambda: Verdict("undecided"))


@dataclass(frozen=True)
class Headline:
    """The verdict on a family.

    Attributes:
        verdict: as if all cases were the paper's own.
        p: its p-value; NaN where the verdict follows from counts.
        estimate: of the mean over cases, where the family is pooled.
        original: whether it is of the paper's own data, model and protocol.
    """

    verdict: Verdict
    p: float
    estimate: Estimate | None
    original: bool


class _Counts(NamedTuple):
    """Cases of a family, those in which it holds, and those in which it fails."""

    judged: int
    holding: int
    failing: int

    def verdict(self, word: str) -> Verdict:
        """The family's verdict."""
        return Verdict(word, n_judged=self.judged, n_holding=self.holding, n_failing=self.failing)


def holm(p: Sequence[float]) -> np.ndarray:
    """p-values adjusted for their number (Holm 1979); NaN are no tests and stay."""
    values = np.asarray(p, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(values[known], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted = values.copy()
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def judge_cases(cases: Sequence[Case]) -> None:
    """Give each case of a family its adjusted p-value and its verdict."""
    adjusted = holm([p_value(case.claim, case.estimate) for case in cases])
    for case, p in zip(cases, adjusted, strict=True):
        case.p = float(p)
        case.verdict = judge(case.claim, case.estimate, case.p)


def headline(family: Family, cases: Sequence[Case], complete: bool) -> Headline:
    """The verdict on a family.

    Args:
        family: what the paper says once.
        cases: those that were attempted, at least one, judged.
        complete: whether the study attempts all cases that the paper has.
    """
    original = complete and all(case.original for case in cases)
    if len(cases) == 1:
        only = cases[0]
        decides = family.rule == "all" and only.original and _disagrees(only.verdict)
        return Headline(only.verdict, only.p, None, original or decides)
    rule = {"all": _of_all, "any": _of_any, "pooled": _pooled}[family.rule]
    return rule(cases, original)


def _of_all(cases: Sequence[Case], original: bool) -> Headline:
    """It holds where every case by itself shows it, which needs no adjustment (intersection-union
    test); one case that fails, after adjustment, contradicts it.
    """
    alone = _alone(cases)
    holds = [case for case, verdict in zip(cases, alone, strict=True) if _agrees(verdict)]
    failed = [case for case in cases if _disagrees(case.verdict)]
    counts = _Counts(len(cases), len(holds), len(failed))
    if failed:
        # A counter-example of the paper's own kind decides, whatever stand-ins do.
        own = any(case.original for case in failed)
        contradicted = any(case.verdict.word == "contradicted" for case in failed)
        verdict = counts.verdict("contradicted" if contradicted else "deviates")
        return Headline(verdict, _least(case.p for case in failed), None, original or own)
    p = _largest(p_value(case.claim, case.estimate) for case in cases)
    word = "reproduced" if len(holds) == len(cases) else "undecided"
    return Headline(counts.verdict(word), p, None, original)


def _of_any(cases: Sequence[Case], original: bool) -> Headline:
    """It holds where one case shows it after adjustment, and fails where every case by itself
    shows the contrary.
    """
    holds = [case for case in cases if _agrees(case.verdict)]
    failed = [verdict for verdict in _alone(cases) if _disagrees(verdict)]
    counts = _Counts(len(cases), len(holds), len(failed))
    if holds:
        verdict = counts.verdict("reproduced")
        return Headline(verdict, _least(c.p for c in holds), None, original)
    p = _largest(p_value(case.claim, case.estimate) for case in cases)
    if len(failed) < len(cases):
        return Headline(counts.verdict("undecided"), p, None, original)
    contradicted = any(verdict.word == "contradicted" for verdict in failed)
    word = "contradicted" if contradicted else "deviates"
    return Headline(counts.verdict(word), p, None, original)


def _alone(cases: Sequence[Case]) -> list[Verdict]:
    """Verdicts of cases as if there were no others."""
    return [judge(c.claim, c.estimate, p_value(c.claim, c.estimate)) for c in cases]


def _least(p: Iterable[float]) -> float:
    return min((value for value in p if not math.isnan(value)), default=math.nan)


def _largest(p: Iterable[float]) -> float:
    return max((value for value in p if not math.isnan(value)), default=math.nan)


def _pooled(cases: Sequence[Case], original: bool) -> Headline:
    """It holds in the mean over cases, which are the sample."""
    claim = cases[0].claim.model_copy(update={"unit": "tasks"})
    quantity = claim.quantity
    assert quantity is not None
    values = np.array([case.estimate.value for case in cases])
    found = estimates.mean(values, correlation=quantity.scale == "correlation")
    p = p_value(claim, found)
    if len(cases) < 3:
        verdict = Verdict("undecided", reason=f"{len(cases)} cases, 3 are needed")
    else:
        verdict = judge(claim, found, p)
    alone = [case.verdict for case in cases]
    counted = verdict._replace(
        n_judged=len(cases),
        n_holding=sum(map(_agrees, alone)),
        n_failing=sum(map(_disagrees, alone)),
    )
    return Headline(counted, p, found, original)


def _agrees(verdict: Verdict) -> bool:
    return verdict.word == "reproduced"


def _disagrees(verdict: Verdict) -> bool:
    return verdict.word in ("contradicted", "deviates")
