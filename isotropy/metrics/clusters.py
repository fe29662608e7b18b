"""Number of clusters of a cloud, as Cai et al. determine it.

Cai, Huang, Bian & Church (2021), "Isotropy in the Contextual Embedding Space: Clusters and
Manifolds", ICLR, section 4.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from isotropy.metrics.kmeans import kmeans
from isotropy.metrics.silhouettes import silhouette_of_labelings
from isotropy.metrics.validation import Points, as_points, sample_rows, scaled


class ClusterCount(NamedTuple):
    """Number of clusters of a cloud, and how it was chosen.

    Attributes:
        k: number of clusters.
        labels: cluster of each point, shape (n,).
        silhouettes: silhouette for each k that was tried; NaN if the sample contains only one
            cluster.
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
    """Cluster by k-means for each k and choose the k of the largest silhouette; one cluster if that
    silhouette is below the threshold.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device; k-means runs on the CPU, on all
            points.
        k_range: numbers of clusters to try.
        sample_size: number of points in the sample whose silhouette is computed, the same for all
            k; None: all points.
        threshold: minimum silhouette; below it the cloud counts as one cluster.
        seed: seed of k-means (its k-means++ initializations) and of the sample. The authors set no
            seed.
        n_init: number of initializations of k-means for each k.
        max_iter: maximum number of iterations of k-means.

    Raises:
        ValueError: bad shapes, NaN or infinity, a k below 2 or not below the number of different
            points, or `n_init` or `max_iter` below 1.
    """
    points = as_points(X, min_dims=1).detach()
    k_values, n = sorted(set(k_range)), len(points)
    if not k_values or k_values[0] < 2 or k_values[-1] >= n:
        raise ValueError(
            f"k_range must hold numbers from 2 to {n - 1} for {n} points, got {k_values}"
        )
    array = scaled(points).cpu().numpy()
    runs = kmeans(array, k_values, n_init=n_init, max_iter=max_iter, seed=seed)
    labels = {k: run.labels for k, run in runs.items()}
    for k in k_values:
        if (n_found := len(np.unique(labels[k]))) < k:
            raise ValueError(
                f"k-means found {n_found} clusters for k = {k}: too few different points"
            )
    rows = torch.arange(n) if sample_size is None else sample_rows(n, sample_size, seed)
    silhouettes = _sample_silhouettes(points, labels, rows)
    best = max((k for k in k_values if not np.isnan(silhouettes[k])), key=lambda k: silhouettes[k])
    if silhouettes[best] < threshold:
        return ClusterCount(1, np.zeros(n, dtype=labels[best].dtype), silhouettes)
    return ClusterCount(best, labels[best], silhouettes)


def _sample_silhouettes(
    points: torch.Tensor, labels: dict[int, np.ndarray], rows: torch.Tensor
) -> dict[int, float]:
    """Return the silhouette of a sample for each number of clusters; NaN if it has only one."""
    sample_labels = {k: all_labels[rows.numpy()] for k, all_labels in labels.items()}
    # If the sample misses all clusters but one, it has no silhouette.
    scored_ks = [
        k for k, labels_of_k in sample_labels.items() if 1 < len(np.unique(labels_of_k)) < len(rows)
    ]
    if not scored_ks:
        raise ValueError(
            f"the sample of {len(rows)} points contains only one cluster for each k: use a larger "
            "sample_size"
        )
    scores = silhouette_of_labelings(
        points[rows.to(points.device)], [sample_labels[k] for k in scored_ks]
    )
    return dict.fromkeys(labels, float("nan")) | dict(zip(scored_ks, scores.tolist(), strict=True))
