"""Specs of tables, and the published numbers that tables show beside ours."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replication.spec import Spec, Strict

RunKind = Literal[
    "trajectory",
    "finetuned",
    "stability",
    "layer",
    "vectors",
    "contexts",
    "static_words",
    "similarity",
    "tuning",
    "classified",
]
"""Kinds of runs that a table can be made from (`replication.tables.runs`)."""

RunTable = Literal[
    "steps", "layers", "points", "silhouettes", "pairs", "answers", "words", "dimensions"
]
"""Additional tables of a run, besides its main one."""


class PublishedNumber(Strict):
    """A number that a paper prints, with a note on its source: a row of its `published.csv`."""

    locator: str
    """Table, figure or section."""
    dataset: str
    model: str
    quantity: str
    value: float
    source_note: str


class TableSpec(Spec):
    """The spec of a table, which is also its entry on the paper's page."""

    id: str
    """Paper and name: `results/tables/<id>.parquet`, `.csv`, `.md`."""
    function: str
    """Function in the paper's `tables.py`. Its arguments are the runs, tables and published numbers
    that this spec names, in this order."""
    runs: str | None = None
    """Runs that it is made from: a group in the paper's `study.py`."""
    kind: RunKind | None = None
    """Kind of these runs."""
    run_table: RunTable | None = None
    """Which table of a run, where it has several; null: its main one."""
    tables: list[str] = []
    """Tables that it is made from."""
    published: list[PublishedNumber] | None = None
    """Numbers that the paper prints, for tables that show them beside ours."""
    needs: str | None = None
    """Part of the paper's study that the table needs; without it there is no such table."""
    section: str
    """Section of the paper."""
    caption: Annotated[str, Field(min_length=1)]
    title: str | None = None
    """Heading on the paper's page; null: made from the name."""
