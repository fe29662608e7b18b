"""Static vectors of words, made from a layer, on benchmarks of word similarity (Ethayarajh 2019,
section 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.geometry.sentences import (
    Occurrences,
    Sentences,
    in_contexts,
    occurrences,
    read_vectors_of,
    split_words,
)
from isotropy.geometry.spec import StaticWordsSpec
from isotropy.metrics.contextuality import first_components
from isotropy.prepare.table import read_items, targets, text_rows
from isotropy.sources.vectors import StaticVectors


class Benchmark(NamedTuple):
    """Pairs of words with people's scores.

    Attributes:
        pairs: lower-cased, shape (n, 2).
        scores: shape (n,).
    """

    pairs: np.ndarray
    scores: np.ndarray


class StaticWords(NamedTuple):
    """A vector for each word, shape (W, d)."""

    words: list[str]
    vectors: np.ndarray


def read_benchmark(items: Path, texts: Path) -> Benchmark:
    """A prepared data set of pairs of words with scores."""
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
    """Cosines on benchmarks of static vectors from every layer, and of the tables, restricted to
    the same words (`benchmark_cosines`); `layer` is -1 for the tables.

    Words are means of their pieces.
    """
    words = split_words(sentences, "mean")
    parts = []
    known: dict[str, StaticWords] = {}
    for layer in spec.layers:
        vectors = read_vectors_of(sentences, folders, layer)
        own = static_words(occurrences(vectors, words, "mean", "all"), spec.min_contexts)
        known = known or looked_up(tables, own["mean"].words)
        parts.append(benchmark_cosines(own | known, benchmarks).assign(layer=layer))
    found = pd.concat(parts, ignore_index=True)
    of_tables = found["vectors"].isin(list(known))
    first = found["layer"] == spec.layers[0]
    kept = found[~of_tables | first].reset_index(drop=True)
    return kept.assign(layer=kept["layer"].mask(kept["vectors"].isin(list(known)), -1))


def static_words(cloud: Occurrences, min_contexts: int) -> dict[str, StaticWords]:
    """Static vectors of all words that stand in enough sentences, lower-cased as the authors' are:
    the first principal component about the origin and about the mean, and the mean.
    """
    names = pd.Series(cloud.words.names).str.lower()
    codes, lower = pd.factorize(names)
    types = codes[cloud.words.types]
    chosen = in_contexts(cloud.words, min_contexts, types)
    own, vectors = types[chosen], cloud.vectors[chosen]
    present, number, counts = np.unique(own, return_inverse=True, return_counts=True)
    order = np.argsort(number, kind="stable")
    starts = np.cumsum(counts) - counts
    means = np.add.reduceat(vectors[order].astype(np.float64), starts, axis=0) / counts[:, None]
    words = [str(lower[i]) for i in present]
    return {
        "first component": StaticWords(words, first_components(vectors, own)),
        "first component, centred": StaticWords(
            words, first_components(vectors, own, centred=True)
        ),
        "mean": StaticWords(words, means),
    }


def looked_up(tables: Mapping[str, StaticVectors], words: list[str]) -> dict[str, StaticWords]:
    """Vectors of the words that each table has, under its name."""
    found = {}
    for name, table in tables.items():
        wanted = set(words)
        rows: dict[str, int] = {}
        for row, word in enumerate(table.words):
            if word in wanted:
                rows.setdefault(word, row)
        found[name] = StaticWords(list(rows), table.vectors[list(rows.values())].astype(np.float64))
    return found


def benchmark_cosines(
    statics: Mapping[str, StaticWords], benchmarks: Mapping[str, Benchmark]
) -> pd.DataFrame:
    """Cosine of each pair with each kind of static vectors. A word without vector gets the mean of
    all, as in the authors' evaluation; `covered` pairs have both words in all kinds.

    Returns:
        a row per benchmark, kind of vectors and pair: benchmark, vectors, pair, score, cosine,
        covered.
    """
    common = set.intersection(*(set(static.words) for static in statics.values()))
    parts = []
    for benchmark, (pairs, scores) in benchmarks.items():
        covered = np.array([first in common and second in common for first, second in pairs])
        for name, static in statics.items():
            cosines = _cosines(static, pairs)
            known = {"benchmark": benchmark, "vectors": name, "pair": np.arange(len(pairs))}
            own = {"score": scores, "cosine": cosines, "covered": covered}
            parts.append(pd.DataFrame(known | own))
    return pd.concat(parts, ignore_index=True)


def _cosines(static: StaticWords, pairs: np.ndarray) -> np.ndarray:
    """Cosine of each pair, shape (n,); rounded, so that equal pairs have equal ranks."""
    row_of = {word: row for row, word in enumerate(static.words)}
    vectors = np.vstack([static.vectors, static.vectors.mean(axis=0)])
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(norms > 0, norms, 1)
    rows = np.array([[row_of.get(word, len(row_of)) for word in pair] for pair in pairs.tolist()])
    found: np.ndarray = np.round(np.einsum("ij,ij->i", units[rows[:, 0]], units[rows[:, 1]]), 12)
    return found
