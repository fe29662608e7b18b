"""What defines a table, and the published numbers that it sets beside ours."""

from __future__ import annotations

from typing import Literal

from isotropy.spec import Spec, Strict

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
"""Kinds of runs that a table can be made from (`isotropy.tables.runs`)."""

RunPart = Literal[
    "steps", "layers", "points", "silhouettes", "pairs", "answers", "words", "dimensions"
]
"""Tables of a run, besides its rows."""


class PublishedNumber(Strict):
    """A number that a paper prints, and how far to trust it: a row of its `published.csv`."""

    locator: str
    """Table, figure or section."""
    dataset: str
    model: str
    quantity: str
    value: float
    trust: str


class TableSpec(Spec):
    """What defines a table; also its entry on the paper's page."""

    id: str
    """Paper and name: `results/tables/<id>.parquet`, `.csv`, `.md`."""
    function: str
    """Function in the paper's `tables.py`. Its arguments: runs, tables, published numbers, as far
    as named."""
    runs: str | None = None
    """Runs that it is made from: a group in the paper's `study.py`."""
    kind: RunKind | None = None
    """Of these runs."""
    part: RunPart | None = None
    """Which of the tables of a run, where it has several."""
    tables: list[str] = []
    """Tables that it is made from."""
    published: list[PublishedNumber] | None = None
    """What the paper prints, for the tables that set it beside our numbers."""
    rehearsal: bool = False
    """Whether the study is a rehearsal: of a table that is made from nothing, no source says so."""
    repeats: str | None = None
    """Field of the paper's configuration that holds the seeds behind a value, or their number."""
    needs: str | None = None
    """Part of the paper without which there is no such table."""
    section: str
    """Section of the paper."""
    caption: str
