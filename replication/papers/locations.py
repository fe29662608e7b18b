"""Where the functions of a paper are, and its tables and figures, by its key."""

from __future__ import annotations

from isotropy.files import RESULTS

OF_ALL = ("claims", "scorecard")
"""Tables about all papers together."""


def package(key: str) -> str:
    """The package with a paper's `tables` and `figures`."""
    return f"replication.papers.{key}"


def table_file(name: str) -> str:
    """Parquet file of a table, by its id or one of OF_ALL."""
    return f"{RESULTS}/{name}.parquet" if name in OF_ALL else f"{RESULTS}/tables/{name}.parquet"


def figure_file(name: str) -> str:
    """The picture of a figure that pages show."""
    return f"{RESULTS}/figures/{name}.png"


def note_file(name: str) -> str:
    """What a figure shows, in words."""
    return f"{RESULTS}/figures/{name}.txt"
