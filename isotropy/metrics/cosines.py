"""Mean cosine similarities of a cloud, exact over all pairs, in one pass over the data.

Cai, Huang, Bian & Church (2021), "Isotropy in the Contextual Embedding Space: Clusters and
Manifolds", ICLR, section 3.

The sum of the cosines over all pairs is the squared length of the sum of the unit vectors. With u
the unit vectors and m the mean of u over the occurrences of a type:

    mean cosine = (|sum u|^2 - n) / (n (n - 1))
    S_inter     = (|sum m|^2 - sum |m|^2) / (T (T - 1))                   over the T types
    S_intra     = mean over types of (|sum u|^2 - k) / (k (k - 1))        types with k >= 2
    occurrences

S_inter is the expected value of the published estimate, which draws one occurrence per type;
S_intra is what the published estimate becomes without its limit of 1,000 occurrences. A zero vector
has no direction: its cosines count as 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.sparse import csr_array

from isotropy.metrics.isoscores import standard_error
from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision
from isotropy.metrics.validation import (
    Points,
    aligned,
    as_codes,
    as_points,
    require_dimensions,
    require_finite,
    require_same_dimensions,
    require_size,
    scaled,
)

# In bytes: a larger array has its own memory mapping, aligned the same way in every process, and
# copying it would take longer than its mean cosine.
MMAP_THRESHOLD = 2**25
# Squares of coordinates up to these, and of their inverses, and their sums are in the float range.
_REACH, _REACH_SINGLE = 1e140, 1e9


class TypeCosines(NamedTuple):
    """S_inter, NaN without two types, and S_intra, NaN without a type with two occurrences."""

    s_inter: float
    s_intra: float


@full_precision
def mean_cosine(X: Points) -> float:
    """Mean cosine over all pairs i != j, in [-1/(n - 1), 1]. Raises ValueError for bad shapes, NaN
    or infinity.

    Args:
        X: point cloud, shape (n, d), n >= 2, array or tensor on any device.

    Examples:
        >>> mean_cosine([[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, -4.0]])
        0.0
    """
    points = as_points(X, min_dims=1, finite=False, in_place=True).detach()
    if points.nbytes <= MMAP_THRESHOLD:
        points = aligned(points)
    total = torch.zeros(points.shape[1], dtype=torch.float64, device=points.device)
    n_nonzero = torch.zeros((), dtype=torch.int64, device=points.device)
    info = torch.finfo(points.dtype)
    smallest = (info.tiny / info.eps) ** 0.5  # underflow has cost shorter vectors digits
    for block in torch.split(points, ROWS_PER_BLOCK):  # stays cached for its second pass
        norms = torch.linalg.vector_norm(block, dim=1)
        nonzero = norms > smallest
        total += torch.where(nonzero, 1 / norms, 0) @ block
        n_nonzero += (nonzero & torch.isfinite(norms)).sum()
    n = len(points)
    if int(n_nonzero) < n or not bool(torch.isfinite(total).all()):
        rescaled = _rescaled(points)
        if rescaled is not points:
            return mean_cosine(rescaled)
    return float((total.square().sum() - n_nonzero) / (n * (n - 1)))


def _rescaled(points: torch.Tensor) -> torch.Tensor:
    """Divide each vector whose squares may leave the float range by its largest coordinate; return
    the points themselves if there is none. Raises a ValueError for NaN or infinity.
    """
    require_finite(points)
    largest = points.abs().amax(dim=1, keepdim=True)
    reach = _REACH if points.dtype == torch.float64 else _REACH_SINGLE
    far = (largest > 0) & ~((largest > 1 / reach) & (largest < reach))
    return torch.where(far, points / largest, points) if bool(far.any()) else points


def mean_cosine_standard_error(X: Points) -> float:
    """Standard error of `mean_cosine` over points. Raises ValueError for bad shapes, NaN or
    infinity.

    Where the mean cosine is near 0, it is 1.2 to 1.5 times too large, since it counts the part of
    pairs of points twice: too cautious there.

    Args:
        X: point cloud, shape (n, d), n >= 3, array or tensor on any device.

    Examples:
        >>> cloud = [[1.0, 0.0], [0.0, 2.0], [3.0, 0.0], [0.0, -4.0]]
        >>> round(mean_cosine_standard_error(cloud), 3)
        0.385

    Source:
        Hoeffding (1948): the mean over pairs is a U-statistic, whose variance follows from the
        mean cosine of each point with the others.
    """
    points = scaled(as_points(X, min_points=3, min_dims=1).detach().double())
    lengths = torch.linalg.vector_norm(points, dim=1, keepdim=True)
    unit = points / torch.where(lengths > 0, lengths, torch.inf)
    means = (unit @ unit.sum(dim=0) - unit.square().sum(dim=1)) / (len(unit) - 1)
    return standard_error(2 * (means - means.mean()))


class StreamingMeanCosine:
    """Mean cosine over all pairs i != j of vectors that arrive in batches: the streaming version of
    `mean_cosine`.
    """

    def __init__(self, d: int) -> None:
        require_size(d, "d")
        self.total = torch.zeros(d, dtype=torch.float64)
        self.n = self.n_nonzero = 0

    def reset(self) -> None:
        """Discard all vectors."""
        self.total = torch.zeros_like(self.total)
        self.n = self.n_nonzero = 0

    def update(self, X: Points) -> None:
        """Add a batch of vectors, shape (n, d), n >= 1. Raises ValueError for bad shapes, NaN or
        infinity.
        """
        points = as_points(X, min_points=1, min_dims=1, in_place=True).detach()
        require_dimensions(points, len(self.total))
        points = aligned(points.double())
        norms = torch.linalg.vector_norm(points, dim=1)
        if not bool(((norms > 1 / _REACH) & (norms < _REACH)).all()):
            points = _rescaled(points)
            norms = torch.linalg.vector_norm(points, dim=1)
        self.total = self.total + (torch.where(norms > 0, 1 / norms, 0) @ points).cpu()
        self.n_nonzero += int((norms > 0).sum())
        self.n += len(points)

    def merge(self, other: StreamingMeanCosine) -> None:
        """Add the vectors of another stream, as if they had been seen here.

        Raises:
            ValueError: another number of dimensions.
        """
        require_same_dimensions(len(self.total), len(other.total))
        self.total = self.total + other.total
        self.n_nonzero += other.n_nonzero
        self.n += other.n

    def compute(self) -> float:
        """Return the mean so far, in [-1/(n - 1), 1]; fewer than two vectors are a ValueError."""
        if self.n < 2:
            raise ValueError(
                f"a mean cosine needs at least 2 vectors, the stream has seen {self.n}"
            )
        return float((self.total.square().sum() - self.n_nonzero) / (self.n * (self.n - 1)))


def s_inter(X: Points, types: Any, clusters: Any = None, *, weighted: bool = False) -> float:
    """Mean cosine between different types. Arguments and errors as in `type_cosines`, and a
    ValueError if no cluster contains two types.
    """
    score = type_cosines(X, types, clusters, weighted=weighted).s_inter
    if np.isnan(score):
        raise ValueError("s_inter needs a cluster with at least two types")
    return score


def s_intra(X: Points, types: Any, clusters: Any = None, *, weighted: bool = False) -> float:
    """Mean cosine within types. Arguments and errors as in `type_cosines`, and a ValueError if no
    type occurs twice in a cluster.
    """
    score = type_cosines(X, types, clusters, weighted=weighted).s_intra
    if np.isnan(score):
        raise ValueError("s_intra needs a type with two occurrences or more in one cluster")
    return score


def type_cosines(
    X: Points, types: Any, clusters: Any = None, *, weighted: bool = False
) -> TypeCosines:
    """S_inter and S_intra together, or their adjusted versions S'_inter and S'_intra within
    clusters.

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        types: type of each token, shape (n,).
        clusters: cluster of each token, shape (n,). If given, each cluster is centred, and each
            score is computed within clusters and averaged over the clusters where it is defined.
        weighted: weight clusters by their number of tokens; the paper takes the plain mean.

    Raises:
        ValueError: bad shapes, NaN or infinity.
    """
    points = scaled(as_points(X, min_dims=1).detach())
    n, eps = len(points), torch.finfo(points.dtype).eps
    vectors = points.double().cpu().numpy()
    type_codes = as_codes(types, n, name="types", min_classes=1).numpy()
    cluster_codes = np.zeros(n, dtype=np.int64)
    smallest = np.zeros(1)
    if clusters is not None:
        cluster_codes = as_codes(clusters, n, name="clusters", min_classes=1).numpy()
        sums, counts = _sums_by_code(vectors, cluster_codes)
        means = sums / counts[:, None]
        vectors = vectors - means[cluster_codes]
        smallest = 4 * eps * np.linalg.norm(means, axis=1)  # the rounding error of a mean
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
    nonzero = lengths > smallest[cluster_codes]
    units = vectors / np.where(nonzero, lengths, np.inf)[:, None]
    # A group is the occurrences of one type in one cluster.
    n_types = int(type_codes.max()) + 1
    group_keys, groups = np.unique(cluster_codes * n_types + type_codes, return_inverse=True)
    group_clusters = group_keys // n_types
    sums, k = _sums_by_code(units, groups)
    squares = np.einsum("ij,ij->i", sums, sums)
    centres, n_groups = _sums_by_code(sums / k[:, None], group_clusters)
    repeated = k > 1
    with np.errstate(divide="ignore", invalid="ignore"):  # NaN where a score is not defined
        within = (squares - np.bincount(groups, nonzero)) / (k * (k - 1.0))
        squared_means = np.bincount(group_clusters, squares / k**2)
        inter = ((centres**2).sum(axis=1) - squared_means) / (n_groups * (n_groups - 1.0))
        total = np.bincount(group_clusters[repeated], within[repeated], len(n_groups))
        intra = total / np.bincount(group_clusters[repeated], minlength=len(n_groups))
    weights = np.bincount(cluster_codes) if weighted else np.ones(len(n_groups))
    return TypeCosines(_weighted_mean(inter, weights), _weighted_mean(intra, weights))


def _sums_by_code(vectors: np.ndarray, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums of the vectors of each code, shape (codes, d), and their numbers."""
    order, counts = np.argsort(codes, kind="stable"), np.bincount(codes)
    rows = csr_array((np.ones(len(codes)), order, np.r_[0, np.cumsum(counts)]))
    return rows @ vectors, counts


def _weighted_mean(values: np.ndarray, weights: np.ndarray) -> float:
    """Return the weighted mean of the finite values, NaN if there are none."""
    defined = np.isfinite(values)
    if not defined.any():
        return float("nan")
    return float((values[defined] * weights[defined]).sum() / weights[defined].sum())
