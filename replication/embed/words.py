"""Word embeddings looked up in a table of static vectors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from isotropy.errors import IsotropyError
from replication.sources.formats import StaticVectors


def look_up(table: StaticVectors, words: Sequence[str]) -> np.ndarray:
    """Return the vectors of words, shape (n, d), float32; of a word that occurs in the table more
    than once, the first vector.

    Raises:
        IsotropyError: some words are not in the table.
    """
    rows: dict[str, int] = {}
    for row, word in enumerate(table.words):
        rows.setdefault(word, row)
    missing = [word for word in words if word not in rows]
    if missing:
        raise IsotropyError(
            f"{len(missing)} of {len(words)} words have no vector, the first is {missing[0]!r}"
        )
    return table.vectors[[rows[word] for word in words]]
