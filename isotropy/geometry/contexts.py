"""How contextual a layer is: self-similarity, intra-sentence similarity, explainable variance, each
with its baseline; dimensions (Ethayarajh 2019; Timkey & van Schijndel 2021).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

from isotropy.geometry.sentences import (
    Occurrences,
    Sentences,
    in_contexts,
    occurrences,
    split_words,
)
from isotropy.geometry.spec import ContextsSpec
from isotropy.metrics.contextuality import (
    ExplainableVariance,
    SelfSimilarity,
    cosine_between,
    cosine_contributions,
    explainable_variance,
    intra_sentence_null,
    intra_sentence_similarity,
    self_similarity,
)
from isotropy.metrics.cosines import mean_cosine

WITHOUT = (1, 3, 5)
"""Numbers of largest dimensions that are left out (Timkey & van Schijndel 2021, section 4)."""
LARGEST = 10
"""Dimensions in the table of dimensions."""


class Contexts(NamedTuple):
    """The tables of a layer.

    Attributes:
        rows: a row per unit and variant: each quantity, with `_error`, its standard error, where it
            has one (`measure`).
        words: a row per word, of the spec's unit and all words (`OfWords`).
        dimensions: the dimensions that contribute most to the mean cosine, per variant.
        d: dimensions.
    """

    rows: pd.DataFrame
    words: pd.DataFrame
    dimensions: pd.DataFrame
    d: int


def measure_contexts(sentences: Sentences, vectors: np.ndarray, spec: ContextsSpec) -> Contexts:
    """Every unit with all words, and the spec's unit with every variant.

    Args:
        sentences: of all data sets.
        vectors: of their tokens in a layer, shape (n, d).
        spec: what is measured.
    """
    rows, dimensions, words = [], [], pd.DataFrame()
    for unit in spec.units:
        split = split_words(sentences, unit)
        for variant in spec.variants if unit == spec.unit else spec.variants[:1]:
            cloud = occurrences(vectors, split, unit, variant)
            key = {"unit": unit, "variant": variant}
            of_words = measure_words(cloud, spec.min_contexts)
            rows.append(key | measure(cloud, of_words, spec))
            if unit == spec.unit:
                largest = of_dimensions(cloud.vectors)
                rows[-1] |= largest.scores
                dimensions.append(largest.table.assign(variant=variant))
                if variant == spec.variants[0]:
                    words = of_words.table(split.names)
    return Contexts(pd.DataFrame(rows), words, pd.concat(dimensions), vectors.shape[1])


class OfWords(NamedTuple):
    """What is known of each word that stands in enough sentences, in the order of its type.

    Attributes:
        chosen: the occurrences that count.
        types: the type of each.
        similarity, shares: of each word.
    """

    chosen: np.ndarray
    types: np.ndarray
    similarity: SelfSimilarity
    shares: ExplainableVariance

    def table(self, names: np.ndarray) -> pd.DataFrame:
        """A row per word: name, n, self_similarity, mev_….

        Args:
            names: of all types.
        """
        columns = {f"mev_{name}": values for name, values in self.shares._asdict().items()}
        known = {"name": names[np.unique(self.types)], "n": self.similarity.counts}
        return pd.DataFrame(known | {"self_similarity": self.similarity.values} | columns)


def measure_words(cloud: Occurrences, min_contexts: int) -> OfWords:
    """Self-similarity and explainable variance of each word."""
    chosen = in_contexts(cloud.words, min_contexts)
    types, vectors = cloud.words.types[chosen], cloud.vectors[chosen]
    shares = explainable_variance(vectors, types)
    return OfWords(chosen, types, self_similarity(vectors, types), shares)


def measure(cloud: Occurrences, words: OfWords, spec: ContextsSpec) -> dict[str, float]:
    """All scores of a cloud.

    Returns:
        n_sentences, n_tokens, n_words, n_occurrences. baseline_cosine: of tokens of different
        sentences. self_similarity: mean over words. intra: mean over sentences of two tokens or
        more; intra_null, of the same lengths with all tokens shuffled; intra_formula
        (`intra_sentence_null`); and the same with leave-one-out, intra_loo. mev_ and an estimate
        (`ExplainableVariance`): mean over words; with _baseline, of random tokens, one of a
        sentence each, mean over draws; _matched, of random tokens as many as the word has; _excess,
        over these; _below, the share of words below the baseline. An error is over words, sentences
        or draws.
    """
    n, n_chosen = len(cloud.words.types), len(words.chosen)
    baseline = cosine_between(cloud.vectors, cloud.words.sentences)
    scores = {
        "n_sentences": len(np.unique(cloud.words.sentences)),
        "n_tokens": n,
        "n_words": len(words.similarity.counts),
        "n_occurrences": n_chosen,
        "baseline_cosine": baseline.value,
        "baseline_cosine_error": baseline.error,
        **_mean("self_similarity", words.similarity.values),
        **_of_sentences(cloud, baseline.value, spec.seed),
    }
    shuffled = np.random.default_rng([spec.seed, 1]).permutation(n)[:n_chosen]
    matched = explainable_variance(cloud.vectors[shuffled], words.types)
    drawn = _baselines(cloud, spec)
    for name, own, base, other in zip(
        ExplainableVariance._fields, words.shares, drawn, matched, strict=True
    ):
        scores |= _mean(f"mev_{name}", own)
        scores |= _mean(f"mev_{name}_baseline", base)
        scores |= _mean(f"mev_{name}_matched", other)
        scores |= _mean(f"mev_{name}_excess", own - other)
        scores[f"mev_{name}_below"] = float(np.mean(own[~np.isnan(own)] < base.mean()))
    return scores


def _of_sentences(cloud: Occurrences, cosine: float, seed: int) -> dict[str, float]:
    """Intra-sentence similarity of sentences of two tokens or more, with what it is without any
    likeness.
    """
    numbers, lengths = np.unique(cloud.words.sentences, return_counts=True)
    kept = np.isin(cloud.words.sentences, numbers[lengths > 1])
    vectors, sentences = cloud.vectors[kept], cloud.words.sentences[kept]
    shuffled = vectors[np.random.default_rng([seed, 0]).permutation(len(vectors))]
    known = lengths[lengths > 1]
    scores: dict[str, float] = {}
    both = zip(
        ("intra", "intra_loo"),
        intra_sentence_similarity(vectors, sentences),
        intra_sentence_similarity(shuffled, sentences),
        strict=True,
    )
    for name, own, null in both:
        formula = intra_sentence_null(known, max(cosine, 0), leave_one_out=name == "intra_loo")
        scores |= _mean(name, own) | _mean(f"{name}_null", null)
        scores |= _mean(f"{name}_excess", own - null)
        scores[f"{name}_formula"] = float(formula.mean())
    return scores


def _baselines(cloud: Occurrences, spec: ContextsSpec) -> ExplainableVariance:
    """Shares of the first component of random tokens, one of each of random sentences: a value per
    draw.
    """
    numbers, starts, counts = np.unique(
        cloud.words.sentences, return_index=True, return_counts=True
    )
    draws = np.random.default_rng([spec.seed, 2])
    found = []
    for _ in range(spec.n_draws):
        chosen = np.sort(draws.permutation(len(numbers))[: spec.n_baseline])
        rows = starts[chosen] + draws.integers(counts[chosen])
        found.append(explainable_variance(cloud.vectors[rows]))
    return ExplainableVariance(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def _mean(name: str, values: np.ndarray) -> dict[str, float]:
    """Mean of the known values, and its standard error; NaN without any."""
    known = values[~np.isnan(values)]
    n = len(known)
    error = float(known.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return {name: float(known.mean()) if n else math.nan, f"{name}_error": error}


class Dimensions(NamedTuple):
    """What single dimensions contribute to the mean cosine over all pairs of tokens.

    Attributes:
        scores: mean_cosine, mean_cosine_without_1, …: without the largest.
        table: the largest, by rank: dimension, contribution, share.
    """

    scores: dict[str, float]
    table: pd.DataFrame


def of_dimensions(vectors: np.ndarray) -> Dimensions:
    """The dimensions that contribute most to the mean cosine of vectors, shape (n, d)."""
    contributions = cosine_contributions(vectors)
    order = np.argsort(-contributions, kind="stable")
    total = float(contributions.sum())
    scores = {"mean_cosine": total}
    for k in WITHOUT:
        if k < vectors.shape[1]:
            left = np.take(vectors, np.sort(order[k:]), axis=1)
            scores[f"mean_cosine_without_{k}"] = mean_cosine(left)
    largest = order[:LARGEST]
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(largest) + 1),
            "dimension": largest,
            "contribution": contributions[largest],
            "share": contributions[largest] / total,
        }
    )
    return Dimensions(scores, table)
