"""Read word2vec's binary format: a line `n d`, then per word its bytes, a blank, and
d little-endian float32.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.read.clouds import StoredArray

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


def read_word2vec(path: Path, target: Path, title: str) -> StoredArray:
    """Convert the vectors to a binary array in the file `target`. Words may be any bytes.

    Args:
        path: the file.
        target: where the vectors are written, float32.
        title: name of the file in messages.

    Raises:
        IsotropyError: another format, fewer words than the first line promises, or more bytes.
    """
    with path.open("rb") as stream:
        if not re.fullmatch(rb"\s*\d{1,12}\s+\d{1,5}\s*", stream.readline(100)):
            raise IsotropyError(
                f"{title}: expected word2vec's binary format, which begins with a line of two "
                "numbers; other .bin files may hold pickled code, which is never run: save the "
                "vectors with numpy.save or safetensors.numpy.save_file"
            )
        stream.seek(0)
        n, d = read_counts(stream)
        with target.open("wb") as file:
            for _, values in iterate(stream, n, d):
                file.write(values)
        if stream.read().strip(b"\n"):
            raise IsotropyError(
                f"{title}: line 1 promises {n} vectors of {d} numbers, but the file goes on: "
                "correct it"
            )
    return StoredArray(target, np.dtype("<f4"), 0, (n, d))
