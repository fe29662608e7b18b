"""Clouds of token or word vectors, with the sentences that they form and the pairs of these."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.errors import IsotropyError
from replication.embed.layers import read_layer, read_tokens, token_rows
from replication.prepare.table import Dataset, read_items, targets, text_rows
from replication.similarity.spec import DroppedTokens, SimilaritySpec, TuningSpec
from replication.sources.formats import StaticVectors, read_vectors
from replication.sources.spec import read_fetched


class SentenceCloud(NamedTuple):
    """A cloud and the sentences in it.

    Attributes:
        vectors: shape (n, d), float32: one row per token, or per word of a vocabulary.
        rows: rows of the cloud that form the sentences, one sentence after the other; None: all
            rows, in order.
        starts: index in `rows` where each sentence starts, and the end of the last; shape (m + 1,).
        pairs: indices of the two sentences of each pair, shape (p, 2); empty if there are none.
        texts: numbers of the texts of each pair, which are equal for equal texts, shape (p, 2).
        scores: human similarity score of each pair, shape (p,).
        n_pairs_all: number of pairs of the data set, including those without vectors.
        types: type number (of a word piece or word) of each row, shape (n,).
        names: text of each type, by type number.
    """

    vectors: np.ndarray
    rows: np.ndarray | None
    starts: np.ndarray
    pairs: np.ndarray
    texts: np.ndarray
    scores: np.ndarray
    n_pairs_all: int
    types: np.ndarray
    names: list[str]

    def sentences(self, vectors: np.ndarray) -> np.ndarray:
        """Compute the mean vector of each sentence, shape (m, d).

        Args:
            vectors: vectors for the rows of this cloud, shape (n, d), such as after a transform.
        """
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
    """Read the tokens of all texts of a data set in one layer.

    Args:
        items: the table of items.
        dataset: description of the data set.
        folder: folder of the token vectors (`replication.embed.layers`).
        layer: number of the layer.
        dropped: tokens to leave out; a text that would lose all its tokens keeps them all.
        repeat_texts: whether a text counts as often as it occurs.

    Raises:
        IsotropyError: there are no tokens, or a text has none.
    """
    tokens = read_tokens(folder)
    is_kept = _kept_tokens(tokens, dropped)
    if not is_kept.any():
        raise IsotropyError(f"{folder.name}: no tokens")
    vectors = read_layer(folder, layer)
    item_texts = text_rows(items)
    n_texts = int(item_texts.max()) + 1
    lengths = np.bincount(tokens["text"][is_kept], minlength=n_texts)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    chosen = item_texts.ravel() if repeat_texts else np.arange(n_texts)
    rows = np.flatnonzero(is_kept)[token_rows(offsets, chosen)]
    starts = np.concatenate([[0], np.cumsum(lengths[chosen])])
    if (np.diff(starts) == 0).any():
        raise IsotropyError(f"{folder.name}: a text without a token")
    paired = dataset.task == "regression" and item_texts.shape[1] == 2
    pairs = np.arange(item_texts.size).reshape(item_texts.shape) if repeat_texts else item_texts
    pieces = tokens["piece"].astype("category").cat
    return SentenceCloud(
        vectors=vectors[rows],
        rows=None,
        starts=starts,
        pairs=pairs if paired else np.empty((0, 2), dtype=np.int64),
        texts=item_texts if paired else np.empty((0, 2), dtype=np.int64),
        scores=_scores(items) if paired else np.empty(0),
        n_pairs_all=len(items) if paired else 0,
        types=pieces.codes.to_numpy()[rows].astype(np.int64),
        names=[str(name) for name in pieces.categories],
    )


def word_cloud(items: pd.DataFrame, texts: list[str], table: StaticVectors) -> SentenceCloud:
    """Make a cloud of the whole vocabulary of static vectors; a pair is evaluated if both words are
    in the vocabulary, as spelt or in lower case.

    Raises:
        IsotropyError: fewer than three pairs of words have vectors.
    """
    row_by_word = {word: row for row, word in reversed(list(enumerate(table.words)))}
    text_rows_in_cloud = np.array(
        [row_by_word.get(text, row_by_word.get(text.lower(), -1)) for text in texts]
    )
    item_rows = text_rows_in_cloud[text_rows(items)]
    has_vectors = (item_rows >= 0).all(axis=1)
    if item_rows.shape[1] != 2 or has_vectors.sum() < 3:
        raise IsotropyError(f"expected 3 pairs of words with vectors, got {int(has_vectors.sum())}")
    return SentenceCloud(
        vectors=table.vectors,
        rows=item_rows[has_vectors].ravel(),
        starts=np.arange(2 * int(has_vectors.sum()) + 1),
        pairs=np.arange(2 * int(has_vectors.sum())).reshape(-1, 2),
        texts=item_rows[has_vectors],
        scores=_scores(items)[has_vectors],
        n_pairs_all=len(items),
        types=np.arange(len(table.words)),
        names=table.words,
    )


def _kept_tokens(tokens: pd.DataFrame, dropped: DroppedTokens) -> np.ndarray:
    if dropped == "special":
        keep = ~tokens["special"].to_numpy()
    elif dropped == "first-and-last":
        last = tokens.groupby("text")["position"].transform("max")
        keep = ((tokens["position"] > 0) & (tokens["position"] < last)).to_numpy()
    else:
        keep = np.ones(len(tokens), dtype=bool)
    empty = ~pd.Series(keep).groupby(tokens["text"].to_numpy()).transform("any").to_numpy()
    result: np.ndarray = keep | empty
    return result


def _scores(items: pd.DataFrame) -> np.ndarray:
    return np.array([labels[0] for labels in items["labels"]], dtype=np.float64)


def read_cloud(spec: SimilaritySpec | TuningSpec, inputs: dict[str, Path]) -> SentenceCloud:
    """Read the cloud of a data set: its tokens in a layer, or a vocabulary of word vectors.

    Args:
        spec: the spec of the job.
        inputs: input paths by name: `dataset`, and either `tokens` or both `texts` and
            `vectors_source`.
    """
    items, dataset = read_items(inputs["dataset"])
    if spec.layer is not None:
        return token_cloud(
            items,
            dataset,
            inputs["tokens"],
            spec.layer,
            spec.drop_tokens,
            repeat_texts=spec.repeat_texts,
        )
    source = inputs["vectors_source"]
    texts = list(pd.read_parquet(inputs["texts"])["text"])
    return word_cloud(items, texts, read_vectors(read_fetched(source).content, source))


def read_columns(
    texts: Path, items: Path, max_items: int | None
) -> tuple[list[list[str]], np.ndarray, int]:
    """Read items with classes.

    Args:
        texts: the table of texts.
        items: the table of items.
        max_items: maximum number of items; a larger table is sampled with a fixed seed. None: all.

    Returns:
        One list with the first text of each item and, for pairs, another with the second; the
        class of each item; and the number of items before sampling.
    """
    strings = list(pd.read_parquet(texts)["text"])
    table, dataset = read_items(items)
    n_all = len(table)
    if max_items is not None and max_items < n_all:
        chosen = np.random.default_rng(0).choice(n_all, max_items, replace=False)
        table = table.iloc[np.sort(chosen)].reset_index(drop=True)
    return (
        [[strings[i] for i in column] for column in text_rows(table).T],
        targets(table, dataset),
        n_all,
    )
