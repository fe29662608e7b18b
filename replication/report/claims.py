"""The pages of statements, to search and filter: one of those tested, one of the others. The
lineage of a claim can be unfolded down to digests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json, record_path
from isotropy.printable import without_remark
from replication.claims.scorecard import models_by_case
from replication.claims.spec import WITHOUT_MODEL
from replication.palette import NO_MODEL
from replication.papers.locations import table_file
from replication.plan.page_spec import Inputs, PageSpec
from replication.report.verdicts import group_statements, has_number

SCRIPTS = ("claims.js",)


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `scorecard`: the models of their cases; `lineage` and
            `graph`: jobs behind the results, from the summary.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    jobs = read_json(inputs("lineage")[0])["jobs"]
    numbers = {job["record"]: i for i, job in enumerate(jobs)}
    all_statements = group_statements(verdicts)
    model_titles = _set_models(all_statements, pd.read_parquet(inputs("scorecard")[0]))
    for statement in all_statements:
        head = statement["head"]
        record = record_path(Path(table_file(head["table"]))).as_posix() if head["table"] else ""
        head["job"] = numbers.get(record)
    shown = [candidate for candidate in all_statements if _belongs(candidate, tested=spec.tested)]
    paper_statements = [
        (paper, [candidate for candidate in shown if candidate["head"]["paper"] == paper.key])
        for paper in spec.papers
    ]
    return {
        "by_paper": [(paper, statements) for paper, statements in paper_statements if statements],
        "setups": {job["keys"]["setup"] for job in jobs if "setup" in job["keys"]},
        "untested": [
            {**s["head"], "statement": without_remark(s["head"]["statement"])}
            for s in all_statements
            if spec.tested and not has_number(s)
        ],
        "models": model_titles,
        "units": sorted({unit for unit in verdicts["unit"] if unit}),
        "graph": os.path.relpath(inputs("graph")[0], folder),
    }


def _set_models(statements: list[dict[str, Any]], card: pd.DataFrame) -> dict[str, str]:
    """Set `models` of each statement and case: numbers of its models, separated by spaces; of a
    statement those that all its cases share. Return titles by name in the address, in the order of
    the numbers, which begin at 1.
    """
    titles = dict(zip(card["model"], card["model_title"], strict=True))
    models = sorted(titles, key=lambda model: (model == WITHOUT_MODEL, model))
    by_case = models_by_case(card)
    for statement in statements:
        sets = []
        for claim in statement["cases"] or [statement["head"]]:
            names = by_case.get((claim["id"], claim["setup"]), [])
            sets.append({models.index(name) + 1 for name in names})
            claim["models"] = _join(sets[-1])
        statement["head"]["models"] = _join(set.intersection(*sets))
    return {model_name(model): titles[model] for model in models}


def model_name(model: str) -> str:
    """Name of a model in the address of a view."""
    return NO_MODEL if model == WITHOUT_MODEL else model


def _join(numbers: set[int]) -> str:
    return " ".join(map(str, sorted(numbers)))


def _belongs(statement: dict[str, Any], *, tested: bool) -> bool:
    """Whether a statement belongs on the page of tested statements, or on that of the others."""
    if tested:
        return has_number(statement)
    return not has_number(statement) or statement["n_left_out"] > 0
