"""What defines the pages of the results."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Literal

from isotropy.figures.spec import FigureSpec
from isotropy.papers.choices import Line
from isotropy.spec import Spec, Strict
from isotropy.tables.spec import TableSpec

Inputs = Callable[[str], list[Path]]
"""Paths of a named input of a page."""
Kind = Literal["overview", "paper", "claims", "scorecard", "sources", "provenance"]


class PaperEntry(Strict):
    """A paper as pages name it."""

    key: str
    title: str
    reference: str
    says: str
    """What it says, in one sentence."""
    lead: str | None = None
    """On the overview: its figure that says most, of those that the study draws."""
    lead_caption: str = ""


class PageSpec(Spec):
    """What defines one page."""

    kind: Kind
    """The module of `isotropy.report` that makes it."""
    study: str
    papers: list[PaperEntry]
    """All papers, for the way through the site."""
    paper: str | None = None
    """The paper that the page is about."""
    attempted: bool = True
    """Of the pages of claims: those that the study attempts, or the others."""
    figures: list[FigureSpec] = []
    tables: list[TableSpec] = []
    decisions: str = ""
    """What was decided and where the study deviates, as Markdown: from the paper's docs page."""
    protocol: list[Line] = []
    """What the study does beside the paper's text."""
    locked: dict[str, str] = {}
    """Versions of packages by `requirements.lock`."""


class RunSpec(Spec):
    """What defines the summary of a run."""

    study: str
