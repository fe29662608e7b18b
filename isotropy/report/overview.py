"""The first page: what was studied, the outcome for each paper, what the study can decide, and the
state of its files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json
from isotropy.report.pictures import size
from isotropy.report.verdicts import count_groups, group_statements, verb
from isotropy.workflow.page_spec import Inputs, PageSpec, PaperEntry


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `run`: the summary of the run; `figures`: pictures, one for
            each paper that has a `lead`, in the order of the papers.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    leads = [paper.key for paper in spec.papers if paper.lead]
    pictures = dict(zip(leads, inputs("figures"), strict=True))
    paper_statements = {
        paper.key: group_statements(verdicts[verdicts["paper"] == paper.key])
        for paper in spec.papers
    }
    return {
        "cards": [
            _card(paper, paper_statements[paper.key], pictures, folder) for paper in spec.papers
        ],
        "decides": _describe_power(
            [statement for group in paper_statements.values() for statement in group], verdicts
        ),
        "run": read_json(inputs("run")[0]),
        **_studied_names(verdicts),
    }


def _card(
    paper: PaperEntry,
    paper_statements: list[dict[str, Any]],
    pictures: dict[str, Path],
    folder: Path,
) -> dict[str, Any]:
    counts = count_groups(paper_statements)
    picture = pictures.get(paper.key)
    return {
        "paper": paper,
        "counts": counts,
        "total": len(paper_statements),
        "found": _summarize(paper_statements, counts),
        "words": {group: verb(group, n) for group, n in counts.items()},
        "picture": picture and os.path.relpath(picture, folder),
        "caption": paper.lead_caption,
        "size": picture and size(picture),
    }


def _summarize(paper_statements: list[dict[str, Any]], counts: dict[str, int]) -> str:
    """One sentence on the outcome of a paper's statements."""
    numbers = len(paper_statements) - counts["none"]
    if not numbers:
        return "This study has no number for its statements."
    outcomes = [f"{n} {verb(group, n)}" for group, n in counts.items() if n and group != "none"]
    original = sum(
        statement["head"]["status"] == "original" for statement in _with_number(paper_statements)
    )
    originals = "none stands" if original == 0 else f"{original} stand{'s' * (original == 1)}"
    return (
        f"{numbers} of {len(paper_statements)} statements "
        f"{'has' if numbers == 1 else 'have'} a number: {', '.join(outcomes)}; "
        f"{originals} on the paper's own data, model and protocol."
    )


def _with_number(all_statements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [statement for statement in all_statements if statement["head"]["group"] != "none"]


def _describe_power(all_statements: list[dict[str, Any]], verdicts: pd.DataFrame) -> list[str]:
    """What the study can decide, and what it cannot: at most three sentences."""
    judged = _with_number(all_statements)
    original = sum(statement["head"]["status"] == "original" for statement in judged)
    undecided = verdicts[verdicts["overall"] & (verdicts["word"] == "undecided")]
    needed = int(undecided["needed"].notna().sum())
    sentences = [
        f"It has a number for {len(judged)} of {len(all_statements)} statements. "
        "Of the others nothing is said: they are about data, models or settings that it leaves "
        "out, or have no meaning here."
    ]
    if judged:
        sentences.append(
            f"{original} of these verdicts stand on the paper's own data, model and protocol, and "
            f"can count as reproduced or contradicted; the other {len(judged) - original} stand on "
            "stand-ins, and say only whether a claim also holds there."
        )
    if len(undecided):
        hint = f" For {needed} of them results/claims.csv says how many would." if needed else ""
        sentences.append(
            f"{len(undecided)} are undecided, most often because a 95 % interval includes both "
            f"answers: more seeds or items would decide them.{hint}"
        )
    return sentences


def _studied_names(verdicts: pd.DataFrame) -> dict[str, list[str]]:
    """Names of all data sets and models behind the verdicts."""
    with_number = verdicts[~verdicts["word"].isin(["not attempted", "not computable"])]
    return {
        name: sorted({part for text in with_number[column] for part in text.split("; ") if part})
        for name, column in (("data", "data"), ("models", "embedding"))
    }
