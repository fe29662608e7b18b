"""Clouds of tokens or whole words of a corpus, and their types (Cai et al. 2021, section 2)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from isotropy.metrics.matmul import ROWS_PER_BLOCK
from replication.embed.layers import read_layer, read_tokens
from replication.geometry.spec import TypesName, Variant

MASSIVE_MIN, MASSIVE_RATIO = 100, 1000
"""An activation is massive if its magnitude exceeds both MASSIVE_MIN and MASSIVE_RATIO times the
median magnitude of the layer (Sun et al. 2024, section 2)."""
_MEDIAN_SAMPLE_SIZE = 5000  # tokens: a median of all would need as much memory as the layer


class TypedCloud(NamedTuple):
    """Token or word vectors with their types.

    Attributes:
        vectors: shape (n, d), float32.
        types: type number of each vector, shape (n,).
        names: text of each type, by type number.
        positions: position of each token, or of the first piece of each word, in its window;
            shape (n,).
        kinds: kind of each token: `special`, `symbol` or `word`, shape (n,).
    """

    vectors: np.ndarray
    types: np.ndarray
    names: np.ndarray
    positions: np.ndarray
    kinds: np.ndarray

    @property
    def frequencies(self) -> np.ndarray:
        """Number of occurrences of the type of each vector, shape (n,)."""
        counts: np.ndarray = np.bincount(self.types)[self.types]
        return counts


def read_typed_cloud(folder: Path, layer: int, window: int, types: TypesName) -> TypedCloud:
    """Read all tokens of a layer, including special tokens (as in the paper), or all words.

    Args:
        folder: folder of the token vectors (`replication.embed.layers`).
        layer: number of the layer.
        window: number of tokens per window.
        types: subwords: a type is an entry of the vocabulary. words: a vector is the mean of the
            pieces of a word between blanks within one window, and a type is a sequence of pieces;
            special tokens are left out.

    Raises:
        IsotropyError: the layer has no words.
    """
    tokens, vectors = read_tokens(folder), read_layer(folder, layer)
    positions = np.arange(len(tokens)) % window
    kinds = np.where(tokens["special"], "special", np.where(tokens["symbol"], "symbol", "word"))
    pieces = tokens["piece"].astype("category").cat
    if types == "subwords":
        codes = pieces.codes.to_numpy().astype(np.int64)
        return TypedCloud(vectors, codes, np.array(pieces.categories, dtype=str), positions, kinds)
    word, text = tokens["word"].to_numpy(), tokens["text"].to_numpy()
    word_tokens = np.flatnonzero(word >= 0)
    if not len(word_tokens):
        raise IsotropyError(f"{folder.name}: no words")
    word_keys = np.stack([np.arange(len(tokens)) // window, text, word])[:, word_tokens]
    starts = np.flatnonzero(np.concatenate([[True], (np.diff(word_keys) != 0).any(axis=0)]))
    lengths = np.diff(np.append(starts, len(word_tokens)))
    means = np.add.reduceat(vectors[word_tokens], starts, axis=0) / lengths[:, None].astype(
        vectors.dtype
    )
    ids, names = (
        tokens["id"].to_numpy()[word_tokens],
        tokens["piece"].astype(str).to_numpy()[word_tokens],
    )
    runs = [slice(a, a + n) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    codes, _ = pd.factorize(pd.Series([tuple(ids[run].tolist()) for run in runs], dtype=object))
    first = np.unique(codes, return_index=True)[1]
    type_names = np.array([" ".join(names[runs[i]]) for i in first.tolist()])
    symbol = np.minimum.reduceat((kinds[word_tokens] == "symbol").astype(int), starts).astype(bool)
    return TypedCloud(
        means, codes, type_names, positions[word_tokens][starts], np.where(symbol, "symbol", "word")
    )


def varied(cloud: TypedCloud, variant: Variant) -> TypedCloud:
    """Select or transform the tokens of a cloud as a variant asks.

    Raises:
        IsotropyError: the variant leaves no tokens.
    """
    if variant == "standardized":
        return cloud._replace(vectors=standardized(cloud.vectors))
    if variant == "no-first":
        keep = cloud.positions > 0
    elif variant == "no-massive":
        keep = ~is_massive(cloud.vectors)
    else:
        return cloud
    if not keep.any():
        raise IsotropyError(f"variant {variant}: no tokens are left")
    kept_types, types = np.unique(cloud.types[keep], return_inverse=True)
    return TypedCloud(
        cloud.vectors[keep],
        types,
        cloud.names[kept_types],
        cloud.positions[keep],
        cloud.kinds[keep],
    )


def standardized(vectors: np.ndarray) -> np.ndarray:
    """Scale each dimension to mean 0 and variance 1; a constant dimension becomes 0.

    Source:
        Timkey & van Schijndel (2021), section 5.
    """
    mean = vectors.mean(axis=0, dtype=np.float64)
    scaled: np.ndarray = vectors - mean.astype(vectors.dtype)
    squares = np.zeros(vectors.shape[1])
    for start in range(0, len(vectors), ROWS_PER_BLOCK):  # a full float64 copy is twice as large
        block = scaled[start : start + ROWS_PER_BLOCK].astype(np.float64)
        squares += np.einsum("ij,ij->j", block, block)
    sd = np.sqrt(squares / len(vectors))
    scaled /= np.where(sd > 0, sd, 1).astype(vectors.dtype)
    return scaled


def is_massive(vectors: np.ndarray) -> np.ndarray:
    """Return which tokens have a massive activation: a coordinate whose magnitude exceeds 100 and
    1,000 times the median magnitude of the layer.

    Args:
        vectors: token vectors of a layer, shape (n, d).

    Returns:
        Booleans, shape (n,).

    Source:
        Sun, Chen, Kolter & Liu (2024), Massive Activations in Large Language Models, section 2. In
        larger layers the median is estimated from a random sample of 5,000 tokens.
    """
    sampled = np.random.default_rng(0).permutation(len(vectors))[:_MEDIAN_SAMPLE_SIZE]
    median = float(np.median(np.abs(vectors[np.sort(sampled)])))
    largest: np.ndarray = np.maximum(vectors.max(axis=1), -vectors.min(axis=1))
    return largest > max(MASSIVE_MIN, MASSIVE_RATIO * median)
