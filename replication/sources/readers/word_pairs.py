"""Pairs of words and their similarity, as people rate it: tab-separated text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """A row per pair; lines that begin with # are comments."""
    for line in (folder / "pairs.tsv").read_text("utf8").split("\n"):
        if line and not line.startswith("#"):
            first, second, score = line.strip().split("\t")
            yield Row((first, second), float(score))
