"""Specs of the pages of the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from replication.figures.spec import FigureSpec
from replication.papers.protocol import Line, Publication
from replication.spec import Spec
from replication.tables.spec import TableSpec

Inputs = Callable[[str], list[Path]]
"""Function that gives the paths of a named input of a page."""
Kind = Literal[
    "overview", "paper", "report", "claims", "scorecard", "sources", "provenance", "glossary"
]


class Findings(Spec):
    """What a paper's results mean, in sentences by hand on one study."""

    text: str = ""
    """Markdown; empty: none for this study."""
    verdicts: dict[str, str] = {}
    """The verdicts that the sentences are about, by statement."""


class PageSpec(Spec):
    """The spec of one page."""

    kind: Kind
    """The module of `replication.report` that makes it."""
    study: str
    papers: list[Publication]
    """All papers, for the navigation."""
    paper: str | None = None
    """The paper that the page is about."""
    tested: bool = True
    """For pages of statements: whether they show those that the study tests, or the others."""
    figures: list[FigureSpec] = []
    tables: list[TableSpec] = []
    findings: Findings = Findings()
    """What the paper's results mean."""
    decisions: str = ""
    """Sections of the paper's docs page that the page shows, as Markdown."""
    docs: str = ""
    """The paper's docs page, as Markdown."""
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
