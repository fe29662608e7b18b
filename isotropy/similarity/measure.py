"""Isotropy and semantic similarity before and after post-processing (Rajaee & Pilehvar 2021,
sections 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

from isotropy.errors import IsotropyError
from isotropy.metrics.isoscores import isoscore
from isotropy.metrics.partition import partition_isotropies
from isotropy.similarity.spec import Clusterer, MethodName, Parameters, SimilaritySpec, TuningSpec
from isotropy.similarity.token_cloud import SentenceCloud
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, principal_components

POINTS_SHOWN = 2000  # rows of the cloud in the pictures
ROUNDING = (
    1e-5  # of the size of a cloud: what is smaller is what single precision leaves of nothing
)


Fitted = dict[tuple[str, int, int], ClusterBasedEnhancement]
"""Estimators that have clustered a cloud: kind of clusterer, number of clusters, seed."""


class Step(NamedTuple):
    """One method with its numbers and seed; what does not apply is None. `part`: what it is
    measured for.
    """

    method: MethodName
    n_clusters: int | None
    n_components: int | None
    seed: int
    part: Literal["methods", "clusters"] = "methods"


def steps(spec: SimilaritySpec, parameters: Parameters | None) -> list[Step]:
    """All that is to be measured: what does not cluster once, the rest once per run.

    Args:
        spec: methods and runs.
        parameters: clusters and components; None where method none is the only one.
    """
    found = []
    for method in spec.methods:
        if method in ("none", "mean"):
            found.append(Step(method, None, None, 0))
            continue
        assert parameters is not None
        if method == "abtt":
            found.append(Step(method, None, parameters.n_components_global, 0))
            continue
        removed = None if method == "kmeans-mean" else parameters.n_components
        found += [
            Step(method, parameters.n_clusters, removed, seed) for seed in range(spec.n_clusterings)
        ]
    # One cluster is the mean, whatever the seed.
    seeds = {k: range(1 if k == 1 else spec.n_clusterings) for k in spec.cluster_counts}
    return found + [
        Step("kmeans-mean", k, None, seed, "clusters")
        for k in spec.cluster_counts
        for seed in seeds[k]
    ]


class Measured(NamedTuple):
    """What is known of a cloud after all steps: a row per step; a row per step and pair; and the
    seconds that the methods took.
    """

    rows: pd.DataFrame
    pairs: pd.DataFrame
    seconds: dict[str, float]


def measure(cloud: SentenceCloud, todo: Sequence[Step], clusterer: Clusterer) -> Measured:
    """Measure a cloud after each step.

    Returns:
        rows: one per step: method, n_clusters, n_components, seed, part; clusters_left (small ones
            are dissolved); Pearson and Spearman correlation of people's scores with cosines of
            sentences (means of their tokens), times 100, NaN without pairs; spearman_of_removed,
            the same for what the step takes from the sentences, about its mean: what is lost with
            it; log10 of I(W) of the cloud, of the cloud brought back to the root mean square norm
            that it had before (I(W) rises where vectors are shorter, whatever their shape), and of
            the sentences; and IsoScore, which does not depend on scale.
        pairs: one per step of the part `methods` and pair: method, seed, pair, score, cosine.
        seconds: of each method; those of clusters count for the first that needs them.
    """
    rows, pairs = [], []
    before = cloud.sentences(cloud.vectors)
    size = _rms(cloud.vectors)
    seconds: dict[str, float] = {}
    fitted: Fitted = {}
    for step in todo:
        began = perf_counter()
        after, clusters = transformed(cloud.vectors, step, clusterer, fitted)
        name = f"seconds_{step.method}"
        seconds[name] = round(seconds.get(name, 0.0) + perf_counter() - began, 3)
        sentences = cloud.sentences(after)
        cosines = pair_cosines(sentences, cloud)
        own_size = _rms(after)
        lengths = [1.0, size / own_size if own_size > 0 else 1.0]
        isotropy, isotropy_matched = log10_isotropies(after, lengths)
        rows.append(
            step._asdict()
            | {"clusters_left": clusters}
            | correlations(cosines, cloud.scores)
            | {"spearman_of_removed": _of_removed(step, clusters, before - sentences, cloud)}
            | {
                "log10_isotropy": isotropy,
                "log10_isotropy_matched": isotropy_matched,
                "log10_isotropy_sentences": log10_isotropy(sentences),
                "isoscore": isoscore(after),
            }
        )
        if step.part == "methods":
            pairs.append(_of_pairs(step, cosines, cloud.scores))
    kinds = {"n_clusters": "Int64", "n_components": "Int64", "clusters_left": "Int64"}
    return Measured(pd.DataFrame(rows).astype(kinds), pd.concat(pairs, ignore_index=True), seconds)


def _of_removed(
    step: Step, clusters: int | None, removed: np.ndarray, cloud: SentenceCloud
) -> float:
    """Spearman correlation of what a step takes from the sentences; NaN where that is constant."""
    if step.method in ("none", "mean") or (step.method == "kmeans-mean" and clusters == 1):
        return math.nan
    cosines = pair_cosines(removed - removed.mean(axis=0), cloud)
    return correlations(cosines, cloud.scores)["spearman"]


def _of_pairs(step: Step, cosines: np.ndarray, scores: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": step.method,
            "seed": step.seed,
            "pair": np.arange(len(cosines), dtype=np.int64),
            "score": np.asarray(scores, dtype=np.float64)[: len(cosines)],
            "cosine": cosines,
        }
    )


def _rms(vectors: np.ndarray) -> float:
    """Root mean square of the norms."""
    return math.sqrt(float(np.einsum("ij,ij->", vectors, vectors, dtype=np.float64)) / len(vectors))


def transformed(
    vectors: np.ndarray, step: Step, clusterer: Clusterer, fitted: Fitted | None = None
) -> tuple[np.ndarray, int | None]:
    """A cloud after a step, shape (n, d), and how many clusters are left.

    Args:
        vectors: the cloud, shape (n, d).
        step: what to do.
        clusterer: how clusters are found.
        fitted: what has been fitted to this cloud, and is added to: the same clusters are not
            looked for twice.

    Raises:
        IsotropyError: more clusters or components than the cloud has room for, or nothing is left
            of it.
    """
    method = estimator(step, clusterer)
    if method is None:
        return vectors, None
    left = None
    try:
        if isinstance(method, ClusterBasedEnhancement):
            fitted, key = (
                {} if fitted is None else fitted,
                (method.clusterer, method.n_clusters, step.seed),
            )
            if key in fitted:
                method = fitted[key].set_params(**method.get_params()).refit(vectors)
            else:
                fitted[key] = method.fit(vectors)
            left = method.n_clusters_
        else:
            method.fit(vectors)
        after = method.transform(vectors)
    except ValueError as error:
        raise IsotropyError(f"{step.method}: {error}") from error
    if np.linalg.norm(after) <= ROUNDING * np.linalg.norm(vectors):
        raise IsotropyError(
            f"{step.method}: nothing is left of the cloud, whose vectors are too few or too much "
            "alike"
        )
    return after, left


def estimator(step: Step, clusterer: Clusterer) -> Any:
    """The transform of a step, not fitted; None for method none."""
    if step.method == "none":
        return None
    if step.method == "mean":
        return Center()
    if step.method == "abtt":
        return AllButTheTop(step.n_components)
    assert step.n_clusters is not None
    return ClusterBasedEnhancement(
        step.n_clusters,
        step.n_components or 0,
        clusterer="gmm" if step.method == "gmm" else "kmeans",
        remove="mean" if step.n_components is None else "mean+pcs",
        random_state=step.seed,
        **clusterer.model_dump(),
    )


def pair_cosines(sentences: np.ndarray, cloud: SentenceCloud) -> np.ndarray:
    """Cosine of each pair with a score, shape (pairs,), float64; nothing without pairs.

    Raises:
        IsotropyError: one pair, or two, whose correlation says nothing.
    """
    if not len(cloud.pairs):
        return np.empty(0)
    if len(cloud.pairs) < 3:
        raise IsotropyError(f"{len(cloud.pairs)} pairs with scores are too few for a correlation")
    points = sentences.astype(np.float64)
    unit = points / np.maximum(
        np.linalg.norm(points, axis=1, keepdims=True), np.finfo(np.float64).tiny
    )
    # Rounded, so that pairs of equal sentences have equal cosines, and equal ranks.
    cosines: np.ndarray = np.round(
        np.einsum("ij,ij->i", unit[cloud.pairs[:, 0]], unit[cloud.pairs[:, 1]]), 12
    )
    return cosines


def correlations(cosines: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Correlation of scores with cosines, times 100; NaN without pairs, or where all cosines are
    the same.
    """
    if not len(cosines) or np.ptp(cosines) == 0:
        return {"pearson": math.nan, "spearman": math.nan}
    return {
        "pearson": 100 * float(stats.pearsonr(cosines, scores).statistic),
        "spearman": 100 * float(stats.spearmanr(cosines, scores).statistic),
    }


def similarity(sentences: np.ndarray, cloud: SentenceCloud) -> dict[str, float]:
    """Both correlations of a cloud's sentences."""
    return correlations(pair_cosines(sentences, cloud), cloud.scores)


def log10_isotropy(vectors: np.ndarray) -> float:
    """log10 of I(W); in log space, because I(W) of decoder models has no place in double precision.

    Raises:
        IsotropyError: fewer than two points, or all are zero.
    """
    return log10_isotropies(vectors, [1.0])[0]


def log10_isotropies(vectors: np.ndarray, scales: Sequence[float]) -> list[float]:
    """The same of the vectors times each of some factors."""
    try:
        return [i / math.log(10) for i in partition_isotropies(vectors, scales, log=True)]
    except ValueError as error:
        raise IsotropyError(f"isotropy: {error}") from error


def tune(cloud: SentenceCloud, spec: TuningSpec) -> tuple[pd.DataFrame, Parameters]:
    """Spearman correlation for each pair of numbers, mean over runs, and the best; of equals, the
    smaller numbers.

    Returns:
        One row per trial: method (kmeans, abtt), n_clusters, n_components, pearson, spearman,
        spearman_sd.

    Raises:
        IsotropyError: a data set without pairs, or trials none of which has a correlation.
    """
    if not len(cloud.pairs):
        raise IsotropyError(f"{spec.dataset} holds no pairs with scores to tune on")
    trials = [[Step("abtt", None, removed, 0)] for removed in spec.n_components]
    for k in spec.n_clusters:
        trials += [
            [Step("kmeans", k, removed, seed) for seed in range(spec.n_clusterings)]
            for removed in spec.n_components
        ]
    rows: list[dict[str, Any]] = []
    fitted: Fitted = {}
    for trial in trials:
        clouds = (transformed(cloud.vectors, step, spec.clusterer, fitted)[0] for step in trial)
        found = [similarity(cloud.sentences(after), cloud) for after in clouds]
        spearman = np.array([f["spearman"] for f in found])
        rows.append(
            trial[0]._asdict()
            | {
                "pearson": float(np.mean([f["pearson"] for f in found])),
                "spearman": float(spearman.mean()),
            }
            | {"spearman_sd": float(spearman.std(ddof=1)) if len(spearman) > 1 else math.nan}
        )
    best = {}
    for method in ("abtt", "kmeans"):
        own = [row for row in rows if row["method"] == method and not math.isnan(row["spearman"])]
        if not own:
            raise IsotropyError(f"{spec.dataset}: no trial of {method} has a correlation")
        best[method] = max(own, key=lambda row: row["spearman"])
    table = (
        pd.DataFrame(rows)
        .astype({"n_clusters": "Int64", "n_components": "Int64"})
        .drop(columns=["seed", "part"])
    )
    return table, Parameters(
        n_clusters=best["kmeans"]["n_clusters"],
        n_components=best["kmeans"]["n_components"],
        n_components_global=best["abtt"]["n_components"],
    )


def pictures(cloud: SentenceCloud, parameters: Parameters, clusterer: Clusterer) -> pd.DataFrame:
    """A seeded part of the cloud in the plane of its first two principal components, before and
    after the method.

    Returns:
        One row per token: name, frequency (how often its type occurs; of words in a vocabulary, the
        rank), cluster before it is post-processed, and x, y before and after.
    """
    method = ClusterBasedEnhancement(
        parameters.n_clusters, parameters.n_components, random_state=0, **clusterer.model_dump()
    )
    after = method.fit_transform(cloud.vectors)
    chosen = np.sort(np.random.default_rng(0).permutation(len(cloud.vectors))[:POINTS_SHOWN])
    counts = np.bincount(cloud.types, minlength=len(cloud.names))
    frequency = counts[cloud.types[chosen]] if counts.max() > 1 else chosen + 1
    before, flat = _plane(cloud.vectors, chosen), _plane(after, chosen)
    return pd.DataFrame(
        {
            "name": [cloud.names[t] for t in cloud.types[chosen]],
            "frequency": frequency,
            "cluster": method.labels_[chosen].astype(np.int64),
            "x_before": before[:, 0],
            "y_before": before[:, 1],
            "x_after": flat[:, 0],
            "y_after": flat[:, 1],
        }
    )


def _plane(vectors: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Some rows of a cloud in the plane of its first two components; the mean is the origin."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    plane: np.ndarray = centred[chosen].astype(np.float64) @ principal_components(centred, 2).T
    return plane
