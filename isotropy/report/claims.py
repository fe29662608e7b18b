"""The pages of claims, to search and filter: one of attempted claims, one of the others. The
lineage of a claim can be unfolded down to digests.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from isotropy.files import read_json, record_path
from isotropy.palette import GROUPS
from isotropy.papers.locations import table_file
from isotropy.report.verdicts import group_statements
from isotropy.workflow.page_spec import Inputs, PageSpec

SCRIPTS = ("claims.js",)


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `lineage` and `graph`: jobs behind the results, from the
            summary; `figures`: published values beside ours.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    jobs = read_json(inputs("lineage")[0])["jobs"]
    numbers = {job["record"]: i for i, job in enumerate(jobs)}
    all_statements = group_statements(verdicts)
    for statement in all_statements:
        head = statement["head"]
        record = record_path(Path(table_file(head["table"]))).as_posix() if head["table"] else ""
        head["job"] = numbers.get(record)
    shown = [
        candidate for candidate in all_statements if _belongs(candidate, attempted=spec.attempted)
    ]
    paper_statements = [
        (paper, [candidate for candidate in shown if candidate["head"]["paper"] == paper.key])
        for paper in spec.papers
    ]
    return {
        "by_paper": [(paper, statements) for paper, statements in paper_statements if statements],
        "setups": {job["keys"]["setup"] for job in jobs if "setup" in job["keys"]},
        "n_claims": len(verdicts),
        "n_attempted": int((verdicts["word"] != "not attempted").sum()),
        "words": list(GROUPS),
        "units": sorted({unit for unit in verdicts["unit"] if unit}),
        "picture": os.path.relpath(inputs("figures")[0], folder),
        "graph": os.path.relpath(inputs("graph")[0], folder),
    }


def _belongs(statement: dict[str, Any], *, attempted: bool) -> bool:
    """Whether a statement belongs on the page of attempted claims, or on that of the others."""
    head_attempted = statement["head"]["word"] != "not attempted"
    return head_attempted if attempted else not head_attempted or statement["n_left_out"] > 0
