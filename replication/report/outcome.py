"""The main statements of a paper with what was found of each, and counts of all its statements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from isotropy.printable import without_remark
from replication.palette import GROUPS, SIGNS, WORDS
from replication.papers.protocol import MainStatement, Publication
from replication.provenance.lineage import titles_by_id

MOST_NAMED = 3
"""Most cases of a statement that are named where it fails in these."""


def count_groups(heads: pd.DataFrame) -> dict[str, int]:
    """Number of statements in each group of verdicts that occurs.

    Args:
        heads: verdicts on statements.
    """
    groups = heads["word"].map(GROUPS).tolist()
    return {group: groups.count(group) for group in SIGNS if group in groups}


def count_text(counts: Mapping[str, int]) -> str:
    """Counts by group in words.

    Examples:
        >>> count_text({"holds": 4, "fails": 1, "open": 1, "none": 8})
        '4 hold, 1 fails, 1 open, 8 not tested'
    """
    return ", ".join(f"{n} {WORDS[group][n != 1]}" for group, n in counts.items() if n)


def main_statements(
    paper: Publication, statements: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """The main statements of a paper in its own order: `says`, `head` and `why`, in words; without
    those that the study's table of verdicts lacks.

    Args:
        paper: the paper.
        statements: `replication.report.verdicts.group_statements`.
    """
    by_id = {statement["head"]["id"]: statement for statement in statements}
    return [
        {
            "says": main.says,
            "head": by_id[main.id]["head"],
            "why": "; ".join(filter(None, [_why(main, by_id[main.id]), _control(main, by_id)])),
        }
        for main in paper.main
        if main.id in by_id
    ]


def _control(main: MainStatement, by_id: Mapping[str, Mapping[str, Any]]) -> str:
    """The verdict on the control of a main statement, if it has one that was tested."""
    control = by_id.get(main.control or "")
    if control is None or (head := control["head"])["group"] == "none":
        return ""
    statement = without_remark(head["statement"]).rstrip(".")
    return f"our control “{statement}” {'is ' * (head['group'] == 'open')}{WORDS[head['group']][0]}"


def _why(main: MainStatement, statement: Mapping[str, Any]) -> str:
    """Why a statement has its verdict: counts of cases, those that fail, the reason, our bound."""
    head, cases = statement["head"], statement["decisive"]
    if head["group"] == "none":
        return str(head["detail"])
    parts = [head["detail"]]
    named = [case for case in cases if case["group"] == head["group"] != "holds"]
    if len(named) <= MOST_NAMED:
        parts += [_case(main, case, brief=len(named) == MOST_NAMED) for case in named]
    if head["group"] == "fails":
        parts.append(main.notes.get("all", ""))
    return "; ".join(filter(None, [*parts, head["bound"]]))


def _case(main: MainStatement, case: Mapping[str, Any], *, brief: bool) -> str:
    """The number of a case, with its interval unless brief, and why it fails or is open."""
    note = main.notes.get(case["setup"], "") if case["status"] == "stand-in" else ""
    number = " ".join(filter(None, [case["obtained"], "" if brief else case["interval"]]))
    return ", ".join(
        filter(None, [f"{case['setup'] or case['label']}: {number}", note or case["reason"]])
    )


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
    kinds = (
        sorted({name for text in rows[column] for name in text.split("; ") if name})
        for column in ("embedding", "data")
    )
    named = (list(dict.fromkeys(titles.get(n, n) for n in names)) for names in kinds)
    return ". Data: ".join("; ".join(names) for names in named if names)
