"""A list of words without labels: one per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """A row per line that is not empty."""
    for word in (folder / "words.txt").read_text("utf8").split("\n"):
        if word:
            yield Row((word,))
