"""The local intrinsic dimension of a cloud, in both metrics and by both estimates (Cai et al. 2021,
section 5).
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


def lid_scores(vectors: np.ndarray, how: Lid, seed: int) -> dict[str, float]:
    """Local intrinsic dimension by Euclidean distances and by cosines, conventional and published;
    how many points repeat another, and how many estimates the published mean replaces; and the
    conventional one by cosines of `n_equal` points, NaN where there are fewer.

    Raises:
        IsotropyError: fewer different vectors than neighbours, or a vector that is zero.
    """
    found: dict[str, float] = {}
    for metric in METRICS:
        both = _estimates(vectors, how.k, metric, how.n_queries, seed)
        found |= {f"lid_{metric}": both.conventional, f"lid_{metric}_published": both.published}
        found |= {f"lid_{metric}_n_replaced": both.n_replaced, "n_repeated": both.n_repeated}
    found["lid_cosine_equal_n"] = math.nan
    if len(vectors) >= how.n_equal > how.k:
        rows = np.random.default_rng(seed).permutation(len(vectors))[: how.n_equal]
        part = _estimates(vectors[np.sort(rows)], how.k, "cosine", how.n_queries, seed)
        found["lid_cosine_equal_n"] = part.conventional
    return found


def _estimates(
    vectors: np.ndarray, k: int, metric: Metric, n_queries: int | None, seed: int
) -> LidEstimates:
    try:
        return lid_mle_estimates(vectors, k, metric=metric, n_queries=n_queries, seed=seed)
    except ValueError as error:
        raise IsotropyError(f"local dimension: {error}") from error
