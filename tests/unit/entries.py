"""All entries of the papers' catalogues, and of the verdicts'."""

from __future__ import annotations

from isotropy.claims import catalogue
from isotropy.papers.registry import papers

TABLES = {entry.id: entry for paper in papers() for entry in paper.tables}
FIGURES = {
    entry.id: entry
    for entries in (catalogue.FIGURES, *(paper.figures for paper in papers()))
    for entry in entries
}
