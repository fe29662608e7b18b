"""Clouds of tokens or whole words of a corpus, and their types (Cai et al. 2021, section 2)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.embed.layers import read_layer, read_tokens
from isotropy.errors import IsotropyError
from isotropy.geometry.spec import TypesName, Variant
from isotropy.metrics.matmul import ROWS_PER_BLOCK

MASSIVE, MASSIVE_RATIO = 100, 1000
"""A massive activation is larger than both: MASSIVE, and MASSIVE_RATIO times the median (Sun et al.
2024, section 2)."""
_FOR_MEDIAN = 5000  # tokens; all would cost as much memory as the layer


class TypedCloud(NamedTuple):
    """Vectors, each of a type.

    Attributes:
        vectors: shape (n, d), float32.
        types: number of the type of each vector, shape (n,).
        names: text of each type, by number.
        positions: of each vector, or of its first piece, in its window; shape (n,).
        kinds: `special`, `symbol` or `word`, shape (n,).
    """

    vectors: np.ndarray
    types: np.ndarray
    names: np.ndarray
    positions: np.ndarray
    kinds: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """How often the type of each vector occurs, shape (n,)."""
        counts: np.ndarray = np.bincount(self.types)[self.types]
        return counts


def read_typed(folder: Path, layer: int, window: int, types: TypesName) -> TypedCloud:
    """All tokens of a layer, special tokens included (as the authors), or all words.

    Args:
        folder: token vectors (`isotropy.embed.layers`).
        layer: which layer.
        window: tokens of a window.
        types: subwords: a type is an entry of the vocabulary. words: a vector is the mean of the
            pieces that a word between blanks has in one window, and a type is a sequence of pieces;
            special tokens are left out.

    Raises:
        IsotropyError: no words.
    """
    tokens, vectors = read_tokens(folder), read_layer(folder, layer)
    positions = np.arange(len(tokens)) % window
    kinds = np.where(tokens["special"], "special", np.where(tokens["symbol"], "symbol", "word"))
    pieces = tokens["piece"].astype("category").cat
    if types == "subwords":
        codes = pieces.codes.to_numpy().astype(np.int64)
        return TypedCloud(vectors, codes, np.array(pieces.categories, dtype=str), positions, kinds)
    word, text = tokens["word"].to_numpy(), tokens["text"].to_numpy()
    kept = np.flatnonzero(word >= 0)
    if not len(kept):
        raise IsotropyError(f"{folder.name}: no words")
    place = np.stack([np.arange(len(tokens)) // window, text, word])[:, kept]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(place) != 0).any(axis=0)]))
    lengths = np.diff(np.append(starts, len(kept)))
    means = np.add.reduceat(vectors[kept], starts, axis=0) / lengths[:, None].astype(vectors.dtype)
    ids, names = tokens["id"].to_numpy()[kept], tokens["piece"].astype(str).to_numpy()[kept]
    runs = [slice(a, a + n) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    codes, _ = pd.factorize(pd.Series([tuple(ids[run].tolist()) for run in runs], dtype=object))
    first = np.unique(codes, return_index=True)[1]
    named = np.array([" ".join(names[runs[i]]) for i in first.tolist()])
    symbol = np.minimum.reduceat((kinds[kept] == "symbol").astype(int), starts).astype(bool)
    return TypedCloud(
        means, codes, named, positions[kept][starts], np.where(symbol, "symbol", "word")
    )


def varied(cloud: TypedCloud, variant: Variant) -> TypedCloud:
    """A variant of a cloud.

    Raises:
        IsotropyError: no tokens are left.
    """
    if variant == "standardized":
        return cloud._replace(vectors=standardized(cloud.vectors))
    if variant == "no-first":
        kept = cloud.positions > 0
    elif variant == "no-massive":
        kept = ~is_massive(cloud.vectors)
    else:
        return cloud
    if not kept.any():
        raise IsotropyError(f"variant {variant}: no tokens are left")
    present, types = np.unique(cloud.types[kept], return_inverse=True)
    return TypedCloud(
        cloud.vectors[kept], types, cloud.names[present], cloud.positions[kept], cloud.kinds[kept]
    )


def standardized(vectors: np.ndarray) -> np.ndarray:
    """Each dimension with mean 0 and variance 1, shape (n, d) as before; one that does not vary
    becomes 0.

    Source:
        Timkey & van Schijndel (2021), section 5.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    scaled: np.ndarray = vectors - mean.astype(vectors.dtype)
    squares = np.zeros(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_PER_BLOCK):  # a copy in doubles takes twice the layer
        block = scaled[start : start + ROWS_PER_BLOCK].astype(np.float64)
        squares += np.einsum("ij,ij->j", block, block)
    sd = np.sqrt(squares / len(vectors))
    scaled /= np.where(sd > 0, sd, 1).astype(vectors.dtype)
    return scaled


def is_massive(vectors: np.ndarray) -> np.ndarray:
    """Whether a token has a massive activation: a coordinate larger in size than 100, and than
    1,000 times the median of the layer.

    Args:
        vectors: of a layer, shape (n, d).

    Returns:
        shape (n,), bool.

    Source:
        Sun, Chen, Kolter & Liu (2024), Massive Activations in Large Language Models, section 2. The
        median is that of 5,000 tokens, drawn, where there are more.
    """
    drawn = np.random.default_rng(0).permutation(len(vectors))[:_FOR_MEDIAN]
    median = float(np.median(np.abs(vectors[np.sort(drawn)])))
    largest: np.ndarray = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    return largest > max(MASSIVE, MASSIVE_RATIO * median)
