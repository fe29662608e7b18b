"""The local intrinsic dimension of a cloud, in both metrics and by both estimates (Cai et al. 2021,
section 5).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.geometry.spec import Lid
from isotropy.metrics.dimension import lid_mle_estimates

METRICS: tuple[Literal["euclidean", "cosine"], ...] = ("euclidean", "cosine")


def lid_scores(vectors: np.ndarray, how: Lid, seed: int) -> dict[str, float]:
    """Local intrinsic dimension by Euclidean distances and by cosines, conventional and published.

    Raises:
        IsotropyError: fewer different vectors than neighbours, or a vector that is zero.
    """
    found: dict[str, float] = {}
    for metric in METRICS:
        try:
            both = lid_mle_estimates(
                vectors, how.k, metric=metric, n_queries=how.n_queries, seed=seed
            )
        except ValueError as error:
            raise IsotropyError(f"local dimension: {error}") from error
        found |= {f"lid_{metric}": both.conventional, f"lid_{metric}_published": both.published}
    return found
