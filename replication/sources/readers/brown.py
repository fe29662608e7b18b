"""The Brown corpus with parts of speech: files of sentences, each word with a slash and its tag."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """A row per sentence: its words without their tags."""
    for path in sorted((folder / "texts").iterdir()):
        for line in path.read_text("utf8").split("\n"):
            if line.strip():
                yield Row((" ".join(word.rpartition("/")[0] for word in line.split()),))
