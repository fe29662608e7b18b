"""The binary format of word2vec, plain or compressed."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from isotropy.sources.spec import Content
from isotropy.sources.vectors import StaticVectors

MAX_LENGTH = 10_000  # limit on the bytes of a word, and on the dimensions


def read(_: Content, folder: Path) -> StaticVectors:
    """A header `n d`, then per word its text, a blank, and d little-endian float32."""
    words: list[str] = []
    vectors: list[np.ndarray] = []
    packed = folder / "model.bin.gz"
    with gzip.open(packed) if packed.is_file() else (folder / "model.bin").open("rb") as stream:
        n, d = (int(x) for x in stream.readline(MAX_LENGTH).split())
        if not 0 < d <= MAX_LENGTH:
            raise ValueError(f"expected up to {MAX_LENGTH} dimensions, got {d}")
        for _word in range(n):
            word = bytearray()
            while (byte := stream.read(1)) != b" ":
                if not byte:
                    raise ValueError(f"ends after {len(words)} of {n} words")
                word += byte
                if len(word) > MAX_LENGTH:
                    raise ValueError(f"word {len(words) + 1} does not end")
            values = stream.read(4 * d)
            if len(values) != 4 * d:
                raise ValueError(f"ends after {len(words)} of {n} words")
            words.append(word.decode("utf8", errors="replace").lstrip("\n"))
            vectors.append(np.frombuffer(values, dtype="<f4"))
    return StaticVectors(words, np.stack(vectors).astype(np.float32))
