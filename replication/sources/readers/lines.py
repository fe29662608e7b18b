"""A plain text: a row per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """A row per line, empty ones included."""
    for line in (folder / "lines.txt").read_text("utf-8-sig").removesuffix("\n").split("\n"):
        yield Row((line,))
