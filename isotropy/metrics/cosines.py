"""Mean cosine similarities of a cloud, exact over all pairs in one read of the data.

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
from numba import njit

from isotropy.metrics.compiled import KEPT
from isotropy.metrics.matmul import ROWS_PER_BLOCK, full_precision, worker_threads
from isotropy.metrics.validation import Points, aligned, as_codes, as_points, require_finite

# Parts of the data, whatever the number of threads, so that the bytes do not depend on it.
BLOCKS = 64
# Bytes: an array beyond is a mapping of its own, at the same place of a page in every process, and
# copying it would take longer than its mean cosine.
MAPPED = 2**25


class TypeCosines(NamedTuple):
    """S_inter and S_intra; NaN where no pair of types, or no type with two occurrences, exists."""

    s_inter: float
    s_intra: float


@full_precision
def mean_cosine(X: Points) -> float:
    """Mean cosine over all pairs i != j, in [-1/(n - 1), 1]. Raises ValueError for bad shapes, NaN
    or infinity.

    Args:
        X: point cloud, shape (n, d), n >= 2, array or tensor on any device.
    """
    points = as_points(X, min_dims=1, finite=False, in_place=True).detach()
    if points.nbytes <= MAPPED:
        points = aligned(points)
    total = torch.zeros(points.shape[1], dtype=torch.float64, device=points.device)
    units = torch.zeros((), dtype=torch.int64, device=points.device)
    for block in torch.split(points, ROWS_PER_BLOCK):  # stays in the cache between its two readings
        norms = torch.linalg.vector_norm(block, dim=1)
        directed = norms > _least_square(points.dtype) ** 0.5
        total += torch.where(directed, 1 / norms, 0) @ block
        units += (directed & torch.isfinite(norms)).sum()
    n = len(points)
    if (int(units) < n or not bool(torch.isfinite(total).all())) and (unit := _needed_unit(points)):
        return mean_cosine(points / unit)
    return float((total.square().sum() - units) / (n * (n - 1)))


class StreamingMeanCosine:
    """Mean cosine over all pairs i != j of vectors that arrive in batches, as `mean_cosine` gives
    it for all at once.
    """

    def __init__(self, d: int) -> None:
        self.total = torch.zeros(d, dtype=torch.float64)
        self.n = self.units = 0

    def update(self, X: Points) -> None:
        """Add a batch of vectors, shape (n, d), n >= 1. Raises ValueError for bad shapes, NaN or
        infinity.
        """
        points = as_points(X, min_points=1, min_dims=1, in_place=True).detach()
        points = aligned(points.double())
        norms = torch.linalg.vector_norm(points, dim=1)
        self.total += (torch.where(norms > 0, 1 / norms, 0) @ points).cpu()
        self.units += int((norms > 0).sum())
        self.n += len(points)

    def merge(self, other: StreamingMeanCosine) -> None:
        """Add the vectors of another stream, as if they had been seen here."""
        self.total += other.total
        self.units += other.units
        self.n += other.n

    def compute(self) -> float:
        """The mean so far, in [-1/(n - 1), 1]. Raises ValueError for fewer than two vectors."""
        if self.n < 2:
            raise ValueError(
                f"a mean cosine needs at least 2 vectors, the stream has seen {self.n}"
            )
        return float((self.total.square().sum() - self.units) / (self.n * (self.n - 1)))


def s_inter(X: Points, types: Any, clusters: Any = None, *, weighted: bool = False) -> float:
    """Mean cosine between different types. Arguments and errors as in `type_cosines`; an error if
    no two types meet.
    """
    score = type_cosines(X, types, clusters, weighted=weighted).s_inter
    if np.isnan(score):
        raise ValueError("s_inter needs two types in one cluster at least")
    return score


def s_intra(X: Points, types: Any, clusters: Any = None, *, weighted: bool = False) -> float:
    """Mean cosine within types. Arguments and errors as in `type_cosines`; an error if no type
    occurs twice.
    """
    score = type_cosines(X, types, clusters, weighted=weighted).s_intra
    if np.isnan(score):
        raise ValueError("s_intra needs a type with two occurrences in one cluster at least")
    return score


def type_cosines(
    X: Points, types: Any, clusters: Any = None, *, weighted: bool = False
) -> TypeCosines:
    """S_inter and S_intra together, or their adjusted versions S'_inter and S'_intra within
    clusters.

    Args:
        X: vectors of tokens, shape (n, d), array or tensor on any device.
        types: type of each token, shape (n,).
        clusters: cluster of each token, shape (n,). If given, each cluster is moved to its own
            mean, both scores are taken within it, and averaged over the clusters that have them.
        weighted: average over clusters by their number of tokens; the paper's is the plain mean.

    Raises:
        ValueError: bad shapes, NaN or infinity.
    """
    points = as_points(X, min_dims=1, finite=False, in_place=True).detach()
    n = len(points)
    codes = as_codes(types, n, name="types", min_classes=1)
    if clusters is None:
        cluster = torch.zeros(n, dtype=torch.int64)
        means = torch.zeros(1, points.shape[1], dtype=torch.float64, device=points.device)
    else:
        cluster = as_codes(clusters, n, name="clusters", min_classes=1)
        means = _means(points, cluster)
    # A group is what one type has in one cluster.
    n_types = int(codes.max()) + 1
    pairs, groups = torch.unique(cluster * n_types + codes, return_inverse=True)
    of_cluster = pairs // n_types
    sums = _sums(points, groups, of_cluster, means)
    directed = bool(torch.isfinite(sums.centres).all()) and round(float(sums.units.sum())) == n
    if not directed and (unit := _needed_unit(points)):
        return type_cosines(points / unit, types, clusters, weighted=weighted)
    k = torch.bincount(groups).double()
    types_in = torch.bincount(of_cluster).double()
    within = (sums.squares - sums.units) / (k * (k - 1))  # NaN where k = 1
    inter = (sums.centres.square().sum(dim=1) - _by_cluster(sums.squares / k**2, of_cluster)) / (
        types_in * (types_in - 1)
    )
    repeated = k >= 2
    intra = _by_cluster(within[repeated], of_cluster[repeated], len(types_in)) / torch.bincount(
        of_cluster[repeated], minlength=len(types_in)
    )
    weights = (
        torch.bincount(cluster).double()
        if weighted
        else torch.ones(len(types_in), dtype=torch.float64)
    )
    return TypeCosines(_mean(inter, weights), _mean(intra, weights))


def _least_square(dtype: torch.dtype) -> float:
    """A squared length below this has lost digits to the least float: such a vector counts as
    zero.
    """
    info = torch.finfo(dtype)
    return info.tiny / info.eps


def _needed_unit(points: torch.Tensor) -> float | None:
    """The largest coordinate, if squares of coordinates leave the float range; cosines do not
    depend on the unit.
    """
    require_finite(points)
    unit = float(points.abs().amax())
    return unit if unit and not 1e-9 < unit < 1e9 else None


class _Sums(NamedTuple):
    squares: torch.Tensor  # |sum of unit vectors|^2 of each group, shape (groups,)
    units: torch.Tensor  # number of vectors in each group that have a direction
    # Sum over the groups of a cluster of their mean unit vectors, shape (clusters, d)
    centres: torch.Tensor


def _sums_by_torch(
    points: torch.Tensor, groups: torch.Tensor, of_cluster: torch.Tensor, means: torch.Tensor
) -> _Sums:
    """Sums of unit vectors over groups, shape (n,), each of which lies in one cluster; vectors are
    moved by its mean.
    """
    device, (least, near) = points.device, _limits(points.dtype, means)
    groups, of_cluster = groups.to(device), of_cluster.to(device)
    totals = torch.zeros(len(of_cluster), points.shape[1], dtype=torch.float64, device=device)
    directed = torch.zeros(len(of_cluster), dtype=torch.float64, device=device)
    for block, g in zip(
        torch.split(points, ROWS_PER_BLOCK), torch.split(groups, ROWS_PER_BLOCK), strict=True
    ):
        moved = block.double() - means[of_cluster[g]]
        square = moved.square().sum(dim=1, keepdim=True)
        known = (square > least) & (square > near.to(device)[of_cluster[g], None])
        totals.index_add_(0, g, torch.where(known, moved / square.sqrt(), 0))
        directed.index_add_(0, g, known[:, 0].double())
    counts = torch.bincount(groups)
    centres = torch.zeros_like(means).index_add_(0, of_cluster, totals / counts[:, None])
    return _Sums(totals.square().sum(dim=1).cpu(), directed.cpu(), centres.cpu())


def _sums(
    points: torch.Tensor, groups: torch.Tensor, of_cluster: torch.Tensor, means: torch.Tensor
) -> _Sums:
    """`_sums_by_torch`; on the CPU in one read of the data."""
    if not points.is_cpu:
        return _sums_by_torch(points, groups, of_cluster, means)
    order, counts = torch.argsort(groups, stable=True).numpy(), torch.bincount(groups).numpy()
    starts = np.r_[0, np.cumsum(counts)]
    squares, units = np.zeros(len(counts)), np.zeros(len(counts))
    least, near = _limits(points.dtype, means)
    # Blocks of whole groups with about as many rows each.
    cuts = np.unique(np.searchsorted(starts, np.linspace(0, len(points), BLOCKS + 1)))

    def add(block: tuple[int, int]) -> np.ndarray:
        centres = np.zeros(means.shape)
        arguments = (
            points.numpy(),
            order,
            starts,
            of_cluster.numpy(),
            means.numpy(),
            least,
            near.numpy(),
        )
        _add_units(*arguments, *block, squares, units, centres)
        return centres

    centres = np.zeros(means.shape)
    with worker_threads() as pool:
        for part in pool.map(add, pairwise(cuts)):
            centres += part
    return _Sums(torch.from_numpy(squares), torch.from_numpy(units), torch.from_numpy(centres))


# Sums may be vectorized; NaN and infinity must come through, for they tell that the input held
# them. A loop that sums writes to no array: a compiler that cannot tell whether arrays overlap asks
# where they lie when the loop begins, and sums in another order where it takes them for neighbours.
@njit(cache=KEPT, nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _add_units(
    X: np.ndarray,
    order: np.ndarray,
    starts: np.ndarray,
    of_cluster: np.ndarray,
    means: np.ndarray,
    least: float,
    near: np.ndarray,
    first: int,
    last: int,
    squares: np.ndarray,
    units: np.ndarray,
    centres: np.ndarray,
) -> None:
    """Fill squares and units of groups first..last-1, whose rows are order[starts[g]:starts[g +
    1]], and add to centres.
    """
    d = X.shape[1]
    total = np.empty(d)
    moved, mean = np.empty(d, dtype=X.dtype), np.empty(d, dtype=X.dtype)
    zero, one = X.dtype.type(0), X.dtype.type(1)
    for g in range(first, last):
        mean[:] = means[of_cluster[g]]
        total[:] = 0
        for i in range(starts[g], starts[g + 1]):
            row = X[order[i]]
            for c in range(d):
                moved[c] = row[c] - mean[c]
            square = zero
            for c in range(d):
                square += moved[c] * moved[c]
            # NaN goes on, to be seen in the result
            if not (square <= least or square <= near[of_cluster[g]]):
                length = one / np.sqrt(square)
                units[g] += length > zero  # not where the square left the float range
                for c in range(d):
                    total[c] += moved[c] * length
        length_of_sum = 0.0
        for c in range(d):
            length_of_sum += total[c] * total[c]
        squares[g] = length_of_sum
        into = centres[of_cluster[g]]
        share = 1 / (starts[g + 1] - starts[g])
        for c in range(d):
            into[c] += total[c] * share


def _limits(dtype: torch.dtype, means: torch.Tensor) -> tuple[float, torch.Tensor]:
    """Squared lengths up to which a vector counts as zero: anywhere, and at each cluster's mean,
    whose rounding they are.
    """
    return _least_square(dtype), (4 * torch.finfo(dtype).eps) ** 2 * means.square().sum(dim=1).cpu()


def _means(points: torch.Tensor, cluster: torch.Tensor) -> torch.Tensor:
    """Mean of each cluster, shape (clusters, d), float64."""
    cluster = cluster.to(points.device)
    counts = torch.bincount(cluster)
    total = torch.zeros(len(counts), points.shape[1], dtype=torch.float64, device=points.device)
    for block, codes in zip(
        torch.split(points, ROWS_PER_BLOCK), torch.split(cluster, ROWS_PER_BLOCK), strict=True
    ):
        total.index_add_(0, codes, block.double())
    return total / counts[:, None]


def _by_cluster(
    values: torch.Tensor, of_cluster: torch.Tensor, n: int | None = None
) -> torch.Tensor:
    """Sums of the groups' values over clusters, shape (n clusters,)."""
    return torch.bincount(of_cluster, weights=values, minlength=n or 0)


def _mean(values: torch.Tensor, weights: torch.Tensor) -> float:
    """Weighted mean over the clusters that have a value."""
    known = torch.isfinite(values)
    return (
        float((values[known] * weights[known]).sum() / weights[known].sum())
        if bool(known.any())
        else float("nan")
    )
