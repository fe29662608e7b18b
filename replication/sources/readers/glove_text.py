"""GloVe's text format: per line a word, which may hold blanks, and its vector."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from replication.sources.spec import Content
from replication.sources.vectors import StaticVectors


def read(_: Content, folder: Path) -> StaticVectors:
    """Words and vectors, in the order of the lines."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    d: int | None = None
    with (folder / "vectors.txt").open(encoding="utf8", newline="\n") as stream:
        for line in stream:
            fields = line.rstrip("\n").split(" ")
            d = d or len(fields) - 1
            words.append(" ".join(fields[:-d]))
            vectors.append(np.array(fields[-d:], dtype=np.float32))
    return StaticVectors(words, np.stack(vectors))
