"""Metrics of embedding spaces. Each takes a point cloud of shape (n, d) as array or tensor."""

from isotropy.metrics.isoscore import isoscore
from isotropy.metrics.silhouette import silhouette, silhouette_samples

__all__ = ["isoscore", "silhouette", "silhouette_samples"]
