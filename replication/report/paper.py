"""The page of a paper: its statements, figures and tables, and the study's decisions where the
paper is silent.
"""

from __future__ import annotations

import inspect
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from isotropy.files import record_path
from replication.figures.spec import FigureSpec
from replication.papers.locations import package
from replication.papers.protocol import with_stand_ins
from replication.plan.page_spec import Findings, Inputs, PageSpec
from replication.provenance.record import read_record
from replication.report.explore import FILE
from replication.report.forest import forest
from replication.report.outcome import main_statements
from replication.report.site import SORTABLE, size
from replication.report.verdicts import (
    count_words,
    group_statements,
    has_number,
    select_by_origin,
)
from replication.tables.spec import TableSpec
from replication.tables.write import format_cell

SCRIPTS = ("paper.js", "forest.js", *SORTABLE)
LONGEST_TABLE = 24
"""Most rows of a table that is shown whole; of others the first FIRST_ROWS are shown."""
FIRST_ROWS = 5


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template, and `files` beside it: the docs page of the paper
    and the code of its figures.

    Args:
        spec: the spec of the page.
        inputs: `claims`: the verdicts; `figures`, `notes` (to figures) and `tables`: one
            file of each entry.
        folder: folder of the page.
    """
    verdicts = pd.read_parquet(inputs("claims")[0])
    paper_statements = group_statements(verdicts[verdicts["paper"] == spec.paper])
    with_number = list(filter(has_number, paper_statements))
    paper = next(paper for paper in spec.papers if paper.key == spec.paper)
    figures, tables = inputs("figures"), inputs("tables")
    all_tables = [
        _table(entry, path, folder) for entry, path in zip(spec.tables, tables, strict=True)
    ]
    shown_tables = [table for table in all_tables if table["n_rows"]]
    return {
        "paper": paper,
        "meaning": _markdown(spec.findings.text) if _is_about(spec.findings, verdicts) else "",
        "main": main_statements(paper, paper_statements),
        "forest": forest(_with_controls(with_number)),
        "left_out": [
            s["head"] for s in select_by_origin(paper_statements, ours=False) if not has_number(s)
        ],
        "counts": _counts(paper_statements),
        "figures": [
            _figure(entry, path, note, folder)
            for entry, path, note in zip(spec.figures, figures, inputs("notes"), strict=True)
        ],
        "explore": FILE,
        "files": {
            "docs": spec.docs,
            "figures": inspect.getsource(import_module(f"{package(str(spec.paper))}.figures")),
        },
        "tables": shown_tables,
        "protocol": with_stand_ins(
            spec.protocol, (source for table in all_tables for source in table["fetched"])
        ),
        "decisions": _markdown(spec.decisions),
    }


def _with_controls(tested: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Statements with their controls, as `controls`; a control of one that was not tested stands
    alone.
    """
    rows = {s["head"]["id"]: {**s, "controls": []} for s in tested}
    for name, row in list(rows.items()):
        if (of := row["head"]["control_of"]) in rows:
            rows[of]["controls"].append(rows.pop(name)["head"])
    return list(rows.values())


def _is_about(findings: Findings, verdicts: pd.DataFrame) -> bool:
    """Whether sentences by hand are about these verdicts: a study can have a known name, and other
    models or data.
    """
    words = verdicts[verdicts["overall"]].set_index("statement_id")["word"]
    return all(words.get(name) == word for name, word in findings.verdicts.items())


def _counts(paper_statements: list[dict[str, Any]]) -> dict[str, str]:
    """Verdicts in words: on the paper's statements, and on our controls."""
    of_papers, ours = (select_by_origin(paper_statements, ours=kind) for kind in (False, True))
    counts = {"Statements of the paper": count_words(of_papers), "Our controls": count_words(ours)}
    return {name: words for name, words in counts.items() if words}


def _entry(
    entry: FigureSpec | TableSpec, path: Path, folder: Path, module_file: str
) -> dict[str, Any]:
    """Variables that the entries of figures and tables have in common."""
    lineage = read_record(record_path(path)).lineage
    is_drawn = isinstance(entry, FigureSpec) and not lineage.sources
    module = package(entry.id.split("/")[0]).replace(".", "/")
    return {
        "id": entry.id,
        "title": _title(entry.id.split("/")[1], entry.title),
        "caption": entry.caption,
        "section": _place(entry.section),
        "link": os.path.relpath(path.with_suffix(""), folder),
        "trace": path.as_posix(),
        "code": f"{module}/{module_file}.py, {entry.function}()",
        "status": "diagram" if is_drawn else lineage.status,
        "reasons": lineage.reasons,
        "fetched": lineage.sources,
        "tables": entry.tables,
    }


def _place(section: str) -> str:
    """Name a place in a paper: its number alone is that of a section, a letter that of an appendix.

    Examples:
        >>> [_place(section) for section in ("4.2", "3 to 5", "B", "Table 1")]
        ['section 4.2', 'sections 3 to 5', 'appendix B', 'Table 1']
    """
    for pattern, kind in (
        (r"\d[\d.]*", "section"),
        (r"\d[\d., to]*", "sections"),
        (r"[A-Z](\.\d)?", "appendix"),
    ):
        if re.fullmatch(pattern, section):
            return f"{kind} {section}"
    return section


def _title(name: str, title: str | None) -> str:
    """Make a heading: the title, after the number of a figure or table of the paper; else the
    name in words.

    Examples:
        >>> _title("figure3", "Silhouette against IsoScore")
        'Figure 3: Silhouette against IsoScore'
        >>> _title("nested_classes", None)
        'Nested classes'
    """
    words = re.sub(r"^(figure|table)(?=\d)", r"\1 ", name).replace("_", " ").capitalize()
    numbered = re.match(r"(Figure|Table) \d", words)
    return ": ".join(filter(None, [words if numbered or not title else "", title]))


def _figure(entry: FigureSpec, path: Path, note: Path, folder: Path) -> dict[str, Any]:
    return {
        **_entry(entry, path, folder, "figures"),
        "size": size(path),
        "note": note.read_text("utf8"),
        "explore": entry.explore,
    }


def _table(entry: TableSpec, path: Path, folder: Path) -> dict[str, Any]:
    table = pd.read_parquet(path, dtype_backend="numpy_nullable")  # whole numbers stay whole
    # The reasons are listed below the table
    whole = table.drop(columns="deviations", errors="ignore")
    shown = whole if len(table) <= LONGEST_TABLE else whole.head(FIRST_ROWS)
    constant = {name: format_cell(shown[name].iloc[0]) for name in _constant(shown)}
    shown = shown.drop(columns=list(constant))
    of_setup = _texts_of_setups(shown)
    shown = shown.drop(columns=of_setup)
    return {
        **_entry(entry, path, folder, "tables"),
        "same": {name: value for name, value in constant.items() if value},
        "of_setup": of_setup,
        "columns": [(str(c), pd.api.types.is_numeric_dtype(table[c])) for c in shown.columns],
        "rows": [[format_cell(v) for v in row] for row in shown.itertuples(index=False)],
        "n_rows": len(table),
        "too_short": bool((table.get("too_short", pd.Series(dtype=str)) != "").any()),
    }


def _constant(table: pd.DataFrame) -> list[str]:
    """Columns with one value in all rows. They are shown beside the table, so that its other
    numbers are easier to see.
    """
    constant = [str(c) for c in table.columns if table[c].nunique(dropna=False) == 1]
    return constant if len(table) > 1 and len(constant) < len(table.columns) else []


def _texts_of_setups(table: pd.DataFrame) -> list[str]:
    """Columns of texts that say again what the name of the setup says."""
    if "setup" not in table or table["setup"].nunique() == 1:
        return []
    texts = [c for c in table.columns if not pd.api.types.is_numeric_dtype(table[c])]
    n_values = table[texts].groupby("setup").nunique(dropna=False)
    return [str(c) for c in n_values.columns[(n_values == 1).all()]]


def _markdown(text: str) -> Markup:
    """Convert Markdown to HTML without the HTML in it, and without links, whose relative targets
    would be wrong on this page.
    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    parser.disable(["link", "image", "autolink"])
    text = re.sub(r"^#", "##", text, flags=re.M)  # below the page's own headings
    return Markup(parser.render(text))  # noqa: S704 - markdown-it escapes what is not Markdown
