"""Exact nearest neighbours: distances to the k nearest points of a cloud.

The search compares squared distances from matrix products in single precision. The distances found
are then corrected, and the search is repeated where rounding could have hidden a nearer point. On a
GPU all of it is done there: what is read back in between is which rows are not done.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from isotropy.metrics.compiled import has_kernels, kernel
from isotropy.metrics.distances import centred, squared_norms
from isotropy.metrics.matmul import product, worker_threads
from isotropy.metrics.validation import scaled

MIN_EXTRA_NEIGHBOURS = 8  # minimum number of neighbours to search for beyond k
# Smaller ratios of squared distance to sum of squared norms are computed from the difference.
CANCELLATION_RATIO = 0.02
# Error of a squared distance in float32, relative to the sum of squared norms
ROUNDING_ERROR = 1e-6
NEIGHBOURS_AT_ONCE = 2**23  # neighbours of all rows that are searched together
QUERIES, POINTS = 512, 1024  # per block on the CPU: its products fit into the cache
STRIP = 128  # products that are compared together
GPU_ROWS = 2048  # queries at a time
GPU_DIFFERENCES = 2**25  # coordinates of differences at a time

# `fastmath` lets the comparison be vectorized: all values are finite.
_compiled = kernel(nogil=True, fastmath=True, error_model="numpy")
Search = Callable[[torch.Tensor, torch.Tensor, int], tuple[torch.Tensor, torch.Tensor]]
Correct = Callable[..., torch.Tensor]


def nearest_distances(
    points: torch.Tensor, k: int, rows: torch.Tensor, eligible: torch.Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of query points to their k nearest neighbours, not counting themselves.

    The search computes squared distances from matrix products in float32, so it finds a few more
    neighbours than k, and recomputes distances that lost digits. A row is done when no other point
    can be nearer than its k-th neighbour, else it is searched again. The caller must be decorated
    with `full_precision`.

    Args:
        points: the cloud, shape (n, d), on any device.
        k: number of neighbours; at least as many must exist, also among the eligible points.
        rows: indices of the query points, shape (m,), on the CPU.
        eligible: mask of the neighbours of the second result, shape (n,); None: all points.

    Returns:
        Distances in ascending order, shape (m, k), float64: to neighbours among all points, and to
        neighbours among the eligible points.
    """
    if not points.is_cpu:
        return nearest_distances_on_gpu(points, k, rows, eligible)
    search = search_on_cpu if has_kernels(points) else search_by_torch
    return _nearest_distances(points, k, rows, eligible, search, _correct_distances)


def nearest_distances_on_gpu(
    points: torch.Tensor, k: int, rows: torch.Tensor, eligible: torch.Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `nearest_distances` on the device of the points, which is waited for once per search
    and for the results. It is correct on the CPU, too, where the tests run it.
    """
    rows = rows.to(points.device, non_blocking=True)
    if eligible is not None:
        eligible = eligible.to(points.device, non_blocking=True)
    return _nearest_distances(points, k, rows, eligible, search_by_torch, _recompute_distances)


def _nearest_distances(
    points: torch.Tensor,
    k: int,
    rows: torch.Tensor,
    eligible: torch.Tensor | None,
    search: Search,
    correct: Correct,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute `nearest_distances` by a search, `search_on_cpu` or `search_by_torch`, and a
    correction, `_correct_distances` or `_recompute_distances`. All tensors are on one device.
    """
    points = scaled(points)
    cloud, device = centred(points), points.device
    norms = squared_norms(cloud).float()
    results = [
        torch.empty(len(rows), k, dtype=torch.float64, device=device)
        for _ in range(1 if eligible is None else 2)
    ]
    pending = torch.arange(len(rows), device=device)
    n_searched = min(len(cloud) - 1, k + max(MIN_EXTRA_NEIGHBOURS, k // 8))
    while len(pending):
        unfinished = []
        for part in torch.split(pending, max(1, NEIGHBOURS_AT_ONCE // n_searched)):
            query_rows = rows[part]
            squared, neighbours = search(cloud, query_rows, n_searched)
            corrected = correct(points, query_rows, squared, neighbours, norms)
            done = torch.ones(len(part), dtype=torch.bool, device=device)
            for result, mask in zip(results, (None, eligible), strict=False):
                candidates = (
                    corrected
                    if mask is None
                    else corrected.masked_fill(~mask[neighbours], torch.inf)
                )
                closest = candidates.sort(dim=1).values[:, :k]
                result[part] = closest.sqrt()
                max_norm = norms[query_rows].sqrt() + closest[:, -1].sqrt()
                error = ROUNDING_ERROR * (norms[query_rows] + max_norm.square())
                done &= closest[:, -1] + error <= squared.amax(dim=1) - error
            unfinished.append(~done)
        if n_searched == len(cloud) - 1:
            break
        pending = pending[torch.cat(unfinished)]  # a GPU is waited for
        n_searched = min(len(cloud) - 1, 4 * n_searched)
    arrays = [result.cpu().numpy() for result in results]
    return arrays[0], arrays[-1]


def _correct_distances(
    points: torch.Tensor,
    rows: torch.Tensor,
    squared: torch.Tensor,
    neighbours: torch.Tensor,
    norms: torch.Tensor,
) -> torch.Tensor:
    """Recompute squared distances, shape (rows, neighbours), in float64: all if the points are
    float64, otherwise those that lost digits.
    """
    lost_digits = squared < CANCELLATION_RATIO * (norms[rows, None] + norms[neighbours])
    i, j = torch.nonzero(lost_digits | (points.dtype == torch.float64), as_tuple=True)
    corrected = squared.clamp(min=0).double()
    pairs = max(1, 2**22 // points.shape[1])
    for a, b in zip(torch.split(i, pairs), torch.split(j, pairs), strict=True):
        difference = points[rows[a]] - points[neighbours[a, b]]
        corrected[a, b] = torch.linalg.vector_norm(difference, dim=1).double() ** 2
    return corrected


def _recompute_distances(
    points: torch.Tensor,
    rows: torch.Tensor,
    squared: torch.Tensor,
    neighbours: torch.Tensor,
    norms: torch.Tensor,
) -> torch.Tensor:
    """Same as `_correct_distances`, but of all pairs: on a GPU that costs less than waiting for the
    positions of those that lost digits.
    """
    corrected = torch.empty(squared.shape, dtype=torch.float64, device=squared.device)
    n_rows = max(1, GPU_DIFFERENCES // (squared.shape[1] * points.shape[1]))
    for start in range(0, len(rows), n_rows):
        part = slice(start, start + n_rows)
        differences = points[rows[part], None] - points[neighbours[part]]
        corrected[part] = torch.linalg.vector_norm(differences, dim=2).double() ** 2
    return corrected


def search_on_cpu(
    cloud: torch.Tensor, rows: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the squared distances of query points to their k nearest neighbours, ascending and in
    float32, and the indices of these neighbours, both of shape (rows, k).
    """
    base = cloud.float()
    norms = squared_norms(base)
    squared = torch.full((len(rows), k + 1), torch.finfo(torch.float32).max)
    neighbours = torch.zeros(len(rows), k + 1, dtype=torch.int64)

    def search(first: int) -> None:
        part = slice(first, first + QUERIES)
        queries = base[rows[part]]
        for start in range(0, len(base), POINTS):
            block = slice(start, start + POINTS)
            products = product(queries, base[block]).numpy()
            best_so_far = squared[part].numpy(), neighbours[part].numpy()
            _keep_nearest(products, norms[block].numpy(), start, *best_so_far)

    with worker_threads() as pool:
        list(pool.map(search, range(0, len(rows), QUERIES)))
    squared, order = squared.add_(norms[rows, None]).sort(dim=1, stable=True)
    return _without_self(squared, neighbours.gather(1, order), rows)


def search_by_torch(
    cloud: torch.Tensor, rows: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Same as `search_on_cpu`, in plain torch, block by block, on any device, that of the rows; a
    GPU is not waited for.
    """
    base = cloud.float()
    norms = squared_norms(base)
    parts = []
    for part in torch.split(rows, GPU_ROWS):
        squared = torch.addmm(norms, base[part], base.T, alpha=-2).add_(norms[part, None])
        parts.append(torch.topk(squared, k + 1, largest=False))
    return _without_self(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]), rows)


def _without_self(
    squared: torch.Tensor, neighbours: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Drop each query point from its own k + 1 neighbours, or the last neighbour if equal points
    have displaced it.
    """
    columns = torch.arange(neighbours.shape[1], device=neighbours.device)
    is_self = neighbours == rows[:, None]
    dropped = torch.where(is_self, columns, columns[-1]).amin(dim=1, keepdim=True)
    kept = columns[:-1] + (columns[:-1] >= dropped)
    return squared.gather(1, kept), neighbours.gather(1, kept)


@_compiled
def _keep_nearest(
    products: np.ndarray,
    norms: np.ndarray,
    first: int,
    smallest: np.ndarray,
    neighbours: np.ndarray,
) -> None:
    """Update the k smallest squared distances of each row, minus the row's own squared norm, and
    the indices of their points.

    Args:
        products: scalar products of the rows with a block of points, shape (m, n).
        norms: squared norms of these points, shape (n,).
        first: index of the first of these points.
        smallest: smallest values so far, shape (m, k), each row a heap with the largest first.
        neighbours: indices of their points, shape (m, k).
    """
    zero, one, two = products.dtype.type(0), products.dtype.type(1), products.dtype.type(2)
    for i in range(len(products)):
        row, heap, indices = products[i], smallest[i], neighbours[i]
        for start in range(0, len(row), STRIP):
            strip, strip_norms, largest = (
                row[start : start + STRIP],
                norms[start : start + STRIP],
                heap[0],
            )
            n_nearer = zero  # a float, so that the loop is vectorized
            for j in range(len(strip)):
                n_nearer += one if strip_norms[j] - two * strip[j] < largest else zero
            if n_nearer > zero:
                for j in range(len(strip)):
                    value = strip_norms[j] - two * strip[j]
                    if value < heap[0]:
                        _replace_largest(heap, indices, value, first + start + j)


@_compiled
def _replace_largest(heap: np.ndarray, indices: np.ndarray, value: Any, index: int) -> None:
    """Replace the largest value of a heap, shape (k,), and its index, and restore the order of the
    heap.
    """
    parent, child = 0, 1
    while child < len(heap):
        if child + 1 < len(heap) and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[parent], indices[parent] = heap[child], indices[child]
        parent, child = child, 2 * child + 1
    heap[parent], indices[parent] = value, index
