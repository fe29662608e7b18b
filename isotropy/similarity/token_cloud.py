"""Clouds of token or word vectors, and the sentences and pairs that they make."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.embed.layers import read_layer, read_tokens, token_rows
from isotropy.errors import IsotropyError
from isotropy.prepare.table import Dataset, text_rows
from isotropy.similarity.spec import DroppedTokens
from isotropy.sources.vectors import StaticVectors


class SentenceCloud(NamedTuple):
    """A cloud and the sentences in it.

    Attributes:
        vectors: shape (n, d), float32: one row per token, or per word of a vocabulary.
        rows: rows of the cloud that make the sentences, one sentence after the other; None: all
            rows, in order.
        starts: where each sentence starts in `rows`, and the end of the last; shape (m + 1,).
        pairs: sentences of each pair, shape (p, 2); empty where there are none.
        scores: how similar people find them, shape (p,).
        n_pairs_all: pairs of the data set, also those that have no vectors.
        types: number of the word piece or word of each row, shape (n,).
        names: text of each type, by number.
    """

    vectors: np.ndarray
    rows: np.ndarray | None
    starts: np.ndarray
    pairs: np.ndarray
    scores: np.ndarray
    n_pairs_all: int
    types: np.ndarray
    names: list[str]

    def sentences(self, vectors: np.ndarray) -> np.ndarray:
        """Mean of the vectors of each sentence, shape (m, d), for a cloud of the same rows."""
        chosen = vectors if self.rows is None else vectors[self.rows]
        lengths = np.diff(self.starts)
        sums: np.ndarray = np.add.reduceat(chosen, self.starts[:-1], axis=0)
        sums /= lengths[:, None]
        return sums


def token_cloud(
    items: pd.DataFrame,
    dataset: Dataset,
    folder: Path,
    layer: int,
    dropped: DroppedTokens,
    *,
    repeat_texts: bool,
) -> SentenceCloud:
    """The tokens of all texts of a data set in one layer.

    Args:
        items: the table of items.
        dataset: its description.
        folder: token vectors (`isotropy.embed.layers`).
        layer: which layer.
        dropped: tokens that do not count; a text that would have none left keeps all of its own.
        repeat_texts: whether a text counts as often as it occurs.

    Raises:
        IsotropyError: no tokens.
    """
    tokens = read_tokens(folder)
    kept = _kept(tokens, dropped)
    if not kept.any():
        raise IsotropyError(f"{folder.name}: no tokens")
    vectors = read_layer(folder, layer)
    of_items = text_rows(items)
    n_texts = int(of_items.max()) + 1
    lengths = np.bincount(tokens["text"][kept], minlength=n_texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chosen = of_items.ravel() if repeat_texts else np.arange(n_texts)
    rows = np.flatnonzero(kept)[token_rows(offsets, chosen)]
    starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
    if (np.diff(starts) == 0).any():
        raise IsotropyError(f"{folder.name}: a text without a token")
    paired = dataset.task == "regression" and of_items.shape[1] == 2
    pairs = np.arange(of_items.size).reshape(of_items.shape) if repeat_texts else of_items
    pieces = tokens["piece"].astype("category").cat
    return SentenceCloud(
        vectors=vectors[rows],
        rows=None,
        starts=starts,
        pairs=pairs if paired else np.empty((0, 2), dtype=np.int64),
        scores=_scores(items) if paired else np.empty(0),
        n_pairs_all=len(items) if paired else 0,
        types=pieces.codes.to_numpy()[rows].astype(np.int64),
        names=[str(name) for name in pieces.categories],
    )


def word_cloud(items: pd.DataFrame, texts: list[str], table: StaticVectors) -> SentenceCloud:
    """The whole vocabulary of static vectors; a pair counts if it has both words, as they are or in
    lower case.

    Raises:
        IsotropyError: fewer than three pairs.
    """
    known = {word: row for row, word in reversed(list(enumerate(table.words)))}
    row_of = np.array([known.get(text, known.get(text.lower(), -1)) for text in texts])
    of_items = row_of[text_rows(items)]
    whole = (of_items >= 0).all(axis=1)
    if of_items.shape[1] != 2 or whole.sum() < 3:
        raise IsotropyError(f"{int(whole.sum())} pairs of words have vectors")
    return SentenceCloud(
        vectors=table.vectors,
        rows=of_items[whole].ravel(),
        starts=np.arange(2 * int(whole.sum()) + 1),
        pairs=np.arange(2 * int(whole.sum())).reshape(-1, 2),
        scores=_scores(items)[whole],
        n_pairs_all=len(items),
        types=np.arange(len(table.words)),
        names=table.words,
    )


def _kept(tokens: pd.DataFrame, dropped: DroppedTokens) -> np.ndarray:
    if dropped == "special":
        kept = ~tokens["special"].to_numpy()
    elif dropped == "first-and-last":
        last = tokens.groupby("text")["position"].transform("max")
        kept = ((tokens["position"] > 0) & (tokens["position"] < last)).to_numpy()
    else:
        kept = np.ones(len(tokens), dtype=bool)
    empty = ~pd.Series(kept).groupby(tokens["text"].to_numpy()).transform("any").to_numpy()
    result: np.ndarray = kept | empty
    return result


def _scores(items: pd.DataFrame) -> np.ndarray:
    return np.array([labels[0] for labels in items["labels"]], dtype=np.float64)
