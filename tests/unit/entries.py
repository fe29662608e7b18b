"""All declared tables and figures of the papers, and the figures of verdicts, by id."""

from __future__ import annotations

from replication.claims.read import claims_figures
from replication.papers.registry import papers

TABLES = {entry.id: entry for paper in papers() for entry in paper.tables}
FIGURES = {
    entry.id: entry
    for entries in (claims_figures(), *(paper.figures for paper in papers()))
    for entry in entries
}
