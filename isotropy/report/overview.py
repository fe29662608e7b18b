"""The first page: what was studied, what came of it for each paper, what the study can decide, and
the state of its files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json
from isotropy.report.pictures import size
from isotropy.report.verdicts import count, families, words
from isotropy.workflow.page_spec import Inputs, PageSpec, PaperEntry


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """What the page shows.

    Args:
        spec: what defines it.
        inputs: `claims`: the verdicts; `run`: the summary of the run; `figures`: pictures, one of
            each paper that has a `lead`, in their order.
        folder: where the page lies.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    leads = [paper.key for paper in spec.papers if paper.lead]
    pictures = dict(zip(leads, inputs("figures"), strict=True))
    found = {paper.key: families(verdicts[verdicts["paper"] == paper.key]) for paper in spec.papers}
    return {
        "cards": [_card(paper, found[paper.key], pictures, folder) for paper in spec.papers],
        "decides": _decides([family for one in found.values() for family in one], verdicts),
        "run": read_json(inputs("run")[0]),
        **_studied(verdicts),
    }


def _card(
    paper: PaperEntry, found: list[dict[str, Any]], pictures: dict[str, Path], folder: Path
) -> dict[str, Any]:
    counts = count(found)
    picture = pictures.get(paper.key)
    return {
        "paper": paper,
        "counts": counts,
        "total": len(found),
        "found": _found(found, counts),
        "words": {group: words(group, n) for group, n in counts.items()},
        "picture": picture and os.path.relpath(picture, folder),
        "caption": paper.lead_caption,
        "size": picture and size(picture),
    }


def _found(found: list[dict[str, Any]], counts: dict[str, int]) -> str:
    """One sentence on the headlines of a paper."""
    numbers = len(found) - counts["none"]
    if not numbers:
        return "This study has no number for its headline claims."
    said = [f"{n} {words(group, n)}" for group, n in counts.items() if n and group != "none"]
    original = sum(one["head"]["status"] == "original" for one in _with_number(found))
    own = "none stands" if original == 0 else f"{original} stand{'s' * (original == 1)}"
    return (
        f"{numbers} of {len(found)} headline claims {'has' if numbers == 1 else 'have'} a number: "
        f"{', '.join(said)}; {own} on the paper's own data, model and protocol."
    )


def _with_number(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [family for family in found if family["head"]["group"] != "none"]


def _decides(found: list[dict[str, Any]], verdicts: pd.DataFrame) -> list[str]:
    """What the study can decide, and what it cannot: at most three sentences."""
    judged = _with_number(found)
    original = sum(family["head"]["status"] == "original" for family in judged)
    undecided = verdicts[verdicts["headline"] & (verdicts["word"] == "undecided")]
    needed = int(undecided["needed"].notna().sum())
    sentences = [
        f"It has a number for {len(judged)} of {len(found)} headline claims. Of the others nothing "
        "is said: they are about data, models or settings that it leaves out, or have no meaning "
        "here."
    ]
    if judged:
        sentences.append(
            f"{original} of these verdicts stand on the paper's own data, model and protocol, and "
            f"can count as reproduced or contradicted; the other {len(judged) - original} stand on "
            "stand-ins, and say only whether a claim also holds there."
        )
    if len(undecided):
        more = f" For {needed} of them results/claims.csv says how many would." if needed else ""
        sentences.append(
            f"{len(undecided)} are undecided, most often because a 95 % interval includes both "
            f"answers: more seeds or items would decide them.{more}"
        )
    return sentences


def _studied(verdicts: pd.DataFrame) -> dict[str, list[str]]:
    """Names of all data sets and models behind the verdicts."""
    with_number = verdicts[~verdicts["word"].isin(["not attempted", "not computable"])]
    return {
        name: sorted({part for text in with_number[column] for part in text.split("; ") if part})
        for name, column in (("data", "data"), ("models", "embedding"))
    }
