"""Local intrinsic dimension (LID) of a cloud, by Euclidean and cosine distances, by the
conventional estimate and as published (Cai et al. 2021, section 5).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.metrics.dimension import LidEstimates, lid_mle_estimates
from replication.geometry.spec import Lid

Metric = Literal["euclidean", "cosine"]
METRICS: tuple[Metric, ...] = ("euclidean", "cosine")
POINTS_PER_TYPE = {"1": 1, "3": 3, "10": 10, "all": None}
"""Name of a sample -> most points that it has of each type."""
N_FREQUENT = 200  # frequent tokens whose neighbours' types are counted
QUERIES_PER_BLOCK = 20  # of them


def lid_scores(vectors: np.ndarray, settings: Lid, seed: int) -> dict[str, float]:
    """Compute the local intrinsic dimension by Euclidean and by cosine distances.

    Returns:
        For each metric: lid_<metric>, by the conventional estimate; lid_<metric>_published, as the
        authors compute it; lid_<metric>_n_replaced, the number of points whose infinite estimate
        the published mean replaces by the number of dimensions. n_repeated: number of points that
        duplicate an earlier one. lid_cosine_equal_n: the conventional estimate by cosines for a
        sample of `n_equal` points; NaN for smaller clouds.

    Raises:
        IsotropyError: there are fewer distinct vectors than neighbours, or a vector is zero.
    """
    scores: dict[str, float] = {}
    for metric in METRICS:
        estimates = _estimates(vectors, settings.k, metric, settings.n_queries, seed)
        scores |= {
            f"lid_{metric}": estimates.conventional,
            f"lid_{metric}_published": estimates.published,
            f"lid_{metric}_n_replaced": estimates.n_replaced,
        }
        if metric == "euclidean":  # by cosine, multiples of a vector repeat it
            scores["n_repeated"] = estimates.n_repeated
    scores["lid_cosine_equal_n"] = math.nan
    if len(vectors) >= settings.n_equal > settings.k:
        rows = np.random.default_rng(seed).permutation(len(vectors))[: settings.n_equal]
        equal_n_estimates = _estimates(
            vectors[np.sort(rows)], settings.k, "cosine", settings.n_queries, seed
        )
        scores["lid_cosine_equal_n"] = equal_n_estimates.conventional
    return scores


def lid_by_type(
    vectors: np.ndarray, types: np.ndarray, settings: Lid, seed: int
) -> dict[str, float]:
    """Compute the conventional dimension by cosines in samples of equal size, with at most one
    point of each type, at most 3, at most 10, or any number.

    Args:
        vectors: shape (n, d).
        types: type number of each vector, shape (n,).
        settings: size of the samples (`n_types`), number of neighbours.
        seed: seed of the samples.

    Returns:
        lid_cosine_per_type_1, …_3, …_10 and …_all; NaN with fewer types than the size of a sample.
        own_type_share: share of the k neighbours, among all points, that are of the point's own
        type, for a sample of points whose type has more than k others; NaN without such a type.
    """
    n, n_types = len(types), len(np.unique(types))
    scores = {f"lid_cosine_per_type_{name}": math.nan for name in POINTS_PER_TYPE}
    if n_types >= settings.n_types > settings.k:
        rank = _rank_within_type(types, seed)
        measured: dict[int, float] = {}  # by number of points: with as many, the sample is the same
        for name, most in POINTS_PER_TYPE.items():
            rows = np.flatnonzero(rank < (most or n))
            if len(rows) not in measured:
                sample = np.random.default_rng([seed, 1]).permutation(rows)[: settings.n_types]
                estimates = _estimates(vectors[np.sort(sample)], settings.k, "cosine", None, seed)
                measured[len(rows)] = estimates.conventional
            scores[f"lid_cosine_per_type_{name}"] = measured[len(rows)]
    return scores | {"own_type_share": _own_type_share(vectors, types, settings.k, seed)}


def _rank_within_type(types: np.ndarray, seed: int) -> np.ndarray:
    """Number the points of each type from 0 in random order, shape (n,)."""
    shuffled = np.random.default_rng([seed, 0]).permutation(len(types))
    by_type = shuffled[np.argsort(types[shuffled], kind="stable")]
    counts = np.bincount(types)
    rank = np.empty(len(types), dtype=np.int64)
    rank[by_type] = np.arange(len(types)) - np.repeat(np.cumsum(counts) - counts, counts)
    return rank


def _own_type_share(vectors: np.ndarray, types: np.ndarray, k: int, seed: int) -> float:
    """Mean share of the k nearest neighbours by cosine that are of the point's own type, for points
    whose type has more than k others.
    """
    frequent = np.flatnonzero(np.bincount(types)[types] > k + 1)
    if not len(frequent):
        return math.nan
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    sample = np.random.default_rng([seed, 2]).permutation(frequent)[:N_FREQUENT]
    shares = []
    for rows in np.array_split(sample, math.ceil(len(sample) / QUERIES_PER_BLOCK)):
        cosines = units[rows] @ units.T
        cosines[np.arange(len(rows)), rows] = -np.inf
        nearest = np.argpartition(cosines, -k, axis=1)[:, -k:]
        shares += (types[nearest] == types[rows, None]).mean(axis=1).tolist()
    return float(np.mean(shares))


def _estimates(
    vectors: np.ndarray, k: int, metric: Metric, n_queries: int | None, seed: int
) -> LidEstimates:
    try:
        return lid_mle_estimates(vectors, k, metric=metric, n_queries=n_queries, seed=seed)
    except ValueError as error:
        raise IsotropyError(f"local dimension: {error}") from error
