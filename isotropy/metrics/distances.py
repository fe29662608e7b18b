"""Euclidean distances between tiles of a cloud, and their sums over classes: the work of silhouette
and neighbour search.

A tile is one matrix product, |x|^2 + |y|^2 - 2xy, which loses digits where x and y are close. Two
measures keep float32 within 1e-6 of float64: the caller centres the cloud, and a pair closer than
CLOSE of its norms is computed again from the difference. On the CPU the product goes to the fastest
library and all else is one fused pass over the tile, by numba. The reference, which the tests
compare with and which serves on a GPU, is `distances` with `sum_by_class`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numba import njit

from isotropy.metrics.compiled import KEPT

TILE = 512  # rows on the CPU; a float32 tile of 1 MB stays in the cache
# Squared distance over the sum of squared norms, under which a pair is computed directly.
CLOSE = 1e-3
# Between these, squares of coordinates and their sums keep their digits in float32.
_TINY, _HUGE = 1e-9, 1e9
ALONG = 4  # coordinates that are taken together in one loop over a row
NUMBERS_AT_ONCE = 2**24  # in the differences of pairs that are computed directly

# `fastmath` lets sums be vectorized: the cloud is finite and its squares are in the float range.
_compiled = njit(cache=KEPT, nogil=True, fastmath=True, error_model="numpy")


def unit(points: torch.Tensor) -> float:
    """The unit in which squares of a cloud's coordinates stay in the float range: 1, or else the
    largest coordinate.
    """
    least, largest = torch.aminmax(points)
    extent = max(-float(least), float(largest))
    return 1.0 if not extent or _TINY < extent < _HUGE else extent


def scaled(points: torch.Tensor) -> torch.Tensor:
    """The cloud in its `unit`."""
    own = unit(points)
    return points if own == 1 else points / own


def normalized(points: torch.Tensor) -> torch.Tensor:
    """The cloud, scaled and centred."""
    return centred(scaled(points))


def centred(points: torch.Tensor) -> torch.Tensor:
    """The cloud moved to its mean."""
    return points - points.mean(dim=0)


def squared_norms(points: torch.Tensor) -> torch.Tensor:
    """|x|^2 of each row of a normalized cloud, shape (n,)."""
    norms: torch.Tensor = torch.linalg.vector_norm(points, dim=1)
    return norms.square_()


def distances(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Distances between rows of x, shape (m, d), and rows of y, shape (k, d), of a normalized
    cloud; shape (m, k).
    """
    nx, ny = squared_norms(x), squared_norms(y)
    squared = torch.addmm(ny, x, y.T, alpha=-2).add_(nx[:, None])
    i, j = torch.nonzero(squared < CLOSE * (nx[:, None] + ny), as_tuple=True)
    pairs = max(1, NUMBERS_AT_ONCE // x.shape[1])
    for a, b in zip(torch.split(i, pairs), torch.split(j, pairs), strict=True):
        squared[a, b] = (x[a] - y[b]).square_().sum(dim=1)
    return squared.clamp_(min=0).sqrt_()


def sum_by_class(tile: torch.Tensor, codes: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Sum each row of a tile, shape (m, k), over the classes of its columns, shape (k,): shape (m,
    n_classes), float64.
    """
    sums = tile.new_zeros(n_classes, len(tile))
    return sums.index_add_(0, codes, tile.T).T.double()


@_compiled
def _to_distances(row: np.ndarray, x: np.ndarray, y: np.ndarray, nx: Any, ny: np.ndarray) -> None:
    """Turn a row of scalar products, shape (k,), into distances between the point x, shape (d,),
    and rows of y.
    """
    zero, one, two, close = (
        row.dtype.type(0),
        row.dtype.type(1),
        row.dtype.type(2),
        row.dtype.type(CLOSE),
    )
    n_close = zero  # counted in floats: the loop is vectorized
    for j in range(len(row)):
        norms = nx + ny[j]
        squared = norms - two * row[j]
        n_close += one if squared < close * norms else zero
        row[j] = np.sqrt(max(squared, zero))
    if n_close > zero:
        wider = row.dtype.type(1.001 * CLOSE)  # the root was rounded
        for j in range(len(row)):
            if row[j] * row[j] <= wider * (nx + ny[j]):
                squared = zero
                for c in range(len(x)):
                    difference = x[c] - y[j, c]
                    squared += difference * difference
                row[j] = np.sqrt(squared)


@_compiled
def tile_to_distances(
    tile: np.ndarray, x: np.ndarray, y: np.ndarray, nx: np.ndarray, ny: np.ndarray
) -> None:
    """Turn scalar products, shape (m, k), into distances, in place. nx and ny are the squared norms
    of x and y.
    """
    for i in range(len(x)):
        _to_distances(tile[i], x[i], y, nx[i], ny)


@_compiled
def _sum(values: np.ndarray) -> Any:
    total = values.dtype.type(0)
    for j in range(len(values)):
        total += values[j]
    return total


@_compiled
def _add(values: np.ndarray, totals: np.ndarray) -> None:
    for j in range(len(values)):
        totals[j] += values[j]


@_compiled
def _codes(starts: np.ndarray, n: int) -> np.ndarray:
    """Class of each of n sorted points, from where each class begins."""
    codes = np.zeros(n, dtype=np.uint64)
    for c in range(1, len(starts) - 1):
        codes[starts[c] :] = c
    return codes


@_compiled
def _add_by_code(row: np.ndarray, codes: np.ndarray, into: np.ndarray) -> None:
    for j in range(len(row)):
        into[codes[j]] += row[j]


@_compiled
def _add_by_class(row: np.ndarray, starts: np.ndarray, into: np.ndarray) -> None:
    for c in range(len(starts) - 1):
        into[c] += _sum(row[starts[c] : starts[c + 1]])


@_compiled
def _add_transposed(columns: np.ndarray, sums: np.ndarray) -> None:
    """Add columns' to sums; nothing if sums are not wanted."""
    for first in range(0, len(columns), 8):  # in strips that stay in the cache
        last = min(first + 8, len(columns))
        for j in range(len(sums)):
            for c in range(first, last):
                sums[j, c] += columns[c, j]


@_compiled
def _add_row(
    row: np.ndarray,
    own: int,
    y_starts: np.ndarray,
    y_codes: np.ndarray,
    sums: np.ndarray,
    columns: np.ndarray,
) -> None:
    """Add a row of distances, shape (k,), to the sums of its point, by the classes of the columns;
    and to those of the columns, by its own class.
    """
    if len(row) < 32 * (len(y_starts) - 1):  # a loop per class costs more than it saves
        _add_by_code(row, y_codes, sums)
    else:
        _add_by_class(row, y_starts, sums)
    if len(columns):
        _add(row, columns[own])


@_compiled
def add_sums(
    tile: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    nx: np.ndarray,
    ny: np.ndarray,
    x_starts: np.ndarray,
    y_starts: np.ndarray,
    x_sums: np.ndarray,
    y_sums: np.ndarray,
) -> None:
    """Turn scalar products into distances and add them up over the classes of the rows and of the
    columns, in one pass.

    Args:
        tile: scalar products x y' in its upper left, shape (m, k) or larger; overwritten.
        x: points, shape (m, d).
        y: points, shape (k, d); the same array for a tile on the diagonal.
        nx: squared norms of x.
        ny: squared norms of y.
        x_starts: where each class of the rows begins, and the end.
        y_starts: the same of the columns.
        x_sums: float64, shape (m, classes of y): sums of each row are added.
        y_sums: float64, shape (k, classes of x): sums of each column are added; of length 0 if they
            are not wanted.
    """
    m, k = len(x), len(y)
    diagonal = x is y or (m == k and x.ctypes.data == y.ctypes.data)
    columns = np.zeros((len(x_starts) - 1 if len(y_sums) else 0, k), dtype=np.float64)
    x_codes, y_codes = _codes(x_starts, m), _codes(y_starts, k)
    for i in range(m):
        row = tile[i, :k]
        if diagonal:
            row[i] = -nx[i]  # a point is no close pair with itself
        _to_distances(row, x[i], y, nx[i], ny)
        if diagonal:
            row[i] = 0
        _add_row(row, x_codes[i], y_starts, y_codes, x_sums[i], columns)
    _add_transposed(columns, y_sums)


@_compiled
def _distances_along(
    row: np.ndarray, rest: np.ndarray, x: np.ndarray, Y: np.ndarray, first: int
) -> None:
    """Distances from squares along other coordinates, shape (k,), and along these: of a point,
    shape (r,), to the columns of Y that begin with `first`.
    """
    k = len(row)
    row[:] = rest
    for c in range(0, len(x), ALONG):
        x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
        y0, y1 = Y[c, first : first + k], Y[c + 1, first : first + k]
        y2, y3 = Y[c + 2, first : first + k], Y[c + 3, first : first + k]
        for j in range(k):
            d0, d1, d2, d3 = x0 - y0[j], x1 - y1[j], x2 - y2[j], x3 - y3[j]
            row[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
    for j in range(k):
        row[j] = np.sqrt(row[j])


@_compiled
def add_sums_along(
    rest: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    x_first: int,
    y_first: int,
    x_starts: np.ndarray,
    y_starts: np.ndarray,
    x_sums: np.ndarray,
    y_sums: np.ndarray,
) -> None:
    """Add distances of a tile up over the classes of the rows and of the columns, in one pass, from
    their squares along most coordinates and from the other coordinates.

    Args:
        rest: squares along most coordinates, shape (m, k).
        X: the other coordinates of all points, shape (n, r), r a multiple of ALONG.
        Y: its transpose, contiguous.
        x_first: number of the first row's point.
        y_first: number of the first column's point.
        x_starts: as in `add_sums`.
        y_starts: as in `add_sums`.
        x_sums: as in `add_sums`.
        y_sums: as in `add_sums`.
    """
    m, k = rest.shape
    columns = np.zeros((len(x_starts) - 1 if len(y_sums) else 0, k), dtype=np.float64)
    x_codes, y_codes = _codes(x_starts, m), _codes(y_starts, k)
    row = np.empty(k, dtype=rest.dtype)
    for i in range(m):
        _distances_along(row, rest[i], X[x_first + i], Y, y_first)
        _add_row(row, x_codes[i], y_starts, y_codes, x_sums[i], columns)
    _add_transposed(columns, y_sums)


@_compiled
def keep_two_least(
    tile: np.ndarray,
    x: np.ndarray,
    y: np.ndarray,
    nx: np.ndarray,
    ny: np.ndarray,
    x_least: np.ndarray,
    y_least: np.ndarray,
) -> None:
    """Turn scalar products, shape (m, k), into distances and keep the two least of each row and
    each column.

    x and y may be moved against the cloud that the products and norms are of: only their
    differences are used. x_least and y_least, shapes (m, 2) and (k, 2), hold the two least so far,
    in order; the same for a tile on the diagonal.
    """
    m, k = len(x), len(y)
    diagonal = m == k and x.ctypes.data == y.ctypes.data
    one, zero = tile.dtype.type(1), tile.dtype.type(0)
    second = y_least[:, 1].copy()
    for i in range(m):
        row = tile[i]
        if diagonal:
            row[i] = -nx[i]
        _to_distances(row, x[i], y, nx[i], ny)
        if diagonal:
            row[i] = np.finfo(row.dtype).max
        hits, own = zero, x_least[i, 1]
        for j in range(k):  # counted in floats: the loop is vectorized
            hits += one if row[j] < second[j] or row[j] < own else zero
        if hits > zero:
            for j in range(k):
                _keep(row[j], x_least[i])
                if not diagonal:
                    _keep(row[j], y_least[j])
                    second[j] = y_least[j, 1]


@_compiled
def _keep(value: Any, least: np.ndarray) -> None:
    if value < least[0]:
        least[1] = least[0]
        least[0] = value
    elif value < least[1]:
        least[1] = value


@_compiled
def _least_other(row: np.ndarray, counts: np.ndarray, own: int) -> Any:
    """Least of row / counts, both of shape (K,), over the classes other than the own one."""
    kept, row[own] = row[own], np.finfo(row.dtype).max
    best = row[0] / counts[0]
    for c in range(len(counts)):
        best = min(best, row[c] / counts[c])
    row[own] = kept
    return best


@_compiled
def least_mean(sums: np.ndarray, counts: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Least of sums / counts over the classes other than the own one, for each row of sums, shape
    (m, K).
    """
    least = np.empty(len(sums))
    for i in range(len(sums)):
        least[i] = _least_other(sums[i], counts, own[i])
    return least


@_compiled
def add_silhouettes(
    sums: np.ndarray,
    weights: np.ndarray,
    sizes: np.ndarray,
    own: np.ndarray,
    first: int,
    totals: np.ndarray,
) -> None:
    """Add the silhouettes of some points to `totals`, for each row of weights.

    Args:
        sums: sums of distances to the points of each class at q nodes, shape (q, n, K); contiguous,
            finite.
        weights: of the nodes, shape (t, q).
        sizes: of the classes, shape (K,).
        own: classes of the points, shape (m,).
        first: number of the first of these points.
        totals: shape (t,); silhouettes are added.
    """
    q, _, k = sums.shape
    between = np.empty(k)
    for i in range(len(own)):
        for t in range(len(weights)):
            between[:] = 0
            for at in range(0, q - 2, 3):  # three at once: fewer passes over what is written
                w0, w1, w2 = weights[t, at], weights[t, at + 1], weights[t, at + 2]
                s0, s1, s2 = sums[at, first + i], sums[at + 1, first + i], sums[at + 2, first + i]
                for c in range(k):
                    between[c] += w0 * s0[c] + (w1 * s1[c] + w2 * s2[c])
            for at in range(q - q % 3, q):
                w0, s0 = weights[t, at], sums[at, first + i]
                for c in range(k):
                    between[c] += w0 * s0[c]
            totals[t] += _silhouette(between, sizes, own[i])


@_compiled
def _silhouette(sums: np.ndarray, sizes: np.ndarray, own: int) -> float:
    """Silhouette of a point from its sums of distances; 0 in a class of one point, and for 0/0."""
    if sizes[own] <= 1:
        return 0.0
    cohesion, separation = sums[own] / (sizes[own] - 1), _least_other(sums, sizes, own)
    larger = max(cohesion, separation)
    return (separation - cohesion) / larger if larger != 0 else 0.0
