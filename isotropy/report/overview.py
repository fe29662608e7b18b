"""The first page: what was studied, the outcome for each paper, what the study can decide, and the
state of its files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.claims.spec import ALPHA
from isotropy.files import read_json
from isotropy.palette import STATUS
from isotropy.printable import without_remark
from isotropy.report.pictures import size
from isotropy.report.verdicts import (
    count_groups,
    count_words,
    group_statements,
    has_number,
    select_by_origin,
    verb,
)
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
        "shown": _count_shown(verdicts[verdicts["overall"] & ~verdicts["ours"].fillna(False)]),
        "run": read_json(inputs("run")[0]),
        **_studied_names(verdicts),
    }


def _card(
    paper: PaperEntry,
    paper_statements: list[dict[str, Any]],
    pictures: dict[str, Path],
    folder: Path,
) -> dict[str, Any]:
    of_papers = select_by_origin(paper_statements, ours=False)
    counts = {status: count_groups(of_papers, status) for status in STATUS}
    heads = {statement["head"]["id"]: statement["head"] for statement in paper_statements}
    main = heads.get(paper.main)
    picture = pictures.get(paper.key)
    return {
        "paper": paper,
        "bars": [
            (
                status,
                [(group, n, verb(group, n)) for group, n in groups.items() if n],
                count_words(groups, " · "),
            )
            for status, groups in counts.items()
            if any(groups.values())
        ],
        "main": main and main | {"statement": without_remark(main["statement"])},
        "found": _summarize(paper_statements),
        "picture": picture and os.path.relpath(picture, folder),
        "caption": paper.lead_caption,
        "size": picture and size(picture),
    }


def _summarize(paper_statements: list[dict[str, Any]]) -> str:
    """How many statements of a paper have a number, and the outcome of our own controls."""
    of_papers, ours = (select_by_origin(paper_statements, ours=kind) for kind in (False, True))
    numbers = sum(map(has_number, of_papers))
    if not numbers:
        return "This study has no number for its statements."
    sentences = [
        f"{numbers} of its {len(of_papers)} statements {'is' if numbers == 1 else 'are'} tested "
        f"here, {len(of_papers) - numbers} not."
    ]
    controls = count_groups([statement for statement in ours if has_number(statement)])
    if any(controls.values()):
        sentences.append(f"Of our own controls: {count_words(controls)}.")
    return " ".join(sentences)


def _count_shown(heads: pd.DataFrame) -> dict[str, int]:
    """How many statements of the papers the links to views of the claims show."""
    attempted = heads["word"] != "not attempted"
    return {
        "contradicted": int((heads["word"] == "contradicted").sum()),
        "original": int((attempted & (heads["status"] == "original")).sum()),
    }


def _describe_power(all_statements: list[dict[str, Any]], verdicts: pd.DataFrame) -> list[str]:
    """What the study can decide, and what it cannot: at most four sentences."""
    of_papers = select_by_origin(all_statements, ours=False)
    judged = [statement for statement in of_papers if has_number(statement)]
    original = sum(has_number(statement, "original") for statement in judged)
    heads = verdicts[verdicts["overall"]]
    undecided = heads[(heads["word"] == "undecided") & ~heads["ours"].fillna(False)]
    needed = int(undecided["needed"].notna().sum())
    sentences = [
        f"It has a number for {len(judged)} of {len(of_papers)} statements of the papers, and for "
        f"{sum(map(has_number, all_statements)) - len(judged)} of our own controls. Of the others "
        "nothing is said: they are about data, models or settings that it leaves out, or have no "
        "meaning here."
    ]
    if judged:
        sentences.append(
            f"{original} of these verdicts stand on the paper's own data, model and protocol, and "
            f"can count as reproduced or contradicted; the other {len(judged) - original} stand on "
            "stand-ins, and say only whether a claim also holds there."
        )
    sampled = verdicts["unit"].isin(["seeds", "items"])
    by_interval = heads["statement_id"].isin(verdicts.loc[sampled, "statement_id"])
    if tested := int((heads["p"].notna() & by_interval).sum()):
        sentences.append(
            f"{tested} verdicts rest on an interval: if there were no effect anywhere, about "
            f"{ALPHA * tested:.1f} of them ({100 * ALPHA:g} %) would be decided by chance."
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
