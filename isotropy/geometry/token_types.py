"""Clouds of tokens or whole words of a corpus, and their types (Cai et al. 2021, section 2)."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.embed.layers import read_layer, read_tokens
from isotropy.errors import IsotropyError
from isotropy.geometry.spec import TypesName


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
