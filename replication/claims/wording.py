"""Word verdicts as text for readers, from the columns of the table of verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from replication.tables.write import format_cell


def sentence(row: Mapping[str, Any]) -> str:
    """Return a verdict in words: `deviates by -0.031`, `not attempted because …`.

    Args:
        row: a row of the table of verdicts (`replication.claims.evaluate.SCHEMA`).
    """
    details = explanation(row)
    if row["word"] in ("not attempted", "not computable"):
        return f"{row['word']} because {details}"
    if row["word"] == "deviates":
        return f"{row['word']} {details}"
    return f"{row['word']} ({details})" if details else str(row["word"])


def explanation(row: Mapping[str, Any]) -> str:
    """Return the details of a verdict: by how much, in how many cases, or why."""
    judged = row["judged"]
    by = "" if pd.isna(row["amount"]) else f"by {row['amount']:+.3g}"
    # `sentence` starts with the word itself; on a stand-in nothing is contradicted
    if judged == row["word"]:
        judged_and_amount = by
    else:
        judged_and_amount = f"{'opposite' if judged == 'contradicted' else judged} {by}".strip()
    is_shown = judged in ("deviates", "contradicted")
    reason = " ".join(filter(None, [row["reason"], row["missing_case"]]))
    parts = [judged_and_amount if is_shown else "", reason, _counts(row)]
    parts += [_share_that_may_fail(row), _outlying_runs(row), _on_stand_ins(row)]
    return "; ".join(filter(None, parts))


def _share_that_may_fail(row: Mapping[str, Any]) -> str:
    """Return how many runs may fail where none did; empty if that is not asked or is the reason."""
    if pd.isna(row["failure_bound"]) or row["reason"]:
        return ""
    return f"at most {row['failure_bound']:.0%} of runs fail"


def _outlying_runs(row: Mapping[str, Any]) -> str:
    """Return how many runs are apart from the others; empty if none is."""
    if pd.isna(row["n_outliers"]) or row["n_outliers"] == 0:
        return ""
    return f"{int(row['n_outliers'])} of {int(row['n_units'])} runs apart from the others"


def _on_stand_ins(row: Mapping[str, Any]) -> str:
    """Return the verdict on the stand-ins of a statement whose verdict is on original cases."""
    if row["status"] != "original" or row["stand_in_word"] == "":
        return ""
    n, holding, failing = (int(row[f"n_stand_ins{part}"]) for part in ("", "_holding", "_failing"))
    return f"on stand-ins {row['stand_in_word']}, {_hold_and_fail(n, holding, failing, 'cases')}"


def _hold_and_fail(n: int, holding: int, failing: int, noun: str) -> str:
    fail = "" if not failing else ", 1 fails" if failing == 1 else f", {failing} fail"
    return f"{holding} of {n} {noun} hold{fail}"


def _counts(row: Mapping[str, Any]) -> str:
    """Return in how many cases or values a claim holds and fails; empty for a single number."""
    holding, failing, missing = (row[f"n_{name}"] for name in ("holding", "failing", "missing"))
    if pd.isna(holding):
        return ""
    n, noun = int(row["n_judged"]), "cases" if row["unit"] == "cases" else "values"
    text = _hold_and_fail(n, int(holding), 0 if pd.isna(failing) else int(failing), noun)
    return text if pd.isna(missing) or missing == 0 else f"{text}, {int(missing)} without a number"


def expectation(row: Mapping[str, Any]) -> str:
    """Return what a claim's test requires: `> 0.5`, `-0.808 ± 0.01`; empty without a test."""
    if row["side"] == "":
        return ""
    if row["side"] != "within":
        return f"{'>' if row['side'] == 'above' else '<'} {row['bound']:g}"
    tolerance = f" ± {row['tolerance']:.3g}" if row["tolerance"] else ""
    return f"{row['published']:.12g}{tolerance}"


def readable(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Make a readable table of statements and attempted cases: the paper's statement, the verdict,
    the expected and obtained numbers, and what these are based on.
    """
    attempted = verdicts["word"] != "not attempted"
    verdicts = verdicts[verdicts["overall"] | attempted]
    rows = [{str(k): v for k, v in row.items()} for row in verdicts.to_dict("records")]
    obtained = [
        _number(value) + ("" if math.isnan(low) else f" [{format_cell(low)}, {format_cell(high)}]")
        for value, low, high in verdicts[["obtained", "low", "high"]].to_numpy(dtype=float)
    ]
    return pd.DataFrame(
        {
            "claim": verdicts["statement"].where(verdicts["overall"], "– " + verdicts["id"]),
            "where": verdicts["paper"] + ", " + verdicts["locator"],
            "setup": verdicts["setup"],
            "verdict": [sentence(row) for row in rows],
            "data and protocol": verdicts["status"],
            "expected": [expectation(row) for row in rows],
            "obtained [95 % interval]": obtained,
            "units": [
                "" if pd.isna(n) else f"{n} {unit}"
                for n, unit in zip(verdicts["n_units"], verdicts["unit"], strict=True)
            ],
            "source of the published value": verdicts["source_note"],
            "numbers": verdicts["table"] + verdicts["column"].map(lambda c: f", {c}" if c else ""),
        }
    )


def _number(value: float) -> str:
    """Format whole numbers in full, other numbers with four digits."""
    return f"{value:,.0f}" if float(value).is_integer() else format_cell(value)
