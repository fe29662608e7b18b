"""A page for each paper: its headline claims, figures and tables, and what was decided where it is
silent.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from isotropy.figures.spec import FigureSpec
from isotropy.files import record_of
from isotropy.papers.locations import package
from isotropy.provenance.record import read_record
from isotropy.report.pictures import size
from isotropy.report.site import SORTABLE
from isotropy.report.verdicts import count, families, words
from isotropy.tables.spec import TableSpec
from isotropy.tables.write import format_cell
from isotropy.workflow.page_spec import Inputs, PageSpec

SCRIPTS = SORTABLE
LONGEST_TABLE = 30
"""Rows; of a longer table the first FIRST_ROWS are shown."""
FIRST_ROWS = 10


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """What the page shows.

    Args:
        spec: what defines it.
        inputs: `claims`: the verdicts; `figures`, `notes` (to figures) and `tables`: one
            file of each entry.
        folder: where the page lies.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    found = families(verdicts[verdicts["paper"] == spec.paper])
    figures, tables = inputs("figures"), inputs("tables")
    return {
        "paper": next(paper for paper in spec.papers if paper.key == spec.paper),
        "families": [one for one in found if one["head"]["group"] != "none"],
        "left_out": [one["head"] for one in found if one["head"]["group"] == "none"],
        "counts": [(n, words(group, n)) for group, n in count(found).items() if n],
        "figures": [
            _figure(entry, path, note, folder)
            for entry, path, note in zip(spec.figures, figures, inputs("notes"), strict=True)
        ],
        "tables": [
            _table(entry, path, folder) for entry, path in zip(spec.tables, tables, strict=True)
        ],
        "protocol": spec.protocol,
        "decisions": _markdown(spec.decisions),
    }


def _entry(entry: FigureSpec | TableSpec, path: Path, folder: Path, room: str) -> dict[str, Any]:
    """What figures and tables have in common."""
    lineage = read_record(record_of(path)).lineage
    module = package(entry.id.split("/")[0]).replace(".", "/")
    return {
        "id": entry.id,
        "title": _title(entry.id.split("/")[1]),
        "caption": entry.caption,
        "section": re.sub(r"^(\d[\d.]*|[A-Z])$", r"section \1", entry.section),
        "link": os.path.relpath(path.with_suffix(""), folder),
        "trace": path.as_posix(),
        "code": f"{module}/{room}.py, {entry.function}()",
        "status": lineage.status if lineage.sources else "diagram",
        "reasons": lineage.reasons,
        "tables": entry.tables,
    }


def _title(name: str) -> str:
    """A heading: `figure3` is Figure 3, `cls_layers` Cls layers."""
    words = re.sub(r"^(figure|table)(?=\d)", r"\1 ", name).replace("_", " ")
    return words[:1].upper() + words[1:]


def _figure(entry: FigureSpec, path: Path, note: Path, folder: Path) -> dict[str, Any]:
    return {
        **_entry(entry, path, folder, "figures"),
        "size": size(path),
        "note": note.read_text("utf8"),
    }


def _table(entry: TableSpec, path: Path, folder: Path) -> dict[str, Any]:
    table = pd.read_parquet(path, dtype_backend="numpy_nullable")  # whole numbers stay whole
    shown = table if len(table) <= LONGEST_TABLE else table.head(FIRST_ROWS)
    same = {name: format_cell(shown[name].iloc[0]) for name in _constant(shown)}
    shown = shown.drop(columns=list(same))
    return {
        **_entry(entry, path, folder, "tables"),
        "same": {name: value for name, value in same.items() if value},
        "columns": [(str(c), pd.api.types.is_numeric_dtype(table[c])) for c in shown.columns],
        "rows": [[format_cell(v) for v in row] for row in shown.itertuples(index=False)],
        "n_rows": len(table),
    }


def _constant(table: pd.DataFrame) -> list[str]:
    """Columns of texts, or without any value, that say the same in all of several rows: they stand
    beside the table, so that its numbers are seen.
    """
    texts = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    empty = [c for c in table.columns if table[c].isna().all()]
    alike = [c for c in table.columns if table[c].nunique(dropna=False) == 1]
    constant = [str(c) for c in alike if c in texts or c in empty]
    return constant if len(table) > 1 and len(constant) < len(table.columns) else []


def _markdown(text: str) -> Markup:
    """Markdown as HTML: no markup of its own passes, and no links, which lead to other places from
    here.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["link", "image", "autolink"])
    text = re.sub(r"^#", "##", text, flags=re.M)  # below the page's own headings
    return Markup(parser.render(text))  # noqa: S704 - markdown-it escapes what is not Markdown
