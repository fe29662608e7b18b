"""The binary format of word2vec, plain or compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from isotropy.read.word2vec_header import iterate, read_counts
from replication.sources.spec import Content
from replication.sources.vectors import StaticVectors


def read(_: Content, folder: Path) -> StaticVectors:
    """A header `n d`, then per word its text, a blank, and d little-endian float32."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    packed = folder / "model.bin.gz"
    with gzip.open(packed) if packed.is_file() else (folder / "model.bin").open("rb") as stream:
        n, d = read_counts(stream)
        for word, values in iterate(stream, n, d):
            words.append(word.decode("utf8", errors="replace").lstrip("\n"))
            vectors.append(np.frombuffer(values, dtype="<f4"))
    return StaticVectors(words, np.stack(vectors).astype(np.float32))
