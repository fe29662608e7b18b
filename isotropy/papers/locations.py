"""Where the functions of a paper are, by its key."""

from __future__ import annotations

CLAIMS = "claims"
"""Stands for the papers together: figures and tables of the verdicts on all claims."""


def package(key: str) -> str:
    """The package with a paper's `tables` and `figures`; for `CLAIMS`, that of the verdicts."""
    return "isotropy.claims" if key == CLAIMS else f"isotropy.papers.{key}"
