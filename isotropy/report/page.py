"""The results page: one HTML file from which a reader finds a figure's numbers, code, paper section
and record.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from isotropy.claims.catalogue import VERDICTS
from isotropy.claims.write import readable
from isotropy.figures.spec import FigureSpec
from isotropy.files import record_of
from isotropy.papers.locations import package
from isotropy.provenance.record import read_record
from isotropy.report.spec import PageSpec
from isotropy.tables.spec import TableSpec
from isotropy.tables.write import format_cell

LONGEST_TABLE = 40  # rows; a longer table is linked, not shown


def render(spec: PageSpec, results: list[Path], folder: Path, mark: str) -> str:
    """The page as HTML, everything in it escaped.

    Args:
        spec: entries in the order of the page.
        results: one file of each entry: figures first, then tables.
        folder: where the page lies; links are relative to it.
        mark: the mark of its record.
    """
    entries: list[FigureSpec | TableSpec] = [*spec.figures, *spec.tables]
    items = [_item(entry, path, folder) for entry, path in zip(entries, results, strict=True)]
    sources = {s["id"]: s for item in items for s in item["lineage"].sources}
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string((Path(__file__).parent / "page.html").read_text("utf8"))
    return template.render(
        mark=mark, study=spec.study, papers=spec.papers, items=items, sources=sources
    )


def _modules(entry: FigureSpec | TableSpec) -> list[str]:
    """Modules in which a reader finds how a figure or table is made."""
    if entry == VERDICTS:
        return ["isotropy/claims/evaluate.py"]
    room = "figures" if isinstance(entry, FigureSpec) else "tables"
    folder = package(entry.id.split("/")[0]).replace(".", "/")
    return [f"{folder}/{room}.py"]


def _item(entry: FigureSpec | TableSpec, path: Path, folder: Path) -> dict[str, Any]:
    record = read_record(record_of(path))
    item: dict[str, Any] = {
        "paper": entry.id.split("/")[0],
        "name": entry.id.split("/")[1],
        "entry": entry,
        "lineage": record.lineage,
        "link": os.path.relpath(path.with_suffix(""), folder),
        "is_figure": isinstance(entry, FigureSpec),
        "code": [f for f in record.code.sha256 if f.startswith("scripts/") or f in _modules(entry)],
    }
    if isinstance(entry, TableSpec):
        table = pd.read_parquet(path, dtype_backend="numpy_nullable")  # whole numbers stay whole
        if entry == VERDICTS:
            headlines = table.loc[table["headline"], "verdict"]
            item["verdicts"] = _count(headlines.str.split(" because| by", regex=True).str[0])
            table = readable(table[~table["verdict"].str.startswith("not attempted")])
        item["columns"] = [
            (name, pd.api.types.is_numeric_dtype(table[name])) for name in table.columns
        ]
        item["n_rows"] = len(table)
        shown = table if len(table) <= LONGEST_TABLE or entry == VERDICTS else table.head(0)
        item["rows"] = [[format_cell(v) for v in row] for row in shown.itertuples(index=False)]
    return item


def _count(verdicts: pd.Series) -> str:
    """How many verdicts of each kind."""
    return ", ".join(
        f"{n} {verdict}" for verdict, n in verdicts.value_counts().sort_index().items()
    )
