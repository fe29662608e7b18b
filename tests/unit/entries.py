"""All declared tables and figures of the papers, by id."""

from __future__ import annotations

from replication.papers.registry import papers

TABLES = {entry.id: entry for paper in papers() for entry in paper.tables}
FIGURES = {entry.id: entry for paper in papers() for entry in paper.figures}
