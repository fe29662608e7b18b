"""The binary format of word2vec: a line `n d`, then per word its text, a blank, and d little-endian
float32.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from typing import IO

Stream = IO[bytes] | gzip.GzipFile
MAX_LENGTH = 10_000
"""Limit on the bytes of a word, and on the dimensions."""


def read_counts(stream: Stream) -> tuple[int, int]:
    """The numbers of words and of dimensions in the first line.

    Raises:
        ValueError: not two numbers, or more than MAX_LENGTH dimensions.
    """
    n, d = (int(x) for x in stream.readline(MAX_LENGTH).split())
    if not 0 < d <= MAX_LENGTH:
        raise ValueError(f"expected up to {MAX_LENGTH} dimensions, got {d}")
    return n, d


def iterate(stream: Stream, n: int, d: int) -> Iterator[tuple[bytes, bytes]]:
    """The words and the bytes of their vectors, after the first line.

    Raises:
        ValueError: the file ends before, or a word does not end.
    """
    for done in range(n):
        word = bytearray()
        while (byte := stream.read(1)) != b" ":
            if not byte:
                raise ValueError(f"ends after {done} of {n} words")
            word += byte
            if len(word) > MAX_LENGTH:
                raise ValueError(f"word {done + 1} does not end")
        values = stream.read(4 * d)
        if len(values) != 4 * d:
            raise ValueError(f"ends after {done} of {n} words")
        yield bytes(word), values
