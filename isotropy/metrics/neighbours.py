"""Nearest neighbours, exact: distances to the k nearest points of a cloud.

The search compares squared distances from matrix products, in single precision; what it finds is
then put right, and searched again where rounding could have hidden a nearer point.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit

from isotropy.metrics.compiled import KEPT
from isotropy.metrics.distances import centred, scaled, squared_norms
from isotropy.metrics.matmul import product, worker_threads

EXTRA = 8  # neighbours searched beyond k, at least
# Squared distance over the sum of squared norms, under which it is computed from the difference
LOST = 0.02
ROUNDING = 1e-6  # error of a squared distance in float32, over the sum of squared norms
NEIGHBOURS_AT_ONCE = 2**23  # in the search, over all rows of a part
QUERIES, POINTS = 512, 1024  # of a block on the CPU, whose products lie in the cache
STRIP = 128  # products that are compared together
GPU_ROWS = 2048  # queries at a time

# `fastmath` lets the comparison be vectorized: all values are finite.
_compiled = njit(cache=KEPT, nogil=True, fastmath=True, error_model="numpy")


def nearest(
    points: torch.Tensor, k: int, rows: torch.Tensor, kept: torch.Tensor | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Distances of some points to their k nearest neighbours, themselves left out.

    The search works in float32, with squared distances from matrix products. So a few more
    neighbours are taken than asked for, squares that lost digits are computed again from the
    difference, and a row is done when no point beyond those found can be nearer than its k-th
    (whose length is then at most the row's own and that distance); else it is searched again for
    more. For a caller with `full_precision`.

    Args:
        points: the cloud, shape (n, d), on any device.
        k: neighbours; each row has as many, kept ones too.
        rows: numbers of the points that are measured, shape (m,), on the CPU.
        kept: points that count as neighbours in the second result, boolean, shape (n,); None: all.

    Returns:
        Distances in ascending order, shape (m, k), float64: with neighbours among all points, and
        among those that are kept.
    """
    points = scaled(points)
    cloud = centred(points)
    search = search_on_cpu if cloud.is_cpu else search_by_torch
    norms = squared_norms(cloud).cpu().float()
    results = [
        torch.empty(len(rows), k, dtype=torch.float64) for _ in range(1 if kept is None else 2)
    ]
    waiting, wanted = torch.arange(len(rows)), min(len(cloud) - 1, k + max(EXTRA, k // 8))
    while len(waiting):
        again = []
        for part in torch.split(waiting, max(1, NEIGHBOURS_AT_ONCE // wanted)):
            own = rows[part]
            squared, found = search(cloud, own, wanted)
            exact = _corrected(points, own, squared, found, norms)
            done = torch.ones(len(part), dtype=torch.bool)
            for result, others in zip(results, (None, kept), strict=False):
                among = exact if others is None else exact.masked_fill(~others[found], torch.inf)
                closest = among.sort(dim=1).values[:, :k]
                result[part] = closest.sqrt()
                reach = norms[own].sqrt() + closest[:, -1].sqrt()
                error = ROUNDING * (norms[own] + reach.square())
                done &= closest[:, -1] + error <= squared.amax(dim=1) - error
            again.append(part[~done & (wanted < len(cloud) - 1)])
        waiting, wanted = torch.cat(again), min(len(cloud) - 1, 4 * wanted)
    return results[0].numpy(), results[-1].numpy()


def _corrected(
    points: torch.Tensor,
    rows: torch.Tensor,
    squared: torch.Tensor,
    found: torch.Tensor,
    norms: torch.Tensor,
) -> torch.Tensor:
    """Squared distances, shape (rows, neighbours), float64: all anew for double points, else those
    that lost digits.
    """
    lost = squared < LOST * (norms[rows, None] + norms[found])
    i, j = torch.nonzero(lost | (points.dtype == torch.float64), as_tuple=True)
    exact = squared.clamp(min=0).double()
    pairs = max(1, 2**22 // points.shape[1])
    for a, b in zip(torch.split(i, pairs), torch.split(j, pairs), strict=True):
        difference = points[rows[a].to(points.device)] - points[found[a, b].to(points.device)]
        exact[a, b] = torch.linalg.vector_norm(difference, dim=1).double().cpu() ** 2
    return exact


def search_on_cpu(
    cloud: torch.Tensor, rows: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Squared distances of some points of a cloud to their k nearest neighbours, ascending, and the
    neighbours' numbers, shapes (rows, k); in float32.
    """
    base = cloud.float()
    norms = squared_norms(base)
    squared = torch.full((len(rows), k + 1), torch.finfo(torch.float32).max)
    found = torch.zeros(len(rows), k + 1, dtype=torch.int64)

    def search(first: int) -> None:
        part = slice(first, first + QUERIES)
        own = base[rows[part]]
        for start in range(0, len(base), POINTS):
            others = slice(start, start + POINTS)
            products = product(own, base[others]).numpy()
            kept = squared[part].numpy(), found[part].numpy()
            _keep_nearest(products, norms[others].numpy(), start, *kept)

    with worker_threads() as pool:
        list(pool.map(search, range(0, len(rows), QUERIES)))
    squared, order = squared.add_(norms[rows, None]).sort(dim=1, stable=True)
    return _without_self(squared, found.gather(1, order), rows)


def search_by_torch(
    cloud: torch.Tensor, rows: torch.Tensor, k: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The same in plain torch, block by block, on any device."""
    base = cloud.float()
    norms = squared_norms(base)
    parts = []
    for part in torch.split(rows, GPU_ROWS):
        own = part.to(cloud.device)
        squared = torch.addmm(norms, base[own], base.T, alpha=-2).add_(norms[own, None])
        parts.append([t.cpu() for t in torch.topk(squared, k + 1, largest=False)])
    return _without_self(torch.cat([p[0] for p in parts]), torch.cat([p[1] for p in parts]), rows)


def _without_self(
    squared: torch.Tensor, found: torch.Tensor, rows: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Drop each row's own number from its k + 1 neighbours, or the last where equal points have
    pushed it out.
    """
    own = found == rows[:, None]
    own[~own.any(dim=1), -1] = True
    shape = (len(rows), found.shape[1] - 1)
    return squared[~own].reshape(shape), found[~own].reshape(shape)


@_compiled
def _keep_nearest(
    products: np.ndarray, norms: np.ndarray, first: int, least: np.ndarray, found: np.ndarray
) -> None:
    """Keep the least squared distances of each row so far, minus the row's own squared norm, and
    which points they belong to.

    Args:
        products: scalar products of the rows with some points, shape (m, n).
        norms: squared norms of the points, shape (n,).
        first: number of the first of these points.
        least: the least so far, shape (m, k), each row a heap: the largest comes first.
        found: numbers of their points.
    """
    zero, one, two = products.dtype.type(0), products.dtype.type(1), products.dtype.type(2)
    for i in range(len(products)):
        row, heap, numbers = products[i], least[i], found[i]
        for start in range(0, len(row), STRIP):
            strip, own, largest = row[start : start + STRIP], norms[start : start + STRIP], heap[0]
            nearer = zero  # counted in floats: the loop is vectorized
            for j in range(len(strip)):
                nearer += one if own[j] - two * strip[j] < largest else zero
            if nearer > zero:
                for j in range(len(strip)):
                    value = own[j] - two * strip[j]
                    if value < heap[0]:
                        _replace_first(heap, numbers, value, first + start + j)


@_compiled
def _replace_first(heap: np.ndarray, numbers: np.ndarray, value: Any, number: int) -> None:
    """Put a value and its number in the place of the largest of a heap, shape (k,), and move it to
    where it belongs.
    """
    at, below = 0, 1
    while below < len(heap):
        if below + 1 < len(heap) and heap[below + 1] > heap[below]:
            below += 1
        if heap[below] <= value:
            break
        heap[at], numbers[at] = heap[below], numbers[below]
        at, below = below, 2 * below + 1
    heap[at], numbers[at] = value, number
