"""Specs of the pages of the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from replication.figures.spec import FigureSpec
from replication.papers.protocol import Line
from replication.spec import Spec, Strict
from replication.tables.spec import TableSpec

Inputs = Callable[[str], list[Path]]
"""Function that gives the paths of a named input of a page."""
Kind = Literal[
    "overview", "paper", "report", "claims", "scorecard", "sources", "provenance", "glossary"
]


class PaperEntry(Strict):
    """A paper, as it is described on the pages."""

    key: str
    title: str
    reference: str
    name: str
    """Authors and year, for links."""
    link: str = ""
    """Address of the paper; with a DOI where it has one."""
    bibtex: str = ""
    main: str = ""
    """Id of the statement that the overview shows first."""
    measure: str = "the number"
    """What the numbers of `main` are, in words."""
    cases: str = "cases"
    """What `main` was tested in, in words."""
    says: str
    """The paper's main result, in one sentence."""
    lead: str | None = None
    """Its most telling figure, for the overview; null: the study does not draw it."""
    lead_caption: str = ""


class PageSpec(Spec):
    """The spec of one page."""

    kind: Kind
    """The module of `replication.report` that makes it."""
    study: str
    papers: list[PaperEntry]
    """All papers, for the navigation."""
    paper: str | None = None
    """The paper that the page is about."""
    attempted: bool = True
    """For pages of claims: whether they show attempted claims, or the others."""
    figures: list[FigureSpec] = []
    tables: list[TableSpec] = []
    decisions: str = ""
    """Sections of the paper's docs page that the page shows, as Markdown."""
    citation: str = ""
    """How to cite this software, as BibTeX."""
    protocol: list[Line] = []
    """The study's protocol, line by line, beside the paper's."""
    glossary: dict[str, str] = {}
    """Words and their meanings."""
    locked: dict[str, str] = {}
    """Version of each package in `requirements.lock`."""


class RunSpec(Spec):
    """The spec of the summary of a run."""

    study: str
