"""An array of vectors (`vectors.npy`) and a table with a column of words (`words.parquet`)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from replication.sources.spec import Content
from replication.sources.vectors import StaticVectors


def read(_: Content, folder: Path) -> StaticVectors:
    """Words and vectors, in the same order."""
    import pyarrow.parquet

    words = pyarrow.parquet.read_table(folder / "words.parquet").column(0).to_pylist()
    vectors = np.load(folder / "vectors.npy", allow_pickle=False)
    if vectors.shape[0] != len(words):
        raise ValueError(f"{len(words)} words and {vectors.shape[0]} vectors")
    return StaticVectors(words, vectors.astype(np.float32))
