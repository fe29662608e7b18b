"""Isotropy and semantic similarity before and after post-processing (Rajaee & Pilehvar 2021,
sections 3 and 4).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import pandas as pd
import torch
from scipy import stats

from isotropy.errors import IsotropyError
from isotropy.metrics.isoscores import isoscore
from isotropy.metrics.matmul import scatter
from isotropy.metrics.partition import IsotropyRange, partition_isotropy_ranges
from isotropy.transforms import AllButTheTop, Center, ClusterBasedEnhancement, principal_components
from replication.similarity.spec import (
    ISOTROPIES,
    Clusterer,
    ControlName,
    MethodName,
    Parameters,
    SimilaritySpec,
    TuningSpec,
    with_range,
)
from replication.similarity.token_cloud import SentenceCloud

POINTS_SHOWN = 2000  # rows of the cloud in the plots
ROUNDING = 1e-5  # relative to the norm of a cloud: anything smaller is rounding error of float32


Fitted = dict[tuple[str, int, int], ClusterBasedEnhancement]
"""Fitted estimators of a cloud, by kind of clusterer, number of clusters and seed."""


class Step(NamedTuple):
    """One method with its parameters and seed; parameters that it does not have are None. A control
    has those of the cluster-based method that it is a control of. `part`: the comparison that it
    belongs to, of methods, their controls or numbers of clusters.
    """

    method: MethodName | ControlName
    n_clusters: int | None
    n_components: int | None
    seed: int
    part: Literal["methods", "controls", "clusters"] = "methods"


def steps(spec: SimilaritySpec, parameters: Parameters | None) -> list[Step]:
    """List all steps to measure: methods that do not cluster once, the others once per clustering,
    and two controls for each clustering of kmeans.

    Args:
        spec: methods, numbers of clusters and number of clusterings.
        parameters: numbers of clusters and components; None if only methods without parameters
            are measured.
    """
    planned = []
    for method in spec.methods:
        if method in ("none", "mean"):
            planned.append(Step(method, None, None, 0))
            continue
        assert parameters is not None
        if method == "abtt":
            planned.append(Step(method, None, parameters.n_components_global, 0))
            continue
        n_removed = None if method == "kmeans-mean" else parameters.n_components
        planned += [
            Step(method, parameters.n_clusters, n_removed, seed)
            for seed in range(spec.n_clusterings)
        ]
    planned += [
        step._replace(method=control, part="controls")
        for control in get_args(ControlName)
        for step in planned
        if step.method == "kmeans"
    ]
    # One cluster is the mean, whatever the seed.
    seeds = {k: range(1 if k == 1 else spec.n_clusterings) for k in spec.cluster_counts}
    return planned + [
        Step("kmeans-mean", k, None, seed, "clusters")
        for k in spec.cluster_counts
        for seed in seeds[k]
    ]


class Measured(NamedTuple):
    """Measurements of a cloud: a row per step; a row per step and pair; and the seconds that each
    method took.
    """

    rows: pd.DataFrame
    pairs: pd.DataFrame
    seconds: dict[str, float]


def measure(cloud: SentenceCloud, planned_steps: Sequence[Step], clusterer: Clusterer) -> Measured:
    """Measure a cloud after each step.

    Returns:
        rows: one per step: method, n_clusters, n_components, seed, part; clusters_left (small
            clusters are dissolved); pearson and spearman: correlation of human scores with cosines
            of sentences (means of their tokens), times 100, NaN without pairs; spearman_of_removed:
            the same for the centred component that the step removes from the sentences, that is,
            how much of the similarity is lost with it; variance_left: variance about the mean,
            divided by that before the step; log10_isotropy: log10 I(W) of the cloud;
            log10_isotropy_matched: the same of the cloud rescaled to its root mean square norm
            before the step (I(W) is higher for shorter vectors of the same shape);
            log10_isotropy_sentences: the same of the sentences; each of the three with its range
            over the signs of eigenvectors (…_low, …_high); isoscore, which does not depend on
            scale.
        pairs: one per step of the part `methods` and pair: method, seed, pair, first and second
            (numbers of its texts), score, cosine.
        seconds: for each method; the time of a clustering counts for the method that first needs
            it.
    """
    rows, pairs = [], []
    before = cloud.sentences(cloud.vectors)
    norm_before, variance = _rms(cloud.vectors), _variance(cloud.vectors)
    seconds: dict[str, float] = {}
    fitted: Fitted = {}
    for step in planned_steps:
        start = perf_counter()
        after, n_left = apply_step(cloud.vectors, step, clusterer, fitted)
        name = f"seconds_{step.method}"
        seconds[name] = round(seconds.get(name, 0.0) + perf_counter() - start, 3)
        sentences = cloud.sentences(after)
        cosines = pair_cosines(sentences, cloud)
        rows.append(
            step._asdict()
            | {"clusters_left": n_left}
            | correlations(cosines, cloud.scores)
            | {"spearman_of_removed": _spearman_of_removed(step, n_left, before - sentences, cloud)}
            | {"variance_left": _variance(after) / variance if variance > 0 else math.nan}
            | _isotropy_columns(after, sentences, norm_before)
            | {"isoscore": isoscore(after)}
        )
        if step.part == "methods":
            pairs.append(_pair_rows(step, cosines, cloud))
    dtypes = {"n_clusters": "Int64", "n_components": "Int64", "clusters_left": "Int64"}
    return Measured(pd.DataFrame(rows).astype(dtypes), pd.concat(pairs, ignore_index=True), seconds)


def _isotropy_columns(
    after: np.ndarray, sentences: np.ndarray, norm_before: float
) -> dict[str, float]:
    """I(W) of tokens as they are and at their norm before, and of sentences, with ranges."""
    norm_after = _rms(after)
    scales = [1.0, norm_before / norm_after if norm_after > 0 else 1.0]
    isotropies = [*_log10_isotropies(after, scales), *_log10_isotropies(sentences, [1.0])]
    return {
        name: value
        for column, isotropy in zip(ISOTROPIES, isotropies, strict=True)
        for name, value in zip(with_range(column), isotropy, strict=True)
    }


def _spearman_of_removed(
    step: Step, clusters: int | None, removed: np.ndarray, cloud: SentenceCloud
) -> float:
    """Correlate (Spearman) the component that a step removes; NaN where that is constant."""
    if step.method in ("none", "mean") or (step.method == "kmeans-mean" and clusters == 1):
        return math.nan
    cosines = pair_cosines(removed - removed.mean(axis=0), cloud)
    return correlations(cosines, cloud.scores)["spearman"]


def _pair_rows(step: Step, cosines: np.ndarray, cloud: SentenceCloud) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "method": step.method,
            "seed": step.seed,
            "pair": np.arange(len(cosines), dtype=np.int64),
            "first": cloud.texts[: len(cosines), 0],
            "second": cloud.texts[: len(cosines), 1],
            "score": np.asarray(cloud.scores, dtype=np.float64)[: len(cosines)],
            "cosine": cosines,
        }
    )


def _rms(vectors: np.ndarray) -> float:
    """Return the root mean square of the norms of vectors."""
    return math.sqrt(float(np.einsum("ij,ij->", vectors, vectors, dtype=np.float64)) / len(vectors))


def _variance(vectors: np.ndarray) -> float:
    """Return the mean squared distance from the mean."""
    return float(vectors.var(axis=0, dtype=np.float64).sum())


def apply_step(
    vectors: np.ndarray, step: Step, clusterer: Clusterer, fitted: Fitted | None = None
) -> tuple[np.ndarray, int | None]:
    """Apply a step to a cloud: return the new vectors, shape (n, d), and the number of clusters
    left (None for methods that do not cluster).

    Args:
        vectors: the cloud, shape (n, d).
        step: the method with its parameters.
        clusterer: settings of the clustering.
        fitted: cache of estimators fitted to this cloud, so that no clustering is computed twice;
            new ones are added.

    Raises:
        IsotropyError: there are more clusters or components than the cloud allows, or the result
            is zero but for rounding errors.
    """
    fitted = {} if fitted is None else fitted
    if step.part == "controls":
        return _apply_control(vectors, step, clusterer, fitted)
    method = estimator(step, clusterer)
    if method is None:
        return vectors, None
    n_left = None
    try:
        if isinstance(method, ClusterBasedEnhancement):
            method = _fit_clusters(method, vectors, fitted)
            n_left = method.n_clusters_
        else:
            method.fit(vectors)
        after = method.transform(vectors)
    except ValueError as error:
        raise IsotropyError(f"{step.method}: {error}") from error
    if np.linalg.norm(after) <= ROUNDING * np.linalg.norm(vectors):
        raise IsotropyError(
            f"{step.method}: all vectors of the cloud become zero: they are too few or too similar"
        )
    return after, n_left


def _fit_clusters(
    method: ClusterBasedEnhancement, vectors: np.ndarray, fitted: Fitted
) -> ClusterBasedEnhancement:
    """Fit a cluster-based method, or take it from the cache, refitted if its parameters differ."""
    key = (method.clusterer, method.n_clusters, method.random_state)
    if key not in fitted:
        fitted[key] = method.fit(vectors)
    elif fitted[key].get_params() != method.get_params():
        fitted[key].set_params(**method.get_params()).refit(vectors)
    return fitted[key]


def _apply_control(
    vectors: np.ndarray, step: Step, clusterer: Clusterer, fitted: Fitted
) -> tuple[np.ndarray, int | None]:
    """Apply a control of the cluster-based method: remove mean and components from random parts as
    large as its clusters, or from the whole cloud the number of components that comes nearest to
    leaving the variance that it leaves.
    """
    kmeans_step = step._replace(method="kmeans", part="methods")
    clustered, n_left = apply_step(vectors, kmeans_step, clusterer, fitted)
    if step.method == "abtt-variance":
        (n, d), mean = vectors.shape, vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
        squares = scatter(torch.from_numpy(vectors), torch.from_numpy(mean)).numpy()
        variances = np.linalg.eigvalsh(squares)[::-1] / n
        variance_left = variances.sum() - np.cumsum(variances[: min(n - 1, d) - 1])
        n_removed = 1 + int(np.abs(variance_left - _variance(clustered)).argmin())
        return AllButTheTop(n_removed).fit_transform(vectors), None
    assert step.n_clusters is not None
    labels = fitted["kmeans", step.n_clusters, step.seed].labels_
    parts = np.random.default_rng(step.seed).permutation(labels)
    after = np.empty_like(vectors)
    for part in range(parts.max() + 1):
        members = parts == part
        after[members] = AllButTheTop(step.n_components).fit_transform(vectors[members])
    return after, n_left


def estimator(step: Step, clusterer: Clusterer) -> Any:
    """Make the transform of a step that is no control, not fitted; None for method none."""
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
    """Compute the cosine of each scored pair of sentences, shape (pairs,), float64; empty without
    pairs.

    Raises:
        IsotropyError: there are one or two pairs, too few for a correlation.
    """
    if not len(cloud.pairs):
        return np.empty(0)
    if len(cloud.pairs) < 3:
        raise IsotropyError(f"{len(cloud.pairs)} pairs with scores are too few for a correlation")
    points = sentences.astype(np.float64)
    unit = points / np.maximum(
        np.linalg.norm(points, axis=1, keepdims=True), np.finfo(np.float64).tiny
    )
    # Rounded so that pairs of equal sentences have equal cosines and ranks.
    cosines: np.ndarray = np.round(
        np.einsum("ij,ij->i", unit[cloud.pairs[:, 0]], unit[cloud.pairs[:, 1]]), 12
    )
    return cosines


def correlations(cosines: np.ndarray, scores: np.ndarray) -> dict[str, float]:
    """Compute Pearson and Spearman correlation of scores with cosines, times 100; NaN without
    pairs, or where all cosines are equal.
    """
    if not len(cosines) or np.ptp(cosines) == 0:
        return {"pearson": math.nan, "spearman": math.nan}
    return {
        "pearson": 100 * float(stats.pearsonr(cosines, scores).statistic),
        "spearman": 100 * float(stats.spearmanr(cosines, scores).statistic),
    }


def similarity(sentences: np.ndarray, cloud: SentenceCloud) -> dict[str, float]:
    """Correlate the sentence cosines of a cloud with its human scores."""
    return correlations(pair_cosines(sentences, cloud), cloud.scores)


def log10_isotropy(vectors: np.ndarray) -> float:
    """Compute log10 I(W), in log space, because I(W) of decoder models underflows in float64.

    Raises:
        IsotropyError: there are fewer than two points, or all are zero.
    """
    return _log10_isotropies(vectors, [1.0])[0].fixed


def _log10_isotropies(vectors: np.ndarray, scales: Sequence[float]) -> list[IsotropyRange]:
    """Compute log10 I(W), with its range over signs, of the vectors multiplied by each scale."""
    try:
        ranges = partition_isotropy_ranges(vectors, scales, log=True)
        return [IsotropyRange(*(i / math.log(10) for i in each)) for each in ranges]
    except ValueError as error:
        raise IsotropyError(f"isotropy: {error}") from error


def tune(cloud: SentenceCloud, spec: TuningSpec) -> tuple[pd.DataFrame, Parameters]:
    """Tune numbers of clusters and components by Spearman correlation, averaged over clusterings;
    ties go to the smaller numbers.

    Returns:
        One row per trial: method (kmeans, abtt), n_clusters, n_components, pearson, spearman,
        spearman_sd; and the best parameters.

    Raises:
        IsotropyError: the data set has no pairs, or no trial has a correlation.
    """
    if not len(cloud.pairs):
        raise IsotropyError(f"{spec.dataset} holds no pairs with scores to tune on")
    trials = [[Step("abtt", None, n_removed, 0)] for n_removed in spec.n_components]
    for k in spec.n_clusters:
        trials += [
            [Step("kmeans", k, n_removed, seed) for seed in range(spec.n_clusterings)]
            for n_removed in spec.n_components
        ]
    rows: list[dict[str, Any]] = []
    fitted: Fitted = {}
    for trial in trials:
        clouds = (apply_step(cloud.vectors, step, spec.clusterer, fitted)[0] for step in trial)
        results = [similarity(cloud.sentences(after), cloud) for after in clouds]
        spearman = np.array([result["spearman"] for result in results])
        rows.append(
            trial[0]._asdict()
            | {
                "pearson": float(np.mean([result["pearson"] for result in results])),
                "spearman": float(spearman.mean()),
            }
            | {"spearman_sd": float(spearman.std(ddof=1)) if len(spearman) > 1 else math.nan}
        )
    best = {}
    for method in ("abtt", "kmeans"):
        valid = [row for row in rows if row["method"] == method and not math.isnan(row["spearman"])]
        if not valid:
            raise IsotropyError(f"{spec.dataset}: no trial of {method} has a correlation")
        best[method] = max(valid, key=lambda row: row["spearman"])
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
    """Project a random sample of the cloud (fixed seed) on its first two principal components,
    before and after post-processing, for plots.

    Returns:
        One row per token: name; frequency (occurrences of its type; for a vocabulary, the rank of
        the word); cluster, before post-processing; x and y before and after.
    """
    method = ClusterBasedEnhancement(
        parameters.n_clusters, parameters.n_components, random_state=0, **clusterer.model_dump()
    )
    after = method.fit_transform(cloud.vectors)
    chosen = np.sort(np.random.default_rng(0).permutation(len(cloud.vectors))[:POINTS_SHOWN])
    counts = np.bincount(cloud.types, minlength=len(cloud.names))
    frequency = counts[cloud.types[chosen]] if counts.max() > 1 else chosen + 1
    plane_before, plane_after = _plane(cloud.vectors, chosen), _plane(after, chosen)
    return pd.DataFrame(
        {
            "name": [cloud.names[t] for t in cloud.types[chosen]],
            "frequency": frequency,
            "cluster": method.labels_[chosen].astype(np.int64),
            "x_before": plane_before[:, 0],
            "y_before": plane_before[:, 1],
            "x_after": plane_after[:, 0],
            "y_after": plane_after[:, 1],
        }
    )


def _plane(vectors: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Project some rows of a cloud on its first two principal components, about the mean."""
    centred = vectors - vectors.mean(axis=0, dtype=np.float64).astype(vectors.dtype)
    plane: np.ndarray = centred[chosen].astype(np.float64) @ principal_components(centred, 2).T
    return plane
