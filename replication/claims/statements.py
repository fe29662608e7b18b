"""Judge a statement that a paper makes about several cases by one overall verdict; see
`docs/verdicts.md`, "What if a paper says one thing of many cases?".
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from replication.claims import estimate as estimates
from replication.claims.estimate import Estimate
from replication.claims.judge import MIN_RUNS, Verdict, judge, p_value, too_few
from replication.claims.spec import Claim, Statement


@dataclass
class Case:
    """A claim in one case that the study has.

    Attributes:
        claim: the claim.
        estimate: our estimate.
        original: whether it has the paper's own data, model and protocol.
        model: name of its model; empty if it has none.
        seeds: names of the seeds of its runs; empty if it has none.
        p: p-value of the verdict, adjusted for the number of cases of its statement.
        n_tests: number of cases that it is adjusted for.
        verdict: the verdict, as if this were the paper's own case.
    """

    claim: Claim
    estimate: Estimate
    original: bool
    model: str = ""
    seeds: tuple[str, ...] = ()
    p: float = math.nan
    n_tests: int = 1
    verdict: Verdict = field(default_factory=lambda: Verdict("undecided"))


@dataclass(frozen=True)
class StatementVerdict:
    """The overall verdict on a statement.

    Attributes:
        verdict: the verdict, regardless of whether cases use stand-ins for the paper's own data,
            model or protocol.
        p: p-value of the verdict; NaN if the verdict follows from counts.
        estimate: estimate of the mean over cases; None if the statement is not pooled.
    """

    verdict: Verdict
    p: float
    estimate: Estimate | None = None


class _Counts(NamedTuple):
    """Numbers of cases of a statement: those judged, those in which it holds and fails."""

    judged: int
    holding: int
    failing: int

    def verdict(self, word: str) -> Verdict:
        """Make the verdict of the statement with these counts."""
        return Verdict(word, n_judged=self.judged, n_holding=self.holding, n_failing=self.failing)


def holm(p: Sequence[float]) -> np.ndarray:
    """Adjust p-values for multiple testing (Holm 1979); NaN are not counted as tests and stay."""
    values = np.asarray(p, dtype=np.float64)
    tested = np.flatnonzero(~np.isnan(values))
    order = tested[np.argsort(values[tested], kind="stable")]
    steps = values[order] * np.arange(len(order), 0, -1)
    adjusted = values.copy()
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1)
    return adjusted


def judge_cases(cases: Sequence[Case]) -> None:
    """Set the adjusted p-value and the verdict of each case of a statement."""
    adjusted = holm([p_value(case.claim, case.estimate) for case in cases])
    n_tests = int(np.isfinite(adjusted).sum())
    for case, p in zip(cases, adjusted, strict=True):
        case.p, case.n_tests = float(p), n_tests
        case.verdict = judge(case.claim, case.estimate, case.p)


def judge_statement(
    statement: Statement, cases: Sequence[Case], complete: bool
) -> StatementVerdict:
    """Judge a statement by its original cases, or by its stand-ins.

    Args:
        statement: the statement, and the rule that combines its cases.
        cases: the attempted cases of one status, at least one, already judged.
        complete: whether they include all cases of the paper. If not, only a case that contradicts
            a statement on all, or shows a statement on any, decides.
    """
    rule = {"all": _judge_all, "any": _judge_any, "pooled": _judge_pooled}[statement.rule]
    result = StatementVerdict(cases[0].verdict, cases[0].p) if len(cases) == 1 else rule(cases)
    decides = {"all": _disagrees, "any": _agrees, "pooled": _is_undecided}[statement.rule]
    if complete or decides(result.verdict):
        return result
    undecided = Verdict("undecided", reason="other cases of the paper have no number")
    return replace(result, verdict=_with_counts(undecided, cases))


def _with_counts(verdict: Verdict, cases: Sequence[Case]) -> Verdict:
    """Add the numbers of cases to a verdict: those judged, those in which it holds and fails."""
    case_verdicts = [case.verdict for case in cases]
    return verdict._replace(
        n_judged=len(cases),
        n_holding=sum(map(_agrees, case_verdicts)),
        n_failing=sum(map(_disagrees, case_verdicts)),
    )


def _judge_all(cases: Sequence[Case]) -> StatementVerdict:
    """Judge by the rule `all`: the statement holds if every case shows it by itself, which needs no
    adjustment (intersection-union test); one case that fails after adjustment contradicts it.
    """
    unadjusted = _judge_unadjusted(cases)
    holding = [case for case, verdict in zip(cases, unadjusted, strict=True) if _agrees(verdict)]
    failed = [case for case in cases if _disagrees(case.verdict)]
    counts = _Counts(len(cases), len(holding), len(failed))
    if failed:
        contradicted = any(case.verdict.word == "contradicted" for case in failed)
        verdict = counts.verdict("contradicted" if contradicted else "deviates")
        return StatementVerdict(verdict, _smallest(case.p for case in failed))
    p = _largest(p_value(case.claim, case.estimate) for case in cases)
    word = "reproduced" if len(holding) == len(cases) else "undecided"
    n_alone = sum(not _agrees(case.verdict) for case in holding)
    return StatementVerdict(counts.verdict(word)._replace(reason=_only_alone(n_alone)), p)


def _judge_any(cases: Sequence[Case]) -> StatementVerdict:
    """Judge by the rule `any`: the statement holds if one case shows it after adjustment, and fails
    if every case by itself shows the contrary.
    """
    holding = [case for case in cases if _agrees(case.verdict)]
    failed = [verdict for verdict in _judge_unadjusted(cases) if _disagrees(verdict)]
    counts = _Counts(len(cases), len(holding), len(failed))
    if holding:
        verdict = counts.verdict("reproduced")
        return StatementVerdict(verdict, _smallest(c.p for c in holding))
    p = _largest(p_value(case.claim, case.estimate) for case in cases)
    if len(failed) < len(cases):
        n_alone = len(failed) - sum(_disagrees(case.verdict) for case in cases)
        undecided = counts.verdict("undecided")._replace(reason=_only_alone(n_alone))
        return StatementVerdict(undecided, p)
    contradicted = any(verdict.word == "contradicted" for verdict in failed)
    word = "contradicted" if contradicted else "deviates"
    return StatementVerdict(counts.verdict(word), p)


def _only_alone(n: int) -> str:
    """Say how many of the cases that hold, or fail, do so without adjustment alone; empty for none.
    The counts of a statement include them.
    """
    return f"{n} of them not after correction for multiple tests" if n else ""


def _judge_unadjusted(cases: Sequence[Case]) -> list[Verdict]:
    """Judge each case as if there were no others, without adjustment."""
    return [judge(c.claim, c.estimate, p_value(c.claim, c.estimate)) for c in cases]


def _smallest(p: Iterable[float]) -> float:
    return min((value for value in p if not math.isnan(value)), default=math.nan)


def _largest(p: Iterable[float]) -> float:
    return max((value for value in p if not math.isnan(value)), default=math.nan)


def _judge_pooled(cases: Sequence[Case]) -> StatementVerdict:
    """Judge by the rule `pooled`: a test of the mean over cases, which are the sample."""
    claim = cases[0].claim.model_copy(update={"unit": None})
    estimate = _mean_of_cases(cases)
    p = p_value(claim, estimate)
    fewest_runs = min((len(case.seeds) for case in cases if case.seeds), default=MIN_RUNS)
    noun = "case" if estimate.n_units == len(cases) else "model"
    if estimate.n_units < MIN_RUNS:
        verdict = Verdict("undecided", reason=too_few(estimate.n_units, noun))
    elif fewest_runs < MIN_RUNS:
        verdict = Verdict("undecided", reason=too_few(fewest_runs))
    else:
        verdict = judge(claim, estimate, p)
    return StatementVerdict(_with_counts(verdict, cases), p, estimate)


def _mean_of_cases(cases: Sequence[Case]) -> Estimate:
    """Estimate the mean over cases; over models, each the mean of its cases, if there are several:
    cases of one model are alike.
    """
    quantity = cases[0].claim.quantity
    assert quantity is not None
    models = [case.model for case in cases]
    units = models if len(set(models)) > 1 else [str(i) for i in range(len(cases))]
    names = list(dict.fromkeys(units))
    weights = np.array([[unit == name for unit in units] for name in names], dtype=np.float64)
    weights /= weights.sum(axis=1, keepdims=True)
    has_same_seeds = len({case.seeds for case in cases}) == 1
    by_seed = None
    if has_same_seeds and all(len(c.estimate.values) == len(c.seeds) for c in cases):
        by_seed = weights @ np.array([case.estimate.values for case in cases])
    values = weights @ np.array([case.estimate.value for case in cases])
    bounds = estimates.CORRELATIONS if quantity.scale == "correlation" else estimates.UNBOUNDED
    return estimates.mean_of_cases(values, by_seed, bounds)


def _agrees(verdict: Verdict) -> bool:
    return verdict.word == "reproduced"


def _disagrees(verdict: Verdict) -> bool:
    return verdict.word in ("contradicted", "deviates")


def _is_undecided(verdict: Verdict) -> bool:
    return verdict.word == "undecided"
