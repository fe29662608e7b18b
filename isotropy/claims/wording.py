"""Verdicts in words for people, made from the columns of the table of verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd


def sentence(row: Mapping[str, Any]) -> str:
    """A verdict in words: `deviates by -0.031`, `not attempted because …`.

    Args:
        row: of the table of verdicts (`isotropy.claims.evaluate.SCHEMA`).
    """
    said = explanation(row)
    if row["word"] in ("not attempted", "not computable"):
        return f"{row['word']} because {said}"
    if row["word"] == "deviates":
        return f"{row['word']} {said}"
    return f"{row['word']} ({said})" if said else str(row["word"])


def explanation(row: Mapping[str, Any]) -> str:
    """What follows the word of a verdict: by how much, of how many cases, or why."""
    judged = row["judged"]
    by = "" if pd.isna(row["amount"]) else f"by {row['amount']:+.3g}"
    # The word itself stands before this, unless it is that of a stand-in
    first = " ".join(filter(None, [judged if judged != row["word"] else "", by]))
    shown = judged in ("deviates", "contradicted")
    why = " ".join(filter(None, [row["reason"], row["missing_case"]]))
    return "; ".join(filter(None, [first if shown else "", why, _counts(row)]))


def _counts(row: Mapping[str, Any]) -> str:
    """Of how many cases or values a verdict was made, and how many hold and fail."""
    holding, failing, missing = (row[f"n_{name}"] for name in ("holding", "failing", "missing"))
    if pd.isna(holding):
        return ""
    n, what = int(row["n_judged"]), "cases" if row["unit"] in ("cases", "tasks") else "values"
    parts = [f"{int(holding)} of {n} {what} hold"]
    if not pd.isna(failing) and failing > 0:
        parts.append("1 fails" if failing == 1 else f"{int(failing)} fail")
    if not pd.isna(missing) and missing > 0:
        parts.append(f"{int(missing)} without a number")
    return ", ".join(parts)


def expectation(row: Mapping[str, Any]) -> str:
    """What a claim's test asks for: `> 0.5`, `-0.808 ± 0.01`; empty where it has none."""
    if row["side"] == "":
        return ""
    if row["side"] != "within":
        return f"{'>' if row['side'] == 'above' else '<'} {row['bound']:g}"
    tolerance = f" ± {row['tolerance']:.3g}" if row["tolerance"] else ""
    return f"{row['published']:.12g}{tolerance}"
