"""The first page: what was studied, the outcome for each paper, what the study can decide, and the
state of its files.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json
from isotropy.printable import without_remark
from replication.claims.spec import ALPHA
from replication.palette import GROUPS, SIGNS
from replication.papers.protocol import Publication
from replication.plan.page_spec import Inputs, PageSpec
from replication.report.outcome import answer, count_text, outcomes, source_titles, tested_on
from replication.report.site import size
from replication.report.verdicts import group_statements, has_number, select_by_origin


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `run` and `lineage`: the summary of the run; `figures`:
            pictures, one for each paper that has a `lead`, in the order of the papers.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    names = source_titles(read_json(inputs("lineage")[0])["sources"])
    leads = [paper.key for paper in spec.papers if paper.lead]
    pictures = dict(zip(leads, inputs("figures"), strict=True))
    heads = verdicts[verdicts["overall"]]
    of_papers = heads[~heads["ours"].fillna(False)]
    with_number = of_papers[of_papers["word"].map(GROUPS) != "none"]
    return {
        "cards": [
            {
                "paper": paper,
                **_answer(paper, verdicts, of_papers, names),
                **_picture(pictures.get(paper.key), folder),
            }
            for paper in spec.papers
        ],
        "n_verdicts": len(with_number),
        "n_original": int((with_number["status"] == "original").sum()),
        "n_contradicted": int((of_papers["word"] == "contradicted").sum()),
        "decides": _describe_power(group_statements(verdicts), verdicts),
        "run": read_json(inputs("run")[0]),
        "total": count_text(outcomes(of_papers)),
        "signs": SIGNS,
        **_studied_names(verdicts, names),
    }


def _answer(
    paper: Publication, verdicts: pd.DataFrame, of_papers: pd.DataFrame, names: Mapping[str, str]
) -> dict[str, Any]:
    """The outcome of a paper: of its main statement, and counts of all its statements."""
    heads = of_papers[of_papers["paper"] == paper.key]
    main = heads.loc[heads["statement_id"] == paper.main, "word"]
    counts = outcomes(heads)
    with_number = heads["word"].map(GROUPS) != "none"
    return {
        "group": GROUPS[main.iloc[0]] if len(main) else "none",
        "answer": answer(paper, verdicts),
        "tested": _tested(heads[heads["statement_id"] == paper.main]),
        "tested_on": tested_on(verdicts[verdicts["statement_id"] == paper.main], names),
        "counts": [(kind, n, count_text({kind: n})) for kind, n in counts.items()],
        "count_text": count_text(counts),
        "n_original": int((with_number & (heads["status"] == "original")).sum()),
    }


def _tested(main: pd.DataFrame) -> str:
    """The statement that the outcome is about, without the remark that makes it exact."""
    return without_remark(main["statement"].iloc[0]).rstrip(".") if len(main) else ""


def _picture(path: Path | None, folder: Path) -> dict[str, Any]:
    if path is None:
        return {"picture": None}
    return {"picture": os.path.relpath(path, folder), "size": size(path)}


def _describe_power(all_statements: list[dict[str, Any]], verdicts: pd.DataFrame) -> list[str]:
    """What the study can decide, and what it cannot: at most four sentences."""
    of_papers = select_by_origin(all_statements, ours=False)
    judged = [statement for statement in of_papers if has_number(statement)]
    heads = verdicts[verdicts["overall"]]
    undecided = heads[(heads["word"] == "undecided") & ~heads["ours"].fillna(False)]
    is_open = verdicts["statement_id"].isin(undecided["statement_id"])
    needed = verdicts.loc[is_open & verdicts["needed"].notna(), "statement_id"].nunique()
    sentences = [
        f"It has a number for {len(judged)} of {len(of_papers)} statements of the papers, and for "
        f"{sum(map(has_number, all_statements)) - len(judged)} of our own controls. Of the others "
        "nothing is said: they are about data, models or settings that it leaves out, or have no "
        "meaning here."
    ]
    sampled = verdicts["unit"].isin(["seeds", "items"])
    by_interval = heads["statement_id"].isin(verdicts.loc[sampled, "statement_id"])
    if tested := int((heads["p"].notna() & by_interval).sum()):
        sentences.append(
            f"{tested} verdicts, controls included, rest on an interval: if there were no effect "
            f"anywhere, about {ALPHA * tested:.1f} of them ({100 * ALPHA:g} %) would be decided by "
            "chance."
        )
    if len(undecided):
        hint = f" For {needed} of them results/claims.csv says how many would." if needed else ""
        sentences.append(
            f"{len(undecided)} are undecided, most often because a 95 % interval includes both "
            f"answers: more seeds or items would decide them.{hint}"
        )
    return sentences


def _studied_names(verdicts: pd.DataFrame, titles: dict[str, str]) -> dict[str, list[str]]:
    """Names of all data sets and models behind the verdicts; of sources their titles."""
    with_number = verdicts[~verdicts["word"].isin(["not attempted", "not computable"])]
    return {
        name: sorted(
            {titles.get(p, p) for text in with_number[column] for p in text.split("; ") if p}
        )
        for name, column in (("data", "data"), ("models", "embedding"))
    }
