"""The table of verdicts: each claim against the number that bears on it, and one headline for each
family.

A claim is `reproduced`, `deviates`, or `contradicted` (the opposite sign, or the other side of a
bound); `undecided` where the interval does not tell. A stand-in is only `consistent`,
`inconsistent` or `undecided`. Without a number it is `not computable` or `not attempted`, with the
reason. All of it are columns; `isotropy.claims.wording` makes sentences of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from isotropy.claims import estimate as estimates
from isotropy.claims.estimate import Estimate, deviation
from isotropy.claims.families import Case, headline, judge_cases
from isotropy.claims.judge import Verdict, edges
from isotropy.claims.spec import Beyond, Claim, Equals, Family, Quantity

NO_NUMBER_FOR = "the study makes no number for"
"""Reason of a claim whose case the study lacks; `missing_case` names the case."""
SUMMARIES = ["mean", "sd"]  # rows of a table over its seeds
STAND_IN = {"reproduced": "consistent", "undecided": "undecided"}

SCHEMA = {
    "id": "str",
    "paper": "str",
    "locator": "str",
    "statement": "str",
    "setup": "str",
    "family": "str",
    "headline": "boolean",
    "word": "str",
    "judged": "str",
    "amount": "float64",
    "reason": "str",
    "missing_case": "str",
    "n_judged": "Int64",
    "n_holding": "Int64",
    "n_failing": "Int64",
    "n_missing": "Int64",
    "status": "str",
    "side": "str",
    "bound": "float64",
    "tolerance": "float64",
    "published": "float64",
    "obtained": "float64",
    "sd": "float64",
    "low": "float64",
    "high": "float64",
    "unit": "str",
    "n_units": "Int64",
    "interval_method": "str",
    "p": "float64",
    "needed": "Int64",
    "trust": "str",
    "data": "str",
    "embedding": "str",
    "deviations": "str",
    "table": "str",
    "column": "str",
    "record": "str",
}
"""Columns of the table of verdicts. `headline`: the one row that speaks for its family. `word`: the
verdict; `judged`: what it would be if the number were the paper's own case (empty without a
number); `amount`: what was obtained minus what is published, or minus the bound; `reason`: why it
is undecided or has no number, for people, and the `missing_case` if the study lacks one;
`n_judged`: cases or values of a verdict about several, of which `n_holding` hold and `n_failing`
fail; `n_missing`: cases without a number. The test: `side` is `above` or `below` a `bound`, or
`within` the `tolerance` of `published`. `low` and `high`: 95 % interval over the `unit`s, or over
seeds and items, by `interval_method`; `p`: the two-sided p-value, adjusted for the cases of the
family; `needed`: units that would decide an undecided claim; `deviations`: what makes it a stand-
in; `record`: id of the record of the table that the number stands in, from which the audit goes
on."""


@dataclass
class Row:
    """A row of the table before its family is judged.

    Attributes:
        values: its columns.
        case: what is judged; None where there is no number.
    """

    values: dict[str, Any]
    case: Case | None = None


@dataclass(frozen=True)
class Tables:
    """What claims are evaluated on.

    Attributes:
        tables: our tables by id.
        records: id of each table's record.
        missing: why a table that is not there is not.
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
    """Verdicts of all claims: a headline for each family, and a row for each of its cases; columns
    as in SCHEMA.

    Args:
        claims: the claims; a family stands where its first member does.
        tables: our tables by id.
        records: id of each table's record.
        missing: why a table that is not there is not.
    """
    ours = Tables(tables, records, missing)
    families: dict[str, list[Claim]] = {}
    for claim in claims:
        families.setdefault(claim.belongs_to.id, []).append(claim)
    found: list[dict[str, Any]] = []
    for members in families.values():
        rows = [row for claim in members for row in _rows(claim, ours)]
        if rows:
            found += _judged(members[0].belongs_to, rows)
    empty = {name: "" if kind == "str" else None for name, kind in SCHEMA.items()}
    return pd.DataFrame([empty | row for row in found], columns=list(SCHEMA)).astype(SCHEMA)


def _judged(family: Family, rows: list[Row]) -> Iterator[dict[str, Any]]:
    """Rows of a family, its headline first."""
    cases = [row.case for row in rows if row.case is not None]
    judge_cases(cases)
    for row in rows:
        row.values |= {"family": family.id, "headline": len(rows) == 1}
        if row.case is not None:
            row.values |= _of_case(row.case)
    if len(rows) > 1:
        yield _headline(family, rows, cases)
    for row in rows:
        yield row.values


def _headline(family: Family, rows: list[Row], cases: list[Case]) -> dict[str, Any]:
    """The row that speaks for a family of several cases."""
    first = next((row for row in rows if row.case is not None), rows[0]).values
    found: dict[str, Any] = {
        **{name: first[name] for name in ("paper", "locator", "table", "column", "record")},
        "id": family.id,
        "family": family.id,
        "statement": family.statement,
        "headline": True,
        "trust": first["trust"],
        **_common_test(rows),
        "unit": "cases" if cases else "",
    }
    absent = [(row.values["word"], row.values["reason"]) for row in rows if row.case is None]
    if not cases:
        same = len(set(absent)) == 1
        none = ("not attempted", f"the study has none of its {len(rows)} cases")
        return found | _no_number(*(absent[0] if same else none))
    whole = headline(family, cases, complete=not absent)
    deviations = [d for row in rows for d in row.values.get("deviations", "").split("; ") if d]
    if absent:
        deviations.insert(0, f"{len(absent)} of {len(rows)} cases without a number")
    found |= _words(whole.verdict, whole.original) | {
        "p": whole.p,
        "deviations": "; ".join(dict.fromkeys(deviations)),
        "n_units": len(cases),
        "n_missing": len(absent),
    }
    if whole.estimate is not None:
        found |= _numbers_of(whole.estimate) | {"unit": "tasks"}
    return found


def _rows(claim: Claim, ours: Tables) -> Iterator[Row]:
    """A row for each case of a claim."""
    row: dict[str, Any] = claim.model_dump(include={"id", "paper", "locator", "statement"})
    row |= {
        "published": claim.published.value if claim.published else math.nan,
        "trust": claim.published.trust if claim.published else "a direction, not a number",
        **_test(claim),
        "unit": claim.unit or "",
        **dict.fromkeys(("table", "column", "record"), ""),
    }
    quantity = claim.quantity
    if quantity is None:
        yield Row(row | _no_number("not attempted", str(claim.because)))
        return
    row |= {"table": quantity.table, "column": _column(quantity)}
    chosen = _chosen(quantity, ours)
    if isinstance(chosen, dict):
        if not claim.extension:
            yield Row(row | chosen)
        return
    row["record"] = ours.records[quantity.table]
    for name, group in _groups(quantity, chosen):
        yield _of_group(claim, row | {"setup": name}, group)


def _chosen(quantity: Quantity, ours: Tables) -> pd.DataFrame | dict[str, str]:
    """The rows that a claim is about; or the columns that say why there are none."""
    if quantity.table not in ours.tables:
        return _no_number("not attempted", ours.missing)
    table = ours.tables[quantity.table]
    wanted = ["status", *quantity.columns, *quantity.where, *quantity.besides]
    wanted += [*quantity.original, *quantity.by]
    wanted += [quantity.gate] if quantity.gate else []
    if absent := [c for c in wanted if c not in table.columns]:
        return _no_number("not computable", f"{quantity.table} has no column {absent[0]}")
    for name, value in quantity.where.items():
        table = table[table[name] == value]
    for name, values in quantity.besides.items():
        table = table[~table[name].isin(values)]
    if "seed" in table.columns:
        table = table[~table["seed"].isin(SUMMARIES)]
    if len(table):
        return table
    # Static vectors have no data set
    which = ", ".join(f"{c} {v}" for c, v in quantity.where.items() if v != "")
    lacking = _no_number("not attempted", NO_NUMBER_FOR)
    return lacking | {"missing_case": which or "such a case"}


def _groups(quantity: Quantity, chosen: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Cases of a claim: setups, and what `by` splits them into."""
    keys = [c for c in ("setup", *quantity.by) if c in chosen.columns]
    if not keys:
        yield "", chosen
        return
    for values, group in chosen.groupby(keys, sort=False):
        named = zip(keys, values, strict=True)
        yield ", ".join(str(v) if k != "layer" else f"layer {v:g}" for k, v in named), group


def _of_group(claim: Claim, row: dict[str, Any], group: pd.DataFrame) -> Row:
    """A case, or why it has no number."""
    quantity = claim.quantity
    assert quantity is not None
    first = group.iloc[0]
    if first["status"].startswith("not attempted"):
        _, _, why = first["status"].partition(": ")
        return Row(row | _no_number("not attempted", f"it is {why}"))
    own = {c: v if isinstance(v, list) else [v] for c, v in quantity.original.items()}
    other = [c for c, values in own.items() if not group[c].isin(values).all()]
    original = bool((group["status"] == "original").all()) and not other
    deviations = list(group["deviations"].iloc[0].split("; ")) if "deviations" in group else []
    deviations += [f"{c} {first[c]}" for c in other]
    row = row | {
        **{c: first[c] for c in ("data", "embedding") if c in group.columns},
        "status": "original" if original else "stand-in",
        "deviations": "; ".join(d for d in dict.fromkeys(deviations) if d),
    }
    if quantity.gate and not group[quantity.gate].all():
        learned = "the model without any method did not learn the task"
        return Row(row | _no_number("not computable", learned))
    if why := _unusable(claim, quantity, group):
        return Row(row | _no_number("not computable", why))
    found = estimate_of(claim, group)
    if math.isnan(found.value):
        return Row(row | _no_number("not computable", "its values do not vary"))
    return Row(row, Case(claim, found, original))


def _unusable(claim: Claim, quantity: Quantity, group: pd.DataFrame) -> str:
    """Why the rows of a case give no number; empty where they do."""
    for column in quantity.columns:
        if not np.isfinite(_numbers(group[column])).all():
            return f"{column} is not a number"
    error = f"{quantity.column}_items_error"
    if error in group.columns and not np.isfinite(_numbers(group[error])).all():
        return f"{error} is not a number"
    if claim.unit == "seeds" and "seed" in group.columns and group["seed"].duplicated().any():
        return "there are several values per seed"
    if claim.unit == "deterministic" and group[quantity.column].nunique() > 1:
        return "there are several values"
    return ""


def estimate_of(claim: Claim, group: pd.DataFrame) -> Estimate:
    """Our number on a claim, by its unit.

    Args:
        claim: with a quantity.
        group: rows of one case.
    """
    quantity = claim.quantity
    assert quantity is not None
    correlation = quantity.scale == "correlation"
    if claim.unit == "deterministic":
        return estimates.exact(float(_numbers(group[quantity.column])[0]))
    if claim.unit == "items":
        return _over_items(quantity, group.iloc[0], correlation)
    if claim.unit in ("layers", "tasks"):
        group = _over_seeds_first(claim.unit, quantity, group)
    values = _numbers(group[quantity.column])
    if quantity.minus is not None:
        return estimates.difference(values, _numbers(group[quantity.minus]))
    if quantity.against is not None:
        return estimates.rank_correlation(_numbers(group[quantity.against]), values)
    if quantity.statistic == "share":
        return estimates.share(int((values > 0.5).sum()), len(values))
    summary = _summary(quantity, group)
    if quantity.statistic == "sd":
        n = int(group["n_seeds"].iloc[0]) if "n_seeds" in group.columns else len(values)
        single = len(values) == 1
        return estimates.deviation_of(float(values[0]), n) if single else deviation(values)
    if summary is not None:
        return estimates.of_summary(float(values[0]), *summary)
    if f"{quantity.column}_items_error" in group.columns:
        error = float(_numbers(group[f"{quantity.column}_items_error"])[0])
        return estimates.mean_over_items(values, error)
    return estimates.mean(values, correlation)


def _over_seeds_first(unit: str, quantity: Quantity, group: pd.DataFrame) -> pd.DataFrame:
    """One row per layer or task: the mean over its seeds."""
    key = {"layers": "layer", "tasks": "task"}[unit]
    columns = list(dict.fromkeys([*quantity.columns, key]))
    found = group[columns].astype(float if unit == "layers" else None)  # type: ignore[arg-type]
    return found.groupby(key, sort=False, as_index=False)[columns].mean(numeric_only=True)


def _over_items(quantity: Quantity, row: pd.Series, correlation: bool) -> Estimate:
    name = quantity.column
    low, high, n = (row.get(c) for c in (f"{name}_low", f"{name}_high", "n_items"))
    if low is None or high is None or n is None:
        raise KeyError(f"{quantity.table} has no interval over items of {name}")
    method = str(row.get("interval_method", "bootstrap"))
    values = (float(row[name]), float(low), float(high))
    return estimates.of_interval(*values, int(n), method, correlation)


def _summary(quantity: Quantity, group: pd.DataFrame) -> tuple[float, int] | None:
    """Standard deviation and number of the seeds of a row that stands for several."""
    deviation = f"{quantity.column}_sd"
    if len(group) > 1 or not {"n_seeds", deviation} <= set(group.columns):
        return None
    return float(group[deviation].iloc[0]), int(group["n_seeds"].iloc[0])


def _numbers(column: pd.Series) -> np.ndarray:
    return column.to_numpy(dtype=np.float64, na_value=math.nan)


def _of_case(case: Case) -> dict[str, Any]:
    """What the table says of a judged case."""
    found = _numbers_of(case.estimate) | _words(case.verdict, case.original) | {"p": case.p}
    if case.verdict.word == "undecided":
        found["needed"] = _needed(case)
    return found


def _needed(case: Case) -> int | None:
    """Units that would decide a case: enough to exclude every end between the two verdicts."""
    if isinstance(case.claim.test, Beyond) and case.claim.test.every:
        return None
    needed = [case.estimate.needed(edge) for edge in edges(case.claim)]
    return None if None in needed else max(n for n in needed if n is not None)


def _numbers_of(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval
    return {
        "obtained": estimate.value,
        "sd": estimate.sd,
        "low": low,
        "high": high,
        "n_units": estimate.n_units,
        "interval_method": estimate.method,
    }


def _words(verdict: Verdict, original: bool) -> dict[str, Any]:
    """The verdict as the table has it: a stand-in never counts as a reproduction."""
    word = verdict.word if original else STAND_IN.get(verdict.word, "inconsistent")
    return {
        **verdict._asdict(),
        "word": word,
        "judged": verdict.word,
        "status": "original" if original else "stand-in",
    }


def _no_number(word: str, reason: str) -> dict[str, str]:
    """The verdict of a claim for which there is no number."""
    return {"word": word, "reason": reason}


def _column(quantity: Quantity) -> str:
    """The column in words."""
    if quantity.minus is not None:
        return f"{quantity.column} minus {quantity.minus}"
    if quantity.against is not None:
        return f"{quantity.column} against {quantity.against}"
    return quantity.column


def _test(claim: Claim) -> dict[str, Any]:
    """What the test asks for: a side of a bound, or a tolerance around the published number."""
    if claim.test is None:
        return {"side": "", "bound": math.nan, "tolerance": math.nan}
    if isinstance(claim.test, Equals):
        assert claim.published is not None
        around = claim.test.around(claim.published.value)
        return {"side": "within", "bound": math.nan, "tolerance": around}
    return {"side": claim.test.kind, "bound": claim.test.bound, "tolerance": math.nan}


def _common_test(rows: list[Row]) -> dict[str, Any]:
    """The test of a family, where all its claims have the same."""
    tests = [{n: r.values[n] for n in ("side", "bound", "tolerance", "published")} for r in rows]
    if len({str(test) for test in tests}) > 1:
        return {}
    return {} if tests[0]["side"] == "within" else {n: tests[0][n] for n in ("side", "bound")}
