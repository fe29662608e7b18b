"""Measure how contextual a layer is: self-similarity, intra-sentence similarity and maximum
explainable variance, each with its baseline, and the dimensions that dominate the mean cosine
(Ethayarajh 2019; Timkey & van Schijndel 2021).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pandas as pd

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
from replication.geometry.sentences import (
    Occurrences,
    Sentences,
    first_occurrences,
    occurrences,
    split_words,
)
from replication.geometry.spec import ContextsSpec

N_DIMENSIONS_LEFT_OUT = (1, 3, 5)
"""Numbers of dominant dimensions to leave out (Timkey & van Schijndel 2021, section 4)."""
N_DIMENSIONS_LISTED = 10
"""Number of dimensions listed in the table of dimensions."""


class Contexts(NamedTuple):
    """The result tables of a layer.

    Attributes:
        rows: a row per unit and variant, with each quantity and, in a column that ends in `_error`,
            its standard error where it has one (`measure`).
        words: a row per word, for the spec's unit and the variant `all`
            (`WordMeasures.table`).
        dimensions: the dimensions that contribute most to the mean cosine, per variant.
        d: number of dimensions of the vectors.
    """

    rows: pd.DataFrame
    words: pd.DataFrame
    dimensions: pd.DataFrame
    d: int


def measure_contexts(sentences: Sentences, vectors: np.ndarray, spec: ContextsSpec) -> Contexts:
    """Measure each unit with all words, and the spec's unit with each variant as well.

    Args:
        sentences: the sentences of all data sets.
        vectors: vectors of their tokens in one layer, shape (n, d).
        spec: units, variants and sample sizes.
    """
    rows, dimensions, word_table = [], [], pd.DataFrame()
    for unit in spec.units:
        sentence_words = split_words(sentences, unit)
        for variant in spec.variants if unit == spec.unit else spec.variants[:1]:
            cloud = occurrences(vectors, sentence_words, unit, variant)
            key = {"unit": unit, "variant": variant}
            word_measures = measure_words(cloud, spec.min_contexts)
            rows.append(key | measure(cloud, word_measures, spec))
            if unit == spec.unit:
                dominant = largest_dimensions(cloud.vectors)
                rows[-1] |= dominant.scores
                dimensions.append(dominant.table.assign(variant=variant))
                if variant == spec.variants[0]:
                    word_table = word_measures.table(sentence_words.names)
    return Contexts(pd.DataFrame(rows), word_table, pd.concat(dimensions), vectors.shape[1])


class WordMeasures(NamedTuple):
    """Measures of each word that occurs in enough sentences, in the order of the type numbers.

    Attributes:
        chosen: row numbers of the occurrences that are measured.
        types: type number of each of these occurrences.
        similarity: self-similarity of each word.
        shares: explainable variance of each word.
    """

    chosen: np.ndarray
    types: np.ndarray
    similarity: SelfSimilarity
    shares: ExplainableVariance

    def table(self, names: np.ndarray) -> pd.DataFrame:
        """Return a row per word, with columns name, n, self_similarity and mev_….

        Args:
            names: text of each type, by type number.
        """
        columns = {f"mev_{name}": values for name, values in self.shares._asdict().items()}
        counts = {"name": names[np.unique(self.types)], "n": self.similarity.counts}
        return pd.DataFrame(counts | {"self_similarity": self.similarity.values} | columns)


def measure_words(cloud: Occurrences, min_contexts: int) -> WordMeasures:
    """Compute self-similarity and explainable variance of each word."""
    chosen = first_occurrences(cloud.words, min_contexts)
    types, vectors = cloud.words.types[chosen], cloud.vectors[chosen]
    shares = explainable_variance(vectors, types)
    return WordMeasures(chosen, types, self_similarity(vectors, types), shares)


def measure(cloud: Occurrences, words: WordMeasures, spec: ContextsSpec) -> dict[str, float]:
    """Compute all scores of a cloud.

    Returns:
        - n_sentences, n_tokens, n_words, n_occurrences;
        - baseline_cosine: mean cosine between tokens of different sentences;
        - self_similarity: mean over words;
        - intra: intra-sentence similarity, mean over sentences of at least two tokens; intra_null:
          the same after shuffling tokens between sentences; intra_excess: their difference;
          intra_formula: the value that baseline_cosine alone implies (`intra_sentence_null`);
          intra_loo…: the same with the leave-one-out estimate;
        - mev_<estimate>, for each estimate in `ExplainableVariance`: mean over words; …_baseline:
          for random tokens from different sentences, mean over draws; …_matched: for as many random
          tokens as the word has occurrences; …_excess: mev minus matched; …_below: share of words
          below the baseline.

        Each `_error` is a standard error over words, sentences or draws.
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
        **_mean_with_error("self_similarity", words.similarity.values),
        **_intra_sentence_scores(cloud, baseline.value, spec.seed),
    }
    shuffled = np.random.default_rng([spec.seed, 1]).permutation(n)[:n_chosen]
    matched = explainable_variance(cloud.vectors[shuffled], words.types)
    baseline_shares = _baselines(cloud, spec)
    for name, share, baseline_share, matched_share in zip(
        ExplainableVariance._fields, words.shares, baseline_shares, matched, strict=True
    ):
        scores |= _mean_with_error(f"mev_{name}", share)
        scores |= _mean_with_error(f"mev_{name}_baseline", baseline_share)
        scores |= _mean_with_error(f"mev_{name}_matched", matched_share)
        scores |= _mean_with_error(f"mev_{name}_excess", share - matched_share)
        scores[f"mev_{name}_below"] = float(
            np.mean(share[~np.isnan(share)] < baseline_share.mean())
        )
    return scores


def _intra_sentence_scores(
    cloud: Occurrences, baseline_cosine: float, seed: int
) -> dict[str, float]:
    """Compute intra-sentence similarity for sentences of at least two tokens, and its values by
    chance: with shuffled tokens, and by formula from the mean cosine.
    """
    numbers, lengths = np.unique(cloud.words.sentences, return_counts=True)
    in_long_sentence = np.isin(cloud.words.sentences, numbers[lengths > 1])
    vectors, sentences = cloud.vectors[in_long_sentence], cloud.words.sentences[in_long_sentence]
    shuffled = vectors[np.random.default_rng([seed, 0]).permutation(len(vectors))]
    long_lengths = lengths[lengths > 1]
    scores: dict[str, float] = {}
    estimates = zip(
        ("intra", "intra_loo"),
        intra_sentence_similarity(vectors, sentences),
        intra_sentence_similarity(shuffled, sentences),
        strict=True,
    )
    for name, similarity, null in estimates:
        formula = intra_sentence_null(
            long_lengths, max(baseline_cosine, 0), leave_one_out=name == "intra_loo"
        )
        scores |= _mean_with_error(name, similarity) | _mean_with_error(f"{name}_null", null)
        scores |= _mean_with_error(f"{name}_excess", similarity - null)
        scores[f"{name}_formula"] = float(formula.mean())
    return scores


def _baselines(cloud: Occurrences, spec: ContextsSpec) -> ExplainableVariance:
    """Compute the explainable variance of random tokens, one from each of n_baseline random
    sentences: one value per draw.
    """
    numbers, starts, counts = np.unique(
        cloud.words.sentences, return_index=True, return_counts=True
    )
    rng = np.random.default_rng([spec.seed, 2])
    shares = []
    for _ in range(spec.n_draws):
        chosen = np.sort(rng.permutation(len(numbers))[: spec.n_baseline])
        rows = starts[chosen] + rng.integers(counts[chosen])
        shares.append(explainable_variance(cloud.vectors[rows]))
    return ExplainableVariance(*(np.concatenate(parts) for parts in zip(*shares, strict=True)))


def _mean_with_error(name: str, values: np.ndarray) -> dict[str, float]:
    """Return the mean of the values that are not NaN, and its standard error; NaN without any."""
    valid = values[~np.isnan(values)]
    n = len(valid)
    error = float(valid.std(ddof=1)) / math.sqrt(n) if n > 1 else math.nan
    return {name: float(valid.mean()) if n else math.nan, f"{name}_error": error}


class Dimensions(NamedTuple):
    """Contributions of single dimensions to the mean cosine over all pairs of tokens.

    Attributes:
        scores: mean_cosine; mean_cosine_without_1, …: without the dimensions that contribute most.
        table: the dimensions that contribute most, with columns rank, dimension, contribution and
            share.
    """

    scores: dict[str, float]
    table: pd.DataFrame


def largest_dimensions(vectors: np.ndarray) -> Dimensions:
    """Find the dimensions that contribute most to the mean cosine of vectors, shape (n, d)."""
    contributions = cosine_contributions(vectors)
    order = np.argsort(-contributions, kind="stable")
    total = float(contributions.sum())
    scores = {"mean_cosine": total}
    for k in N_DIMENSIONS_LEFT_OUT:
        if k < vectors.shape[1]:
            remaining = np.take(vectors, np.sort(order[k:]), axis=1)
            scores[f"mean_cosine_without_{k}"] = mean_cosine(remaining)
    largest = order[:N_DIMENSIONS_LISTED]
    table = pd.DataFrame(
        {
            "rank": np.arange(1, len(largest) + 1),
            "dimension": largest,
            "contribution": contributions[largest],
            "share": contributions[largest] / total,
        }
    )
    return Dimensions(scores, table)
