"""Make static word vectors from a layer, and evaluate them on word similarity benchmarks
(Ethayarajh 2019, section 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.metrics.contextuality import first_components
from replication.geometry.sentences import (
    Occurrences,
    Sentences,
    first_occurrences,
    occurrences,
    read_token_vectors,
    split_words,
)
from replication.geometry.spec import StaticWordsSpec
from replication.prepare.table import read_items, targets, text_rows
from replication.sources.formats import StaticVectors


class Benchmark(NamedTuple):
    """Pairs of words with human similarity scores.

    Attributes:
        pairs: lower-cased words, shape (n, 2).
        scores: human scores, shape (n,).
    """

    pairs: np.ndarray
    scores: np.ndarray


class StaticWords(NamedTuple):
    """A vector for each word, shape (W, d)."""

    words: list[str]
    vectors: np.ndarray


def read_benchmark(items: Path, texts: Path) -> Benchmark:
    """Read a prepared data set of word pairs with scores.

    Args:
        items: the table of items.
        texts: the table of texts.
    """
    table, dataset = read_items(items)
    strings = pd.read_parquet(texts)["text"].str.lower().to_numpy(dtype=str)
    return Benchmark(strings[text_rows(table)], targets(table, dataset).astype(np.float64))


def measure_layers(
    sentences: Sentences,
    folders: Sequence[Path],
    spec: StaticWordsSpec,
    tables: Mapping[str, StaticVectors],
    benchmarks: Mapping[str, Benchmark],
) -> pd.DataFrame:
    """Compute cosines of the benchmark pairs with static vectors from each layer and, for
    comparison, with given static vectors restricted to the same words.

    A word occurrence is represented by the mean of its pieces.

    Returns:
        The rows of `benchmark_cosines`, with a column `layer`, which is -1 for the given vectors.
    """
    words = split_words(sentences, "mean")
    parts = []
    table_vectors: dict[str, StaticWords] = {}
    for layer in spec.layers:
        vectors = read_token_vectors(sentences, folders, layer)
        layer_vectors = static_words(occurrences(vectors, words, "mean", "all"), spec.min_contexts)
        table_vectors = table_vectors or look_up_words(tables, layer_vectors["mean"].words)
        parts.append(
            benchmark_cosines(layer_vectors | table_vectors, benchmarks).assign(layer=layer)
        )
    rows = pd.concat(parts, ignore_index=True)
    from_tables = rows["vectors"].isin(list(table_vectors))
    in_first_layer = rows["layer"] == spec.layers[0]
    distinct_rows = rows[~from_tables | in_first_layer].reset_index(drop=True)
    return distinct_rows.assign(
        layer=distinct_rows["layer"].mask(distinct_rows["vectors"].isin(list(table_vectors)), -1)
    )


def static_words(cloud: Occurrences, min_contexts: int) -> dict[str, StaticWords]:
    """Make static vectors of all words that occur in enough sentences, lower-cased as in the paper.

    Returns:
        For each kind of static vector (the first component of the word's vectors about the origin,
        the same about their mean, and their mean), the vectors of the words.
    """
    names = pd.Series(cloud.words.names).str.lower()
    codes, lower = pd.factorize(names)
    types = codes[cloud.words.types]
    chosen = first_occurrences(cloud.words, min_contexts, types)
    word_types, vectors = types[chosen], cloud.vectors[chosen]
    type_ids, group, counts = np.unique(word_types, return_inverse=True, return_counts=True)
    order = np.argsort(group, kind="stable")
    starts = np.cumsum(counts) - counts
    means = np.add.reduceat(vectors[order].astype(np.float64), starts, axis=0) / counts[:, None]
    words = [str(lower[i]) for i in type_ids]
    return {
        "first component": StaticWords(words, first_components(vectors, word_types)),
        "first component, centred": StaticWords(
            words, first_components(vectors, word_types, centred=True)
        ),
        "mean": StaticWords(words, means),
    }


def look_up_words(tables: Mapping[str, StaticVectors], words: list[str]) -> dict[str, StaticWords]:
    """Look up words in each table of static vectors; words that a table lacks are left out."""
    by_table = {}
    for name, table in tables.items():
        wanted = set(words)
        rows: dict[str, int] = {}
        for row, word in enumerate(table.words):
            if word in wanted:
                rows.setdefault(word, row)
        by_table[name] = StaticWords(
            list(rows), table.vectors[list(rows.values())].astype(np.float64)
        )
    return by_table


def benchmark_cosines(
    statics: Mapping[str, StaticWords], benchmarks: Mapping[str, Benchmark]
) -> pd.DataFrame:
    """Compute the cosine of each benchmark pair with each kind of static vectors. A word without a
    vector gets the mean of all vectors, as in the authors' evaluation.

    Returns:
        A row per benchmark, kind of vectors and pair: benchmark, vectors, pair, first and second
        (numbers of its words), score, cosine, covered (whether all kinds of vectors have both
        words).
    """
    common = set.intersection(*(set(static.words) for static in statics.values()))
    parts = []
    for benchmark, (pairs, scores) in benchmarks.items():
        covered = np.array([first in common and second in common for first, second in pairs])
        first, second = pd.factorize(pairs.ravel())[0].reshape(-1, 2).T
        for name, static in statics.items():
            cosines = _cosines(static, pairs)
            pair_columns = {"benchmark": benchmark, "vectors": name, "pair": np.arange(len(pairs))}
            pair_columns |= {"first": first, "second": second}
            cosine_columns = {"score": scores, "cosine": cosines, "covered": covered}
            parts.append(pd.DataFrame(pair_columns | cosine_columns))
    return pd.concat(parts, ignore_index=True)


def _cosines(static: StaticWords, pairs: np.ndarray) -> np.ndarray:
    """Compute the cosine of each pair, shape (n,), rounded so that equal pairs have equal ranks."""
    row_by_word = {word: row for row, word in enumerate(static.words)}
    vectors = np.vstack([static.vectors, static.vectors.mean(axis=0)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    rows = np.array(
        [[row_by_word.get(word, len(row_by_word)) for word in pair] for pair in pairs.tolist()]
    )
    cosines: np.ndarray = np.round(np.einsum("ij,ij->i", units[rows[:, 0]], units[rows[:, 1]]), 12)
    return cosines
