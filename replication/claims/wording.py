"""Word verdicts as text for readers, from the columns of the table of verdicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from replication.palette import GROUPS, WORDS
from replication.tables.write import format_cell

MAX_IN_FULL = 1e9


def sentence(row: Mapping[str, Any]) -> str:
    """Return a verdict in words: `fails in 1 of 4, holds in 3`.

    Args:
        row: a row of the table of verdicts (`replication.claims.evaluate.SCHEMA`).
    """
    word, details = WORDS[GROUPS[row["word"]]][0], explanation(row)
    return (
        details if details.startswith(f"{word} in ") else ": ".join(filter(None, [word, details]))
    )


def explanation(row: Mapping[str, Any]) -> str:
    """Return the details of a verdict: in how many cases, or why."""
    reason = " ".join(filter(None, [row["reason"], row["missing_case"]]))
    parts = [_counts(row), reason, _missing(row), _failure_rate(row), _outlying_runs(row)]
    parts.append(_on_stand_ins(row))
    return "; ".join(filter(None, parts))


def _failure_rate(row: Mapping[str, Any]) -> str:
    """Return how many runs may fail where none did; empty if that is not asked."""
    if pd.isna(row["failure_bound"]):
        return ""
    return (
        f"no run fails; a failure rate up to {100 * row['failure_bound']:.0f} % cannot be excluded"
    )


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
    return f"on stand-ins: {_in_cases(row['stand_in_word'], n, holding, failing)}"


def _in_cases(verdict: str, n: int, holding: int, failing: int) -> str:
    """Say in how many cases a claim has its verdict, then in how many another one."""
    counts = {"holds": holding, "fails": failing, "open": n - holding - failing}
    own = WORDS[GROUPS[verdict]][0]
    (first, n_first), *others = sorted(
        ((word, count) for word, count in counts.items() if count),
        key=lambda item: item[0] != own,
    )
    return ", ".join([f"{first} in {n_first} of {n}", *(f"{w} in {k}" for w, k in others)])


def _counts(row: Mapping[str, Any]) -> str:
    """Return in how many cases or values a claim holds and fails; empty for a single number."""
    holding, failing = row["n_holding"], row["n_failing"]
    if pd.isna(holding):
        return ""
    if pd.isna(failing):  # values of one number, which is judged as a whole
        return f"{int(holding)} of {int(row['n_judged'])} hold"
    return _in_cases(row["word"], int(row["n_judged"]), int(holding), int(failing))


def _missing(row: Mapping[str, Any]) -> str:
    """Return how many cases have no number beside others that have one; empty for none."""
    missing = row["n_missing"]
    return "" if pd.isna(missing) or missing == 0 else f"{int(missing)} not tested"


def expectation(row: Mapping[str, Any]) -> str:
    """Return what a claim's test requires, and whose bound it is: `> 0.5 (our bound)`, `< 0`,
    `-0.808 ± 0.01 (our tolerance)`; empty without a test.
    """
    if row["side"] == "":
        return ""
    by = {"ours": "our", "paper": "the paper's"}.get(row["bound_by"])
    if row["side"] != "within":
        text = f"{'>' if row['side'] == 'above' else '<'} {row['bound']:g}"
        return f"{text} ({by} bound)" if by else text
    tolerance = f" ± {row['tolerance']:.3g} ({by} tolerance)" if by else ""
    value = row["bound"] if math.isnan(row["published"]) else row["published"]
    return f"{value:.12g}{tolerance}"


def readable(verdicts: pd.DataFrame) -> pd.DataFrame:
    """Make a readable table of statements and attempted cases: the paper's statement, the verdict,
    the expected and obtained numbers, and what these are based on.
    """
    attempted = verdicts["word"] != "not attempted"
    verdicts = verdicts[verdicts["overall"] | attempted]
    rows = [{str(k): v for k, v in row.items()} for row in verdicts.to_dict("records")]
    obtained = [
        plain_number(value)
        + ("" if math.isnan(low) else f" [{format_cell(low)}, {format_cell(high)}]")
        for value, low, high in verdicts[["obtained", "low", "high"]].to_numpy(dtype=float)
    ]
    return pd.DataFrame(
        {
            "statement": verdicts["statement"].where(verdicts["overall"], "– " + verdicts["id"]),
            "where": verdicts["paper"] + ", " + verdicts["locator"],
            "setup": verdicts["setup"],
            "verdict": [sentence(row) for row in rows],
            "data and protocol": verdicts["status"],
            "quantity": verdicts["quantity"],
            "what we test": [expectation(row) for row in rows],
            "obtained [95 % interval]": obtained,
            "units": [
                "" if pd.isna(n) else f"{n} {unit}"
                for n, unit in zip(verdicts["n_units"], verdicts["unit"], strict=True)
            ],
            "source of the published value": verdicts["source_note"],
            "numbers": verdicts["table"] + verdicts["column"].map(lambda c: f", {c}" if c else ""),
        }
    )


def plain_number(value: float) -> str:
    """Format whole numbers in full up to MAX_IN_FULL, other numbers with four digits."""
    in_full = float(value).is_integer() and abs(value) < MAX_IN_FULL
    return f"{value:,.0f}" if in_full else format_cell(value)
