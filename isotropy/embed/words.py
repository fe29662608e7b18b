"""Embeddings of words: rows of a table of static vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.sources.vectors import StaticVectors


def look_up(table: StaticVectors, words: Sequence[str]) -> np.ndarray:
    """Vectors of words, shape (n, d), float32; a word that the table has twice gets its first
    vector.

    Raises:
        IsotropyError: words that the table does not have.
    """
    rows: dict[str, int] = {}
    for row, word in enumerate(table.words):
        rows.setdefault(word, row)
    missing = [word for word in words if word not in rows]
    if missing:
        raise IsotropyError(
            f"{len(missing)} of {len(words)} words have no vector, {missing[0]!r} first"
        )
    return table.vectors[[rows[word] for word in words]]
