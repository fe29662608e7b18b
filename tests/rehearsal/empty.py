"""Cells of a rehearsal's tables that have no value, each with the reason or as unexplained.

python -m tests.rehearsal.empty FOLDER_OF_THE_STUDY

`reasons.yaml` has the reasons: table -> column -> why it may be empty; `*` is for any column.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import yaml

REASONS = Path(__file__).parent / "reasons.yaml"


class Empty(NamedTuple):
    """Cells of a column without a value.

    Attributes:
        table, column: where.
        n, rows: how many, of how many.
        reason: why; no text where none is listed.
    """

    table: str
    column: str
    n: int
    rows: int
    reason: str


def empty_cells(results: Path) -> Iterator[Empty]:
    """What all tables of a study have without a value, and whole tables without a row."""
    reasons = yaml.safe_load(REASONS.read_text("utf8"))
    for path in sorted((results / "tables").glob("*/*.parquet")):
        name = f"{path.parent.name}/{path.stem}"
        known = reasons.get(name, {})
        table = pd.read_parquet(path)
        if table.empty:
            yield Empty(name, "*", 0, 0, known.get("*", ""))
        for column in table.columns:
            if n := int(table[column].isna().sum()):
                reason = known.get(column, known.get("*", ""))
                yield Empty(name, str(column), n, len(table), reason)


def report(study: Path) -> int:
    """Print what is empty in the tables of a study's folder.

    Returns:
        1 if something of it is unexplained, else 0.
    """
    found = list(empty_cells(study / "results"))
    for one in found:
        why = one.reason or "UNEXPLAINED"
        print(f"{one.table}, {one.column}: {one.n} of {one.rows} cells are empty: {why}")
    unexplained = [one for one in found if not one.reason]
    print(f"{len(found)} columns with empty cells, {len(unexplained)} unexplained")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1])))
