"""The first page: the main statements of each paper and what was found of them, what the study can
decide, and the state of its files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json
from replication.claims.spec import ALPHA
from replication.palette import GROUPS
from replication.plan.page_spec import Inputs, PageSpec
from replication.report.outcome import (
    count_groups,
    count_text,
    main_statements,
    source_titles,
    tested_on,
)
from replication.report.verdicts import group_statements, has_number, select_by_origin

NUMBERS = ("None", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `run` and `lineage`: the summary of the run.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    fetched = read_json(inputs("lineage")[0])["sources"]
    names = source_titles(fetched)
    statements = group_statements(verdicts)
    heads = verdicts[verdicts["overall"]]
    of_papers = heads[~heads["ours"].fillna(False)]
    return {
        "cards": [
            {
                "paper": paper,
                "main": main_statements(paper, statements),
                **_counts(of_papers[of_papers["paper"] == paper.key]),
                "tested_on": tested_on(verdicts[verdicts["paper"] == paper.key], names),
            }
            for paper in spec.papers
        ],
        "total": len(of_papers),
        "counts": count_text(count_groups(of_papers)),
        "tested": _tested(of_papers, verdicts),
        "decides": _describe_power(statements, verdicts),
        "run": read_json(inputs("run")[0]),
        **_fetched_titles(fetched),
    }


def _counts(heads: pd.DataFrame) -> dict[str, Any]:
    """Counts of the statements of a paper: in words, for a bar, and of those on original cases."""
    counts = count_groups(heads)
    with_number = heads["word"].map(GROUPS) != "none"
    return {
        "counts": [(group, n, count_text({group: n})) for group, n in counts.items()],
        "count_text": count_text(counts),
        "n_original": int((with_number & (heads["status"] == "original")).sum()),
    }


def _tested(of_papers: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """How many statements were tested, and on what: a mathematical one needs no model."""
    tested = of_papers[of_papers["word"].map(GROUPS) != "none"]
    original = tested[tested["status"] == "original"]
    with_model = verdicts[(verdicts["status"] == "original") & (verdicts["embedding"] != "")]
    proofs = original[~original["statement_id"].isin(with_model["statement_id"])]
    n_refuted = int((proofs["word"].map(GROUPS) == "fails").sum())
    n_data, n_others = len(original) - len(proofs), len(tested) - len(original)
    refuted = {0: "", len(proofs): "; counter-examples refute them"}.get(
        n_refuted, f"; counter-examples refute {_count(n_refuted).lower()} of them"
    )
    sentences = {
        f"{_be(len(proofs))} mathematical{refuted}.": len(proofs),
        f"{_be(n_data, 'was', 'were')} tested on the paper's own data, model and protocol.": n_data,
        f"The other {n_others} were tested on other models or data: they show whether a claim "
        "carries over.": n_others,
    }
    shown = [sentence for sentence, n in sentences.items() if n]
    return " ".join([f"We tested {len(tested)} of {len(of_papers)} statements.", *shown])


def _be(n: int, singular: str = "is", plural: str = "are") -> str:
    return f"{_count(n)} {singular if n == 1 else plural}"


def _count(n: int) -> str:
    """A number at the beginning of a sentence."""
    return NUMBERS[n] if n < len(NUMBERS) else str(n)


def _describe_power(all_statements: list[dict[str, Any]], verdicts: pd.DataFrame) -> list[str]:
    """What the study can decide, and what it cannot: at most four sentences."""
    heads = verdicts[verdicts["overall"]]
    undecided = heads[(heads["word"] == "undecided") & ~heads["ours"].fillna(False)]
    is_open = verdicts["statement_id"].isin(undecided["statement_id"])
    needed = verdicts.loc[is_open & verdicts["needed"].notna(), "statement_id"].nunique()
    ours = select_by_origin(all_statements, ours=True)
    sentences = [
        f"Beside the papers' statements it tests {sum(map(has_number, ours))} controls of ours."
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
        hint = (
            f" For {needed} of them results/claims.csv says how many seeds or items would decide, "
            "at the spread that was seen."
            if needed
            else ""
        )
        sentences.append(
            f"{len(undecided)} are open, most often because a 95 % interval includes both answers."
            f"{hint}"
        )
    return sentences


def _fetched_titles(fetched: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Titles of all models and vectors that were fetched, and of all data."""
    titles: dict[str, list[str]] = {"models": [], "data": []}
    for source in (source for record in fetched for source in record["sources"]):
        kind = "models" if source["kind"] in ("model", "vectors") else "data"
        titles[kind].append(source["content"]["title"])
    return titles
