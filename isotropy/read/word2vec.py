"""Read the vectors of word2vec's binary format: a line `n d`, then per word its bytes, a blank, and
d little-endian float32.
"""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.read.clouds import StoredArray
from isotropy.read.word2vec_header import iterate, read_counts


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
