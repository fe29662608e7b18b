"""How many clusters a cloud has, as Cai et al. count them.

Cai, Huang, Bian & Church (2021), "Isotropy in the Contextual Embedding Space: Clusters and
Manifolds", ICLR, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from isotropy.metrics.distances import scaled
from isotropy.metrics.kmeans import kmeans
from isotropy.metrics.silhouettes import silhouette_of_labelings
from isotropy.metrics.validation import Points, as_points, sample_rows


class ClusterCount(NamedTuple):
    """The number of clusters, the cluster of each point, shape (n,), and the silhouette for each k
    that was tried.

    A silhouette is NaN where the sample holds no two clusters.
    """

    k: int
    labels: np.ndarray
    silhouettes: dict[int, float]


def cluster_count(
    X: Points,
    *,
    k_range: Iterable[int] = range(2, 16),
    sample_size: int | None = 20_000,
    threshold: float = 0.1,
    seed: int = 0,
    n_init: int = 1,
    max_iter: int = 300,
) -> ClusterCount:
    """Cluster by k-means for each k and take the k of largest silhouette; one cluster if that is
    under the threshold.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device; k-means runs on the CPU, on all
            points.
        k_range: numbers of clusters that are tried.
        sample_size: points on which the silhouette is taken, one sample for all k; None: all.
        threshold: least silhouette of a cloud that has clusters.
        seed: of k-means (k-means++ starts) and of the sample. The authors seed nothing.
        n_init: starts of k-means for each k.
        max_iter: its iterations.

    Raises:
        ValueError: bad shapes, NaN or infinity, a k below 2 or not below the number of different
            points, or no start or iteration.
    """
    points = as_points(X, min_dims=1).detach()
    tried, n = sorted(set(k_range)), len(points)
    if not tried or tried[0] < 2 or tried[-1] >= n:
        raise ValueError(f"k_range must hold numbers from 2 to {n - 1} for {n} points, got {tried}")
    array = scaled(points).cpu().numpy()
    runs = kmeans(array, tried, n_init=n_init, max_iter=max_iter, seed=seed)
    labels = {k: run.labels for k, run in runs.items()}
    for k in tried:
        if (there := len(np.unique(labels[k]))) < k:
            raise ValueError(
                f"k-means found {there} clusters for k = {k}: too few different points"
            )
    rows = torch.arange(n) if sample_size is None else sample_rows(n, sample_size, seed)
    found = _silhouettes(points, labels, rows)
    best = max((k for k in tried if not np.isnan(found[k])), key=lambda k: found[k])
    if found[best] < threshold:
        return ClusterCount(1, np.zeros(n, dtype=labels[best].dtype), found)
    return ClusterCount(best, labels[best], found)


def _silhouettes(
    points: torch.Tensor, labels: dict[int, np.ndarray], rows: torch.Tensor
) -> dict[int, float]:
    """Silhouette of some rows for each number of clusters; NaN where they hold no two clusters."""
    seen = {k: of_all[rows.numpy()] for k, of_all in labels.items()}
    # A cluster so small that the sample misses all but one has no silhouette there.
    scored = [k for k, sampled in seen.items() if 1 < len(np.unique(sampled)) < len(rows)]
    if not scored:
        raise ValueError(
            f"the sample of {len(rows)} points holds one cluster for each k: take a larger "
            "sample_size"
        )
    scores = silhouette_of_labelings(points[rows.to(points.device)], [seen[k] for k in scored])
    return dict.fromkeys(labels, float("nan")) | dict(zip(scored, scores.tolist(), strict=True))
