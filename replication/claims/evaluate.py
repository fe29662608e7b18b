"""Make the table of verdicts: each claim compared with our number for it, and one overall verdict
on each statement.

A claim is `reproduced`, `deviates`, or `contradicted` (the opposite sign, or the other side of a
bound); `undecided` where the interval allows several of these. A stand-in is only `consistent`,
`inconsistent` or `undecided`. Without a number it is `not computable` or `not attempted`, with the
reason. The table has all this in columns, which `replication.claims.wording` turns into sentences.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from replication.claims import estimate as estimates
from replication.claims.estimate import Estimate, deviation
from replication.claims.judge import MIN_RUNS_WITHOUT_FAILURE, Verdict, count_outliers, edges
from replication.claims.scales import name_of
from replication.claims.spec import ALPHA, Beyond, Claim, Equals, Quantity, Statement
from replication.claims.statements import Case, judge_cases, judge_statement
from replication.tables.bootstrap import RESAMPLES
from replication.tables.items import Z
from replication.tables.runs import join_deviations

NAMED = ("dataset", "embedding", "model", "task", "vectors")
"""Columns whose values say by themselves what they name."""
NO_NUMBER_FOR = "this study does not measure"
"""Reason of a claim whose case the study does not have; the column `missing_case` names it."""
SUMMARY_ROWS = ["mean", "sd"]  # values of `seed` in rows that summarize all seeds
_REQUIRED_LEARNED = (
    ("learned", "the model without any method"),
    ("all_learned", "a model that is compared"),
)
"""Columns that a claim can require, and the model that they are about."""
STAND_IN_WORDS = {"reproduced": "consistent", "undecided": "undecided"}

SCHEMA = {
    "id": "str",
    "paper": "str",
    "locator": "str",
    "statement": "str",
    "setup": "str",
    "statement_id": "str",
    "overall": "boolean",
    "ours": "boolean",
    "control_of": "str",
    "word": "str",
    "judged": "str",
    "amount": "float64",
    "reason": "str",
    "missing_case": "str",
    "n_judged": "Int64",
    "n_holding": "Int64",
    "n_failing": "Int64",
    "n_missing": "Int64",
    "failure_bound": "float64",
    "stand_in_word": "str",
    "n_stand_ins": "Int64",
    "n_stand_ins_holding": "Int64",
    "n_stand_ins_failing": "Int64",
    "status": "str",
    "quantity": "str",
    "side": "str",
    "bound": "float64",
    "bound_by": "str",
    "tolerance": "float64",
    "published": "float64",
    "obtained": "float64",
    "sd": "float64",
    "low": "float64",
    "high": "float64",
    "unit": "str",
    "n_units": "Int64",
    "runs": "str",
    "n_outliers": "Int64",
    "interval_method": "str",
    "p": "float64",
    "needed": "Int64",
    "source_note": "str",
    "data": "str",
    "embedding": "str",
    "deviations": "str",
    "table": "str",
    "column": "str",
    "record": "str",
}
"""Columns of the table of verdicts, with their types.

- `overall`: whether the row is the verdict on its whole statement: on its original cases if there
  are any, else on its stand-ins.
- `ours`: whether the statement is a control of ours and not the paper's; `control_of`: the
  statement of the paper that it is a control of.
- `word`: the verdict; `judged`: what it would be if the number were the paper's own case (empty
  without a number).
- `amount`: obtained minus published value, or minus the bound.
- `reason`: why it is undecided or has no number, or how many of the counted cases have that
  verdict without correction for multiple tests alone; `missing_case`: the case that the study does
  not have, if that is the reason.
- `n_judged`: number of cases or values of a verdict on several; the claim holds in `n_holding` of
  them and fails in `n_failing`; `n_missing`: number of cases without a number.
- `failure_bound`: of what must hold in every run and did, the largest share of runs that may fail
  (95 % confidence).
- `stand_in_word`: verdict on the stand-ins among the cases of a statement (overall rows), with
  their number and in how many it holds and fails; empty without stand-ins.
- `quantity`: what the number is, in words; empty where the cases of a statement differ.
- `side`: `above` or `below` a `bound`, or `within` the `tolerance` of `published`, or of `bound`
  where the paper prints no number.
- `bound_by`: who states the bound or tolerance, `paper` or `ours`; empty where it is 0.
- `low`, `high`: 95 % interval over the `unit`s, or over seeds and items, by `interval_method`.
- `runs`: the value of each run, in rising order, separated by spaces; `n_outliers`: how many of
  them are apart from the others (`replication.claims.judge.count_outliers`).
- `p`: two-sided p-value, adjusted for the number of cases of the statement.
- `needed`: number of fresh units that would decide an undecided claim.
- `deviations`: reasons why it is a stand-in.
- `record`: id of the record of the table that contains the number, where an audit starts."""


@dataclass
class Row:
    """A row of the table of verdicts, before its statement is judged.

    Attributes:
        values: values by column.
        case: the case to judge; None without a number.
    """

    values: dict[str, Any]
    case: Case | None = None


@dataclass(frozen=True)
class Tables:
    """The tables that claims are evaluated on.

    Attributes:
        tables: tables of our results, by id.
        records: id of the record of each table, by table id.
        missing: reason to give for a table that does not exist.
    """

    tables: Mapping[str, pd.DataFrame]
    records: Mapping[str, str]
    missing: str = field(default="")


def evaluate(
    claims: Sequence[Claim],
    tables: Mapping[str, pd.DataFrame],
    records: Mapping[str, str],
    missing: str,
) -> pd.DataFrame:
    """Make the table of verdicts on all claims: a row for each statement, and a row for each of
    its cases; columns as in SCHEMA.

    Args:
        claims: the claims; a statement takes the place of its first claim.
        tables: tables of our results, by id.
        records: id of the record of each table, by table id.
        missing: reason to give for a table that does not exist.
    """
    our_tables = Tables(tables, records, missing)
    statements: dict[str, list[Claim]] = {}
    for claim in claims:
        statements.setdefault(claim.belongs_to.id, []).append(claim)
    verdict_rows: list[dict[str, Any]] = []
    for members in statements.values():
        rows = [row for claim in members for row in _case_rows(claim, our_tables)]
        if rows:
            verdict_rows += _judge_rows(members[0].belongs_to, rows)
    defaults = {name: "" if kind == "str" else None for name, kind in SCHEMA.items()}
    return pd.DataFrame([defaults | row for row in verdict_rows], columns=list(SCHEMA)).astype(
        SCHEMA
    )


def _judge_rows(statement: Statement, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Judge the cases of a statement, and yield its rows, that of the overall verdict first.
    Original cases and stand-ins are two families.
    """
    cases = [row.case for row in rows if row.case is not None]
    originals, stand_ins = ([c for c in cases if c.original is kind] for kind in (True, False))
    judge_cases(originals)
    judge_cases(stand_ins)
    for row in rows:
        row.values |= {"statement_id": statement.id, "overall": len(rows) == 1}
        row.values |= {"ours": statement.ours, "control_of": statement.control_of}
        if row.case is not None:
            row.values |= _case_columns(row.case)
    on_stand_ins = _stand_in_columns(statement, stand_ins)
    if len(rows) > 1:
        yield _overall_row(statement, rows, originals or stand_ins) | on_stand_ins
    else:
        rows[0].values |= on_stand_ins
    for row in rows:
        yield row.values


def _stand_in_columns(statement: Statement, stand_ins: list[Case]) -> dict[str, Any]:
    """Return the columns of the verdict on the stand-ins of a statement."""
    if not stand_ins:
        return {}
    verdict = judge_statement(statement, stand_ins, complete=True).verdict
    agree, disagree = verdict.word == "reproduced", verdict.word in ("contradicted", "deviates")
    several = len(stand_ins) > 1  # of one, the verdict's counts are those of its values
    holding = verdict.n_holding if several else None
    failing = verdict.n_failing if several else None
    return {
        "stand_in_word": STAND_IN_WORDS.get(verdict.word, "inconsistent"),
        "n_stand_ins": len(stand_ins),
        "n_stand_ins_holding": int(agree) if holding is None else holding,
        "n_stand_ins_failing": int(disagree) if failing is None else failing,
    }


def _overall_row(statement: Statement, rows: list[Row], cases: list[Case]) -> dict[str, Any]:
    """Make the row with the overall verdict on a statement of several rows, from the cases that
    decide: the original ones, or stand-ins.
    """
    deciding = [row for row in rows if row.case and row.case.original is cases[0].original] or rows
    first = deciding[0].values
    columns: dict[str, Any] = {
        **{name: first[name] for name in ("paper", "locator", "table", "column", "record")},
        "id": statement.id,
        "statement_id": statement.id,
        "statement": statement.text,
        "overall": True,
        "ours": statement.ours,
        "control_of": statement.control_of,
        "source_note": first["source_note"],
        **_common_test_columns(deciding),
        "unit": "cases" if cases else "",
    }
    without_number = [
        (row.values["word"], row.values["reason"]) for row in rows if row.case is None
    ]
    if not cases:
        reasons = {r for r in without_number if r[1] != NO_NUMBER_FOR}
        fallback = ("not attempted", f"this study measures none of its {len(rows)} cases")
        return columns | _no_number_columns(*(reasons.pop() if len(reasons) == 1 else fallback))
    original = cases[0].original
    complete = not original or _has_all_originals(rows)
    statement_verdict = judge_statement(statement, cases, complete)
    deviations = [row.values.get("deviations", "") for row in rows]
    columns |= _verdict_columns(statement_verdict.verdict, original) | {
        "p": statement_verdict.p,
        "deviations": "" if original else join_deviations(*deviations),
        "n_units": len(cases),
        "n_missing": len(without_number),
    }
    if statement_verdict.estimate is not None:
        columns |= _estimate_columns(statement_verdict.estimate)
    return columns


def _has_all_originals(rows: list[Row]) -> bool:
    """Whether a statement has an original case of each of its claims, and all have a number."""
    originals = [row for row in rows if row.values.get("status") == "original"]
    claims = {row.values["id"] for row in originals}
    return claims == {row.values["id"] for row in rows} and all(r.case for r in originals)


def _case_rows(claim: Claim, our_tables: Tables) -> Iterator[Row]:
    """Yield a row for each case of a claim."""
    row: dict[str, Any] = claim.model_dump(include={"id", "paper", "locator", "statement"})
    row |= {
        "published": claim.published.value if claim.published else math.nan,
        "source_note": claim.published.source_note if claim.published else "",
        **_test_columns(claim),
        "unit": claim.unit or "",
        **dict.fromkeys(("table", "column", "record"), ""),
    }
    quantity = claim.quantity
    if quantity is None:
        yield Row(row | _no_number_columns("not attempted", str(claim.because)))
        return
    column = _describe_column(quantity)
    row |= {"table": quantity.table, "column": column, "quantity": quantity.name or name_of(column)}
    selected = _select_rows(quantity, our_tables)
    if isinstance(selected, dict):
        if not claim.extension:
            yield Row(row | selected)
        return
    row["record"] = our_tables.records[quantity.table]
    for name, group in _groups(quantity, selected):
        yield _case_row(claim, row | {"setup": name}, group)


def _select_rows(quantity: Quantity, our_tables: Tables) -> pd.DataFrame | dict[str, str]:
    """Select the table rows of a claim, or return columns that say why there are none."""
    if quantity.table not in our_tables.tables:
        return _no_number_columns("not attempted", our_tables.missing)
    table = our_tables.tables[quantity.table]
    needed_columns = ["status", *quantity.columns, *quantity.where, *quantity.besides]
    needed_columns += [*quantity.original, *quantity.by, *quantity.exact_where]
    needed_columns += [quantity.points] if quantity.points else []
    needed_columns += ["too_short"] * quantity.requires_training
    needed_columns += [c for c, _ in _REQUIRED_LEARNED if getattr(quantity, f"requires_{c}")]
    needed_columns += ["layer"] if quantity.across_layers else []
    if absent_columns := [c for c in needed_columns if c not in table.columns]:
        return _no_number_columns(
            "not computable", f"{quantity.table} has no column {absent_columns[0]}"
        )
    for name, value in quantity.where.items():
        table = table[table[name] == value]
    for name, values in quantity.besides.items():
        table = table[~table[name].isin(values)]
    if "seed" in table.columns:
        table = table[~table["seed"].isin(SUMMARY_ROWS)]
    if len(table):
        return table
    # An empty value names nothing: static vectors have no data set; nor does a flag
    names = {c: v for c, v in quantity.where.items() if v != "" and not isinstance(v, bool)}
    description = ", ".join(str(v) if c in NAMED else f"{c} {v}" for c, v in names.items())
    columns = _no_number_columns("not attempted", NO_NUMBER_FOR)
    return columns | {"missing_case": description or "such a case"}


def _groups(quantity: Quantity, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield name and rows of each case: a setup, split further by the columns in `by`."""
    keys = [c for c in ("setup", *quantity.by) if c in rows.columns]
    if not keys:
        yield "", rows
        return
    for values, group in rows.groupby(keys, sort=False):
        pairs = zip(keys, values, strict=True)
        yield ", ".join(str(v) if k != "layer" else f"layer {v:g}" for k, v in pairs), group


def _case_row(claim: Claim, row: dict[str, Any], group: pd.DataFrame) -> Row:
    """Make the row of a case, with its estimate or the reason why it has no number."""
    quantity = claim.quantity
    assert quantity is not None
    first = group.iloc[0]
    if first["status"].startswith("not attempted"):
        _, _, reason = first["status"].partition(": ")
        return Row(row | _no_number_columns("not attempted", f"it is {reason}"))
    original_values = {c: v if isinstance(v, list) else [v] for c, v in quantity.original.items()}
    deviating = [c for c, values in original_values.items() if not group[c].isin(values).all()]
    original = bool((group["status"] == "original").all()) and not deviating
    deviations = [first["deviations"]] if "deviations" in group else []
    deviations += [f"{c} {first[c]}" for c in deviating]
    row = row | {
        **{c: first[c] for c in ("data", "embedding") if c in group.columns},
        "status": "original" if original else "stand-in",
        "deviations": join_deviations(*deviations),
    }
    if not original and (reason := _reason_not_attempted(claim, quantity, group)):
        return Row(row | _no_number_columns("not attempted", reason))
    if not original and claim.stand_in_test is not None:
        claim = claim.model_copy(update={"test": claim.stand_in_test})
        row |= _test_columns(claim)
    if reason := _reason_unusable(claim, quantity, group):
        return Row(row | _no_number_columns("not computable", reason))
    estimate = estimate_over_conventions(claim, group)
    if math.isnan(estimate.value):
        return Row(row | _no_number_columns("not computable", "its values do not vary"))
    models, seeds = (tuple(group[c].astype(str)) if c in group else () for c in ("model", "seed"))
    return Row(row, Case(claim, estimate, original, "".join(models[:1]), seeds))


def _reason_not_attempted(claim: Claim, quantity: Quantity, group: pd.DataFrame) -> str:
    """Return the reason why a claim is not attempted on a stand-in; empty if it is."""
    if claim.originals_only is not None:
        return claim.originals_only
    if quantity.requires_training:
        return next((reason for reason in group["too_short"] if reason), "")
    return ""


def _reason_unusable(claim: Claim, quantity: Quantity, group: pd.DataFrame) -> str:
    """Return the reason why the rows of a case give no number; empty if they do."""
    for column, model in _REQUIRED_LEARNED:
        if getattr(quantity, f"requires_{column}") and not group[column].all():
            return f"{model} did not learn the task"
    for column in quantity.columns:
        if not np.isfinite(_float_values(group[column])).all():
            return f"{column} is not a number"
    used = ["items_error"]
    used += ["low", "high"] if claim.unit == "items" or quantity.convention is not None else []
    for column in (f"{quantity.column}_{end}" for end in used):
        if column in group.columns and not np.isfinite(_float_values(group[column])).all():
            return f"{column} is not a number"
    run = [c for c in ("seed", "layer") if c in group.columns]
    run = run if quantity.across_layers else run[:1]
    if claim.unit == "seeds" and "seed" in run and group.duplicated(run).any():
        return "there are several values per seed"
    if quantity.across_layers:
        return ""
    if claim.unit == "deterministic" and group[quantity.column].nunique() > 1:
        return "there are several values"
    return ""


def estimate_over_conventions(claim: Claim, group: pd.DataFrame) -> Estimate:
    """Estimate the quantity of a claim, with an interval over what a convention decides.

    Arguments as in `estimate_of`.
    """
    quantity = claim.quantity
    assert quantity is not None
    chosen = estimate_of(claim, group)
    limits = [f"{quantity.column}_{end}" for end in ("low", "high")]
    if quantity.convention is None or not set(limits) <= set(group.columns):
        return chosen
    lowest, highest = (
        estimate_of(claim, group.assign(**{quantity.column: group[limit]})) for limit in limits
    )
    return estimates.over_convention(lowest, chosen, highest, quantity.convention)


def estimate_of(claim: Claim, group: pd.DataFrame) -> Estimate:
    """Estimate the quantity of a claim, by the claim's unit.

    Args:
        claim: a claim with a quantity.
        group: table rows of one case.
    """
    quantity = claim.quantity
    assert quantity is not None
    if quantity.across_layers:
        return _estimate_across_layers(claim.unit, quantity, group)
    if claim.unit == "deterministic":
        return estimates.exact(float(_float_values(group[quantity.column])[0]))
    if claim.unit == "items":
        return _estimate_over_items(quantity, group.iloc[0])
    values = _float_values(group[quantity.column])
    if quantity.minus is not None:
        return estimates.difference(values, _float_values(group[quantity.minus]))
    summary = _seed_summary(quantity, group)
    if quantity.statistic == "sd":
        n = int(group["n_seeds"].iloc[0]) if "n_seeds" in group.columns else len(values)
        is_single = len(values) == 1
        return estimates.deviation_from_sd(float(values[0]), n) if is_single else deviation(values)
    if summary is not None:
        return estimates.from_summary(float(values[0]), *summary)
    if f"{quantity.column}_items_error" in group.columns:
        error = float(_float_values(group[f"{quantity.column}_items_error"])[0])
        return estimates.mean_over_items(values, error)
    exact = [(group[name] == value).all() for name, value in quantity.exact_where.items()]
    if exact and all(exact) and np.allclose(values, values[0], rtol=1e-9, atol=0):
        return replace(estimates.exact(float(values[0])), n_units=len(values))
    if quantity.scale == "linear":
        return estimates.mean(values)
    n_points = group[quantity.points].min() if quantity.points else math.inf
    resolution = estimates.rank_resolution(int(n_points)) if math.isfinite(n_points) else 0.0
    return estimates.mean(values, resolution, estimates.CORRELATIONS)


def _estimate_across_layers(unit: str | None, quantity: Quantity, group: pd.DataFrame) -> Estimate:
    """Estimate a statistic over the layers of a model, by seeds or by errors over items."""
    columns = [c for c in (quantity.column, quantity.against) if c is not None]

    def statistic(rows: pd.DataFrame) -> float:
        """The statistic of rows, one per layer."""
        values = [_float_values(rows[c]) for c in columns]
        return float(_layer_statistic(quantity, values[0][None], values[-1])[0])

    if unit == "deterministic":
        return estimates.exact(statistic(group))
    if unit == "seeds":
        values = np.array([statistic(rows) for _, rows in group.groupby("seed", sort=False)])
        n_layers = group["layer"].nunique()
        if quantity.against is not None:
            resolution = estimates.rank_resolution(n_layers)
            return estimates.mean(values, resolution, estimates.CORRELATIONS)
        if quantity.statistic == "share":
            return estimates.mean(values, 1 / n_layers, (0, 1))
        return estimates.mean(values)
    low, high, n_items = (_float_values(group[c]) for c in _item_columns(quantity, group))
    centres = _float_values(group[quantity.column])
    noise = np.random.default_rng(0).standard_normal((RESAMPLES, len(group)))
    draws = centres + noise * (high - low) / (2 * Z)
    statistics = _layer_statistic(quantity, draws, _float_values(group[columns[-1]]))
    method = "normal errors over items, layers fixed"
    return estimates.from_draws(statistic(group), statistics, int(n_items.min()), method)


def _layer_statistic(quantity: Quantity, values: np.ndarray, against: np.ndarray) -> np.ndarray:
    """Compute the statistic of values, shape (m, layers); return shape (m,)."""
    if quantity.statistic == "second_lowest":
        lowest: np.ndarray = np.sort(values, axis=1)[:, :2]
        return lowest[:, -1]
    if quantity.against is None:
        rows = values > 0.5 if quantity.statistic == "share" else values
        result: np.ndarray = rows.mean(axis=1)
        return result
    ranks, fixed = (stats.rankdata(x, axis=1) for x in (values, against[None]))
    ranks, fixed = (x - x.mean(axis=1, keepdims=True) for x in (ranks, fixed))
    norms = np.sqrt((ranks**2).sum(axis=1) * (fixed**2).sum())
    with np.errstate(invalid="ignore"):
        rho: np.ndarray = (ranks * fixed).sum(axis=1) / norms
    return rho


def _item_columns(quantity: Quantity, rows: pd.DataFrame) -> list[str]:
    """Return the columns of an interval over items: its ends, and the number of items."""
    columns = [f"{quantity.column}_low", f"{quantity.column}_high", "n_items"]
    if not set(columns) <= set(rows.columns):
        raise KeyError(f"{quantity.table} has no interval over items of {quantity.column}")
    return columns


def _estimate_over_items(quantity: Quantity, row: pd.Series) -> Estimate:
    low, high, n = (float(row[c]) for c in _item_columns(quantity, row.to_frame().T))
    method = str(row.get("interval_method", "bootstrap"))
    return estimates.from_interval(float(row[quantity.column]), low, high, int(n), method)


def _seed_summary(quantity: Quantity, group: pd.DataFrame) -> tuple[float, int] | None:
    """Return the standard deviation over seeds and their number, if a row is a mean over seeds."""
    deviation = f"{quantity.column}_sd"
    if len(group) > 1 or not {"n_seeds", deviation} <= set(group.columns):
        return None
    return float(group[deviation].iloc[0]), int(group["n_seeds"].iloc[0])


def _float_values(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=math.nan)


def _case_columns(case: Case) -> dict[str, Any]:
    """Return the columns of a judged case."""
    columns = (
        _estimate_columns(case.estimate)
        | _verdict_columns(case.verdict, case.original)
        | {"p": case.p}
    )
    if case.claim.unit == "seeds" and len(values := case.estimate.values) > 1:
        columns["runs"] = " ".join(f"{value:.6g}" for value in np.sort(values))
        columns["n_outliers"] = count_outliers(values)
    if case.verdict.word == "undecided":
        columns["needed"] = _units_needed(case)
    return columns


def _units_needed(case: Case) -> int | None:
    """Return the number of fresh units that would decide a case: enough to exclude every edge at
    the level that Holm's adjustment leaves for the first of the cases of its statement.
    """
    if isinstance(case.claim.test, Beyond) and case.claim.test.every:
        return MIN_RUNS_WITHOUT_FAILURE
    alpha = ALPHA / max(case.n_tests, 1)
    needed = [case.estimate.needed(edge, alpha) for edge in edges(case.claim)]
    return None if None in needed else max(n for n in needed if n is not None)


def _estimate_columns(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "obtained": estimate.value,
        "sd": estimate.sd,
        "low": low,
        "high": high,
        "n_units": estimate.n_units,
        "interval_method": estimate.method,
    }


def _verdict_columns(verdict: Verdict, original: bool) -> dict[str, Any]:
    """Return the columns of a verdict; a stand-in never counts as a reproduction."""
    word = verdict.word if original else STAND_IN_WORDS.get(verdict.word, "inconsistent")
    return {
        **verdict._asdict(),
        "word": word,
        "judged": verdict.word,
        "status": "original" if original else "stand-in",
    }


def _no_number_columns(word: str, reason: str) -> dict[str, str]:
    """Return the columns of a claim without a number."""
    return {"word": word, "reason": reason}


def _describe_column(quantity: Quantity) -> str:
    """Describe the column of a quantity in words."""
    if quantity.minus is not None:
        return f"{quantity.column} minus {quantity.minus}"
    if quantity.against is not None:
        return f"{quantity.column} against {quantity.against}"
    return quantity.column


def _test_columns(claim: Claim) -> dict[str, Any]:
    """Return the columns of a test: a side of a bound, or a tolerance about the published value."""
    columns = {"side": "", "bound": math.nan, "bound_by": "", "tolerance": math.nan}
    if claim.test is None:
        return columns
    if isinstance(claim.test, Equals):
        around = claim.test.around(claim.value)
        by, bound = "ours" if around else "", math.nan if claim.published else claim.value
        return columns | {"side": "within", "bound": bound, "bound_by": by, "tolerance": around}
    by = "paper" if claim.test.published else "ours" if claim.test.bound else ""
    return columns | {"side": claim.test.kind, "bound": claim.test.bound, "bound_by": by}


def _common_test_columns(rows: list[Row]) -> dict[str, Any]:
    """Return the columns of the quantity and the test of a statement that all its claims share."""
    quantities = {row.values.get("quantity", "") for row in rows}
    columns: dict[str, Any] = {"quantity": quantities.pop()} if len(quantities) == 1 else {}
    names = ("side", "bound", "bound_by", "tolerance", "published")
    tests = [{name: row.values[name] for name in names} for row in rows]
    if len({str(test) for test in tests}) == 1 and tests[0]["side"] != "within":
        columns |= {name: tests[0][name] for name in ("side", "bound", "bound_by")}
    return columns
