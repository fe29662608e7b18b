"""Format the table of verdicts for readers."""

from __future__ import annotations

import math

import pandas as pd

from replication.claims.wording import expectation, sentence
from replication.tables.write import format_cell


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
