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

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.metrics.compiled import has_kernels, kernel
from isotropy.metrics.isoscores import standard_error
from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, worker_threads
from isotropy.metrics.validation import (
    Points,
    aligned,
    as_codes,
    as_points,
    require_dimensions,
    require_finite,
    require_same_dimensions,
    require_size,
)

# Number of blocks of the data, fixed so that results do not depend on the number of threads.
N_BLOCKS = 64
# In bytes: a larger array has its own memory mapping, aligned the same way in every process, and
# copying it would take longer than its mean cosine.
MMAP_THRESHOLD = 2**25


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
    for block in torch.split(points, ROWS_PER_BLOCK):  # stays cached for its second pass
        norms = torch.linalg.vector_norm(block, dim=1)
        nonzero = norms > _min_squared_length(points.dtype) ** 0.5
        total += torch.where(nonzero, 1 / norms, 0) @ block
        n_nonzero += (nonzero & torch.isfinite(norms)).sum()
    n = len(points)
    if (int(n_nonzero) < n or not bool(torch.isfinite(total).all())) and (
        scale := _required_scale(points)
    ):
        return mean_cosine(points / scale)
    return float((total.square().sum() - n_nonzero) / (n * (n - 1)))


def mean_cosine_standard_error(X: Points) -> float:
    """Standard error of `mean_cosine` over points. Raises ValueError for bad shapes, NaN or
    infinity.

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
    points = as_points(X, min_points=3, min_dims=1).detach().double()
    unit = torch.nn.functional.normalize(points / points.abs().max().clamp(min=1e-300), dim=1)
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
        self.total.zero_()
        self.n = self.n_nonzero = 0

    def update(self, X: Points) -> None:
        """Add a batch of vectors, shape (n, d), n >= 1. Raises ValueError for bad shapes, NaN or
        infinity.
        """
        points = as_points(X, min_points=1, min_dims=1, in_place=True).detach()
        require_dimensions(points, len(self.total))
        points = aligned(points.double())
        norms = torch.linalg.vector_norm(points, dim=1)
        self.total += (torch.where(norms > 0, 1 / norms, 0) @ points).cpu()
        self.n_nonzero += int((norms > 0).sum())
        self.n += len(points)

    def merge(self, other: StreamingMeanCosine) -> None:
        """Add the vectors of another stream, as if they had been seen here.

        Raises:
            ValueError: another number of dimensions.
        """
        require_same_dimensions(len(self.total), len(other.total))
        self.total += other.total
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
    points = as_points(X, min_dims=1, finite=False, in_place=True).detach()
    n = len(points)
    type_codes = as_codes(types, n, name="types", min_classes=1)
    if clusters is None:
        cluster_codes = torch.zeros(n, dtype=torch.int64)
        means = torch.zeros(1, points.shape[1], dtype=torch.float64, device=points.device)
    else:
        cluster_codes = as_codes(clusters, n, name="clusters", min_classes=1)
        means = _cluster_means(points, cluster_codes)
    # A group is the occurrences of one type in one cluster.
    n_types = int(type_codes.max()) + 1
    group_keys, groups = torch.unique(cluster_codes * n_types + type_codes, return_inverse=True)
    group_clusters = group_keys // n_types
    sums = _sums(points, groups, group_clusters, means)
    all_nonzero = (
        bool(torch.isfinite(sums.centres).all()) and round(float(sums.n_nonzero.sum())) == n
    )
    if not all_nonzero and (scale := _required_scale(points)):
        return type_cosines(points / scale, types, clusters, weighted=weighted)
    k = torch.bincount(groups).double()
    n_types_per_cluster = torch.bincount(group_clusters).double()
    within = (sums.squares - sums.n_nonzero) / (k * (k - 1))  # NaN where k = 1
    inter = (
        sums.centres.square().sum(dim=1) - _sum_by_cluster(sums.squares / k**2, group_clusters)
    ) / (n_types_per_cluster * (n_types_per_cluster - 1))
    repeated = k >= 2
    intra = _sum_by_cluster(
        within[repeated], group_clusters[repeated], len(n_types_per_cluster)
    ) / torch.bincount(group_clusters[repeated], minlength=len(n_types_per_cluster))
    sizes = torch.bincount(cluster_codes).double()
    weights = sizes if weighted else torch.ones_like(n_types_per_cluster)
    return TypeCosines(_weighted_mean(inter, weights), _weighted_mean(intra, weights))


def _min_squared_length(dtype: torch.dtype) -> float:
    """Return the squared length below which a vector counts as zero, since underflow has cost it
    digits.
    """
    info = torch.finfo(dtype)
    return info.tiny / info.eps


def _required_scale(points: torch.Tensor) -> float | None:
    """Return the largest coordinate, to divide by it, if squares of coordinates leave the float
    range, else None. Raises ValueError for NaN or infinity.
    """
    require_finite(points)
    scale = float(points.abs().amax())
    return scale if scale and not 1e-9 < scale < 1e9 else None


class _UnitVectorSums(NamedTuple):
    squares: torch.Tensor  # |sum of unit vectors|^2 of each group, shape (groups,)
    n_nonzero: torch.Tensor  # number of vectors in each group that are not zero
    # Sum over the groups of a cluster of their mean unit vectors, shape (clusters, d)
    centres: torch.Tensor


def _sums_by_torch(
    points: torch.Tensor, groups: torch.Tensor, group_clusters: torch.Tensor, means: torch.Tensor
) -> _UnitVectorSums:
    """Sum unit vectors over groups, in plain torch on any device. Vectors are first centred on the
    cluster that contains their group; `groups` has shape (n,).
    """
    device, (threshold, cluster_thresholds) = points.device, _zero_thresholds(points.dtype, means)
    groups, group_clusters = groups.to(device), group_clusters.to(device)
    totals = torch.zeros(len(group_clusters), points.shape[1], dtype=torch.float64, device=device)
    n_nonzero = torch.zeros(len(group_clusters), dtype=torch.float64, device=device)
    for block, block_groups in zip(
        torch.split(points, ROWS_PER_BLOCK), torch.split(groups, ROWS_PER_BLOCK), strict=True
    ):
        centred = block.double() - means[group_clusters[block_groups]]
        square = centred.square().sum(dim=1, keepdim=True)
        nonzero = (square > threshold) & (
            square > cluster_thresholds.to(device)[group_clusters[block_groups], None]
        )
        totals.index_add_(0, block_groups, torch.where(nonzero, centred / square.sqrt(), 0))
        n_nonzero.index_add_(0, block_groups, nonzero[:, 0].double())
    counts = torch.bincount(groups)
    centres = torch.zeros_like(means).index_add_(0, group_clusters, totals / counts[:, None])
    return _UnitVectorSums(totals.square().sum(dim=1).cpu(), n_nonzero.cpu(), centres.cpu())


def _sums(
    points: torch.Tensor, groups: torch.Tensor, group_clusters: torch.Tensor, means: torch.Tensor
) -> _UnitVectorSums:
    """Same as `_sums_by_torch`, but on the CPU by a compiled kernel in one pass over the data."""
    if not has_kernels(points):
        return _sums_by_torch(points, groups, group_clusters, means)
    order, counts = torch.argsort(groups, stable=True).numpy(), torch.bincount(groups).numpy()
    starts = np.r_[0, np.cumsum(counts)]
    squares, n_nonzero = np.zeros(len(counts)), np.zeros(len(counts))
    threshold, cluster_thresholds = _zero_thresholds(points.dtype, means)
    # Blocks of whole groups with about as many rows each.
    block_ends = np.unique(np.searchsorted(starts, np.linspace(0, len(points), N_BLOCKS + 1)))

    def add(block: tuple[int, int]) -> np.ndarray:
        centres = np.zeros(means.shape)
        arguments = (
            points.numpy(),
            order,
            starts,
            group_clusters.numpy(),
            means.numpy(),
            threshold,
            cluster_thresholds.numpy(),
        )
        _add_units(*arguments, *block, squares, n_nonzero, centres)
        return centres

    centres = np.zeros(means.shape)
    with worker_threads() as pool:
        for part in pool.map(add, pairwise(block_ends)):
            centres += part
    return _UnitVectorSums(
        torch.from_numpy(squares), torch.from_numpy(n_nonzero), torch.from_numpy(centres)
    )


# Sums may be vectorized, but NaN and infinity must propagate, to reveal such input. Loops that sum
# do not write to arrays: otherwise the compiler adds a check for overlapping arrays, and the order
# of summation depends on their addresses.
@kernel(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _add_units(
    X: np.ndarray,
    order: np.ndarray,
    starts: np.ndarray,
    group_clusters: np.ndarray,
    means: np.ndarray,
    threshold: float,
    cluster_thresholds: np.ndarray,
    first: int,
    last: int,
    squares: np.ndarray,
    n_nonzero: np.ndarray,
    centres: np.ndarray,
) -> None:
    """Fill `squares` and `n_nonzero` for groups first..last-1, whose rows are
    order[starts[g]:starts[g + 1]], and add their mean unit vectors to `centres`.
    """
    d = X.shape[1]
    total = np.empty(d)
    centred, mean = np.empty(d, dtype=X.dtype), np.empty(d, dtype=X.dtype)
    zero, one = X.dtype.type(0), X.dtype.type(1)
    for g in range(first, last):
        mean[:] = means[group_clusters[g]]
        total[:] = 0
        for i in range(starts[g], starts[g + 1]):
            row = X[order[i]]
            for c in range(d):
                centred[c] = row[c] - mean[c]
            square = zero
            for c in range(d):
                square += centred[c] * centred[c]
            # NaN is let through, to appear in the result
            if not (square <= threshold or square <= cluster_thresholds[group_clusters[g]]):
                inverse_length = one / np.sqrt(square)
                n_nonzero[g] += inverse_length > zero  # 0 if the square overflowed
                for c in range(d):
                    total[c] += centred[c] * inverse_length
        squared_sum = 0.0
        for c in range(d):
            squared_sum += total[c] * total[c]
        squares[g] = squared_sum
        centre = centres[group_clusters[g]]
        weight = 1 / (starts[g + 1] - starts[g])
        for c in range(d):
            centre[c] += total[c] * weight


def _zero_thresholds(dtype: torch.dtype, means: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Return the squared lengths up to which a vector counts as zero: one for all vectors, and one
    for each cluster, which is the rounding error of its mean.
    """
    return _min_squared_length(dtype), (4 * torch.finfo(dtype).eps) ** 2 * means.square().sum(
        dim=1
    ).cpu()


def _cluster_means(points: torch.Tensor, cluster_codes: torch.Tensor) -> torch.Tensor:
    """Mean of each cluster, shape (clusters, d), float64."""
    cluster_codes = cluster_codes.to(points.device)
    counts = torch.bincount(cluster_codes)
    total = torch.zeros(len(counts), points.shape[1], dtype=torch.float64, device=points.device)
    for block, block_codes in zip(
        torch.split(points, ROWS_PER_BLOCK), torch.split(cluster_codes, ROWS_PER_BLOCK), strict=True
    ):
        total.index_add_(0, block_codes, block.double())
    return total / counts[:, None]


def _sum_by_cluster(
    values: torch.Tensor, group_clusters: torch.Tensor, n: int | None = None
) -> torch.Tensor:
    """Sum values of groups over their clusters, shape (n_clusters,)."""
    return torch.bincount(group_clusters, weights=values, minlength=n or 0)


def _weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> float:
    """Return the weighted mean of the finite values, NaN if there are none."""
    defined = torch.isfinite(values)
    return (
        float((values[defined] * weights[defined]).sum() / weights[defined].sum())
        if bool(defined.any())
        else float("nan")
    )
