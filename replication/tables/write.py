"""Write a table in three formats: Parquet for programs, CSV for spreadsheets, Markdown to read."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

from isotropy.printable import escape_for_markdown
from replication.parquet import write_parquet


class Writer(Protocol):
    """The part of a job that writes tables: its named outputs, and the mark of its record."""

    mark: str

    def write(self, name: str) -> AbstractContextManager[Path]:
        """A temporary path, renamed into place at the end of the block."""


def write_all(job: Writer, table: pd.DataFrame) -> None:
    """Write the outputs `parquet`, `csv` and `markdown` of a job."""
    with job.write("parquet") as path:
        write_parquet(path, table, job.mark)
    with job.write("csv") as path:
        write_csv(path, table)
    with job.write("markdown") as path:
        write_markdown(path, table, job.mark)


def write_csv(path: Path, table: pd.DataFrame) -> None:
    """Write CSV with every digit (the shortest text that reads back to the same number). It is the
    only format without the mark of its record.
    """
    table.to_csv(path, index=False, lineterminator="\n")


def write_markdown(path: Path, table: pd.DataFrame, mark: str) -> None:
    """Write a Markdown table with four significant digits; its record's mark is a comment."""
    lines = [_row([str(c) for c in table.columns]), _row(["---"] * len(table.columns))]
    lines += [_row([format_cell(v) for v in row]) for row in table.itertuples(index=False)]
    path.write_text("\n".join(lines) + f"\n\n<!-- {mark} -->\n", "utf8")


def format_cell(value: object) -> str:
    """Format a cell to be read: grouped integers, four significant digits, empty for missing
    values.
    """
    if value is None or value is pd.NA:
        return ""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{value:,}"
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else f"{value:.4g}"
    return str(value)


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(escape_for_markdown(cell) for cell in cells) + " |"
