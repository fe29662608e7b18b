"""Static word vectors, as readers give them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class StaticVectors(NamedTuple):
    """Word vectors: words in the file's order (most frequent first), vectors of shape (n_words, d),
    float32.
    """

    words: list[str]
    vectors: np.ndarray
