"""List empty cells of a rehearsal's tables, each with its reason or as unexplained.

python -m tests.rehearsal.empty FOLDER_OF_THE_STUDY

`reasons.yaml` has the reasons: table -> column -> reason; `*` stands for any column.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import yaml

REASONS = Path(__file__).parent / "reasons.yaml"


class EmptyCells(NamedTuple):
    """Empty cells of a column.

    Attributes:
        table, column: names.
        n, rows: numbers of empty cells and of rows.
        reason: why they are empty; an empty string if none is listed.
    """

    table: str
    column: str
    n: int
    rows: int
    reason: str


def empty_cells(results: Path) -> Iterator[EmptyCells]:
    """Find the empty cells in all tables of a study, and tables without rows."""
    reasons = yaml.safe_load(REASONS.read_text("utf8"))
    for path in sorted((results / "tables").glob("*/*.parquet")):
        name = f"{path.parent.name}/{path.stem}"
        table_reasons = reasons.get(name, {})
        table = pd.read_parquet(path)
        if table.empty:
            yield EmptyCells(name, "*", 0, 0, table_reasons.get("*", ""))
        for column in table.columns:
            if n := int(table[column].isna().sum()):
                reason = table_reasons.get(column, table_reasons.get("*", ""))
                yield EmptyCells(name, str(column), n, len(table), reason)


def report(study: Path) -> int:
    """Print the empty cells in the tables of a study's folder.

    Returns:
        1 if some of them are unexplained, else 0.
    """
    columns = list(empty_cells(study / "results"))
    for cells in columns:
        reason = cells.reason or "UNEXPLAINED"
        print(f"{cells.table}, {cells.column}: {cells.n} of {cells.rows} cells are empty: {reason}")
    unexplained = [cells for cells in columns if not cells.reason]
    print(f"{len(columns)} columns with empty cells, {len(unexplained)} unexplained")
    return int(bool(unexplained))


if __name__ == "__main__":
    sys.exit(report(Path(sys.argv[1])))
