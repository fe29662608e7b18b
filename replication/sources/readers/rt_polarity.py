"""Sentence polarity v1.0 of Pang & Lee: a file per class, one sentence per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Negative sentences (0), then positive ones (1)."""
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        # Lines end at LF alone: some sentences hold other characters that str.splitlines would cut
        # at.
        for line in (folder / name).read_text("utf8").removesuffix("\n").split("\n"):
            yield Row((line,), label)
