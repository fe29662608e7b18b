"""Word the outcome of a paper in one sentence, from the verdicts on its main statement, and in
counts of its statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd

from replication.palette import GROUPS
from replication.papers.protocol import Publication
from replication.provenance.lineage import titles_by_id
from replication.report.verdicts import print_minus

WORDS = {
    "holds": ("holds", "hold"),
    "fails": ("fails", "fail"),
    "undecided": ("open", "open"),
    "not computable": ("without a number", "without a number"),
    "not attempted": ("not tested here", "not tested here"),
}
"""Words for one statement, and for several; by group of verdicts, or by verdict where it has no
number."""
NOT_TESTED = "Not tested in this study."


def outcomes(heads: pd.DataFrame) -> dict[str, int]:
    """Number of statements for each key of WORDS, without those that are 0.

    Args:
        heads: verdicts on statements.
    """
    kinds = [word if GROUPS[word] == "none" else GROUPS[word] for word in heads["word"]]
    return {kind: kinds.count(kind) for kind in WORDS if kind in kinds}


def count_text(counts: Mapping[str, int]) -> str:
    """Counts in words.

    Examples:
        >>> count_text({"holds": 4, "fails": 1, "undecided": 1, "not attempted": 8})
        '4 hold · 1 fails · 1 open · 8 not tested here'
    """
    return " · ".join(f"{n} {WORDS[kind][n != 1]}" for kind, n in counts.items())


def answer(paper: Publication, verdicts: pd.DataFrame) -> str:
    """What was found of the main statement of a paper, in one sentence with its numbers.

    Args:
        paper: its statement `main`, and words for that statement's numbers and cases.
        verdicts: the table of verdicts (`replication.claims.evaluate.SCHEMA`).
    """
    rows = verdicts[verdicts["statement_id"] == paper.main]
    groups = rows["word"].map(GROUPS)
    head = rows[rows["overall"] & (groups != "none")]
    if head.empty:
        return NOT_TESTED
    decides = (groups != "none") & (rows["status"] == head["status"].iloc[0])
    cases = rows[decides & ~rows["overall"]]
    judged = cases if len(cases) else head
    text = _sentence(paper, judged, groups[head.index[0]], groups[judged.index])
    original = head["status"].iloc[0] == "original"
    return text + (" On the paper's own data, model and protocol." if original else "")


def source_titles(fetched: list[dict[str, Any]]) -> dict[str, str]:
    """Titles of fetched sources by id, as the summary of the run has them."""
    return titles_by_id(source for record in fetched for source in record["sources"])


def tested_on(rows: pd.DataFrame, titles: Mapping[str, str]) -> str:
    """Models and data of the cases that have a number, in words; empty without any.

    Args:
        rows: verdicts.
        titles: what came of each source, by its id.
    """
    rows = rows[rows["word"].map(GROUPS) != "none"]
    kinds = (sorted(set(rows[column]) - {""}) for column in ("embedding", "data"))
    named = (list(dict.fromkeys(titles.get(n, n) for n in names)) for names in kinds)
    return " on ".join("; ".join(names) for names in named if names)


def _sentence(paper: Publication, rows: pd.DataFrame, verdict: str, groups: pd.Series[str]) -> str:
    """Word a verdict on cases: those that hold, those that fail, and how many are open."""
    holding, failing, n = rows[groups == "holds"], rows[groups == "fails"], len(rows)
    where, claimed = f"{n} {paper.cases}", _claimed(rows)
    if verdict == "undecided":
        where = f" in {where}" if n > 1 else ""
        notes = _notes(_intervals(rows), claimed)
        return f"Open: {paper.measure} is {_numbers(rows)}{where}{notes}."
    undecided = n - len(holding) - len(failing)
    rest = f"; {undecided} open" if undecided else ""
    if verdict == "fails" and len(holding):
        labels = _labels(rows)
        there = f"in {_place(labels[holding.index])}" if len(holding) == 1 else "there"
        return (
            f"Holds in only {len(holding)} of {where}: {paper.measure} is {_numbers(holding)} "
            f"{there}{_notes(claimed)}, but {_numbers(failing)} in "
            f"{_place(labels[failing.index])}{rest}."
        )
    if verdict == "holds":
        lead, shown = f"Holds in all {where}" if n > 1 else "Holds", holding
    else:
        lead, shown = f"Holds in none of {where}" if n > 1 else "Does not hold", failing
    return f"{lead}: {paper.measure} is {_numbers(shown)}{_notes(claimed)}{rest}."


def _intervals(rows: pd.DataFrame) -> str:
    """The interval of a case, or the range that those of several lie in."""
    low, high = rows["low"].min(), rows["high"].max()
    if pd.isna(low) or pd.isna(high):
        return "too few runs for an interval"
    name = "interval" if len(rows) == 1 else "intervals within"
    return f"95 % {name} {_number(_round(low, math.floor))} to {_number(_round(high, math.ceil))}"


def _notes(*notes: str) -> str:
    """Notes in brackets; empty without any."""
    text = "; ".join(filter(None, notes))
    return f" ({text})" if text else ""


def _place(labels: pd.Series[str]) -> str:
    """The label of a single case, else how many cases there are."""
    return str(len(labels)) if len(labels) > 1 else labels.iloc[0] or "1"


def _labels(rows: pd.DataFrame) -> pd.Series[str]:
    """The part of each case's set-up that distinguishes it from the others."""
    parts = rows["setup"].str.split(", ")
    shared = set.intersection(*map(set, parts))
    return parts.map(lambda names: ", ".join(name for name in names if name not in shared))


def _numbers(rows: pd.DataFrame) -> str:
    """One or two numbers, each with the published one; of more, the smallest and the largest."""
    pairs = rows[["obtained", "published"]].dropna(subset="obtained").to_dict("records")
    texts = dict.fromkeys(map(_pair, pairs))
    if len(texts) <= 2:
        return " and ".join(texts)
    low, high = (_number(bound) for bound in (rows["obtained"].min(), rows["obtained"].max()))
    return f"{low} to {high}"


def _pair(row: Mapping[Any, Any]) -> str:
    published = row["published"]
    beside = "" if pd.isna(published) else f" (published {_number(published)})"
    return _number(row["obtained"]) + beside


def _number(value: float) -> str:
    """A number with two significant digits; more for one that is not 1 but would be rounded to it,
    as a correlation.
    """
    roundings = (float(f"{value:.{digits}g}") for digits in range(2, 7))
    rounded = next((one for one in roundings if abs(one) != 1 or abs(value) == 1), value)
    return print_minus(f"{rounded:,g}")


def _round(value: float, to_whole: Callable[[float], int]) -> float:
    """A number with two significant digits, down by `math.floor` or up by `math.ceil`, so that a
    range from the lower to the upper includes all that lies between.
    """
    if value == 0 or not math.isfinite(value):
        return value
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return to_whole(round(value / unit, 6)) * unit


def _claimed(rows: pd.DataFrame) -> str:
    """What the number must be for the claim to hold, where all cases need the same."""
    sides, bounds = set(rows["side"]), set(rows["bound"])
    if len(sides) > 1 or len(bounds) > 1 or not sides <= {"above", "below"}:
        return ""
    return f"to hold: {sides.pop()} {_number(bounds.pop())}"
