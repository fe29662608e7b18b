"""What defines the results page."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.spec import Spec, Strict
from isotropy.tables.spec import TableSpec


class PaperTitle(Strict):
    """A paper as the page names it."""

    key: str
    title: str
    reference: str


class PageSpec(Spec):
    """What defines the page."""

    study: str
    papers: list[PaperTitle]
    figures: list[FigureSpec]
    tables: list[TableSpec]
