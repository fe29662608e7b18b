"""Local intrinsic dimension (LID) of a cloud, by Euclidean and cosine distances, by the
conventional estimate and as published (Cai et al. 2021, section 5).
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.geometry.spec import Lid
from isotropy.metrics.dimension import LidEstimates, lid_mle_estimates

Metric = Literal["euclidean", "cosine"]
METRICS: tuple[Metric, ...] = ("euclidean", "cosine")


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
        }
        scores |= {
            f"lid_{metric}_n_replaced": estimates.n_replaced,
            "n_repeated": estimates.n_repeated,
        }
    scores["lid_cosine_equal_n"] = math.nan
    if len(vectors) >= settings.n_equal > settings.k:
        rows = np.random.default_rng(seed).permutation(len(vectors))[: settings.n_equal]
        equal_n_estimates = _estimates(
            vectors[np.sort(rows)], settings.k, "cosine", settings.n_queries, seed
        )
        scores["lid_cosine_equal_n"] = equal_n_estimates.conventional
    return scores


def _estimates(
    vectors: np.ndarray, k: int, metric: Metric, n_queries: int | None, seed: int
) -> LidEstimates:
    try:
        return lid_mle_estimates(vectors, k, metric=metric, n_queries=n_queries, seed=seed)
    except ValueError as error:
        raise IsotropyError(f"local dimension: {error}") from error
