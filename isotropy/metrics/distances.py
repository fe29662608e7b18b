"""Euclidean distances between tiles of a cloud, and their sums over classes: the kernels of
silhouettes and neighbour search.

Squared distances of a tile come from one matrix product, |x|^2 + |y|^2 - 2xy, which loses digits
where x and y are close. Two measures keep float32 within 1e-6 of float64: the caller centres the
cloud, and a pair whose squared distance is below CLOSE times the sum of its squared norms is
recomputed from the difference. On the CPU the product goes to the fastest library, and all else is
one fused pass over the tile, compiled by numba. The reference, which the tests compare with and
which is used on a GPU and without numba, is `distances` with `sum_by_class`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from isotropy.metrics.compiled import kernel
from isotropy.metrics.validation import scaled

TILE = 512  # rows on the CPU; a float32 tile of 1 MB stays in the cache
# A pair with a smaller ratio of squared distance to sum of squared norms is computed directly.
CLOSE = 1e-3
# Between these, squares of coordinates and their sums keep their digits in float32.
COORDINATES_PER_LOOP = 4  # coordinates that are processed in one loop over a row
MAX_DIFFERENCES_SIZE = 2**24  # array size for the differences of pairs computed directly

# `fastmath` lets sums be vectorized: the cloud is finite and its squares are in the float range.
_compiled = kernel(nogil=True, fastmath=True, error_model="numpy")


def normalized(points: torch.Tensor) -> torch.Tensor:
    """Scale and centre a cloud."""
    return centred(scaled(points))


def centred(points: torch.Tensor) -> torch.Tensor:
    """Subtract the mean from a cloud."""
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
    pairs = max(1, MAX_DIFFERENCES_SIZE // x.shape[1])
    for a, b in zip(torch.split(i, pairs), torch.split(j, pairs), strict=True):
        squared[a, b] = (x[a] - y[b]).square_().sum(dim=1)
    return squared.clamp_(min=0).sqrt_()


def unchecked_distances(
    x: torch.Tensor, y: torch.Tensor, same: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`distances` without the correction of close pairs, and the number of rows that may have some,
    a tensor, so that a GPU is not waited for. The distances of a close pair may be NaN.

    Args:
        x: shape (m, d).
        y: shape (k, d).
        same: x and y are the same points; a point and itself are not a close pair.
    """
    nx, ny = squared_norms(x), squared_norms(y)
    squared = torch.addmm(ny, x, y.T, alpha=-2).add_(nx[:, None])
    if same:
        squared.fill_diagonal_(torch.inf)
    n_close = (squared.amin(dim=1) < CLOSE * (nx + ny.max())).sum()
    if same:
        squared.fill_diagonal_(0)
    return squared.sqrt_(), n_close


def sum_by_class(tile: torch.Tensor, codes: torch.Tensor, n_classes: int) -> torch.Tensor:
    """Sum each row of a tile, shape (m, k), by the class codes of its columns, shape (k,); returns
    shape (m, n_classes), float64.
    """
    sums = tile.new_zeros(n_classes, len(tile))
    return sums.index_add_(0, codes, tile.T).T.double()


@_compiled
def _row_to_distances(
    row: np.ndarray, x: np.ndarray, y: np.ndarray, nx: Any, ny: np.ndarray
) -> None:
    """Turn a row of scalar products, shape (k,), into distances between the point x, shape (d,),
    and rows of y.
    """
    zero, one, two, close = (
        row.dtype.type(0),
        row.dtype.type(1),
        row.dtype.type(2),
        row.dtype.type(CLOSE),
    )
    n_close = zero  # a float, so that the loop is vectorized
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
        _row_to_distances(tile[i], x[i], y, nx[i], ny)


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
def _codes_from_starts(starts: np.ndarray, n: int) -> np.ndarray:
    """Return the class code of each of n sorted points, given the start of each class."""
    codes = np.zeros(n, dtype=np.uint64)
    for c in range(1, len(starts) - 1):
        codes[starts[c] :] = c
    return codes


@_compiled
def _add_by_code(row: np.ndarray, codes: np.ndarray, sums: np.ndarray) -> None:
    for j in range(len(row)):
        sums[codes[j]] += row[j]


@_compiled
def _add_by_class(row: np.ndarray, starts: np.ndarray, sums: np.ndarray) -> None:
    for c in range(len(starts) - 1):
        sums[c] += _sum(row[starts[c] : starts[c + 1]])


@_compiled
def _add_transposed(columns: np.ndarray, sums: np.ndarray) -> None:
    """Add the transpose of `columns` to `sums`; do nothing if `sums` is empty."""
    for first in range(0, len(columns), 8):  # in strips that stay in the cache
        last = min(first + 8, len(columns))
        for j in range(len(sums)):
            for c in range(first, last):
                sums[j, c] += columns[c, j]


@_compiled
def _add_row(
    row: np.ndarray,
    row_class: int,
    y_starts: np.ndarray,
    y_codes: np.ndarray,
    sums: np.ndarray,
    columns: np.ndarray,
) -> None:
    """Add a row of distances, shape (k,), to the sums of its point, by the classes of the columns,
    and to the sums of the columns, by the class of the row.
    """
    if len(row) < 32 * (len(y_starts) - 1):  # a loop per class costs more than it saves
        _add_by_code(row, y_codes, sums)
    else:
        _add_by_class(row, y_starts, sums)
    if len(columns):
        _add(row, columns[row_class])


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
        x_starts: first row of each class, followed by the number of rows.
        y_starts: the same for the columns.
        x_sums: float64, shape (m, classes of y): sums of each row are added.
        y_sums: float64, shape (k, classes of x): sums of each column are added; pass length 0
            to leave them out.
    """
    m, k = len(x), len(y)
    diagonal = x is y or (m == k and x.ctypes.data == y.ctypes.data)
    columns = np.zeros((len(x_starts) - 1 if len(y_sums) else 0, k), dtype=np.float64)
    x_codes, y_codes = _codes_from_starts(x_starts, m), _codes_from_starts(y_starts, k)
    for i in range(m):
        row = tile[i, :k]
        if diagonal:
            row[i] = -nx[i]  # so that a point and itself are not a close pair
        _row_to_distances(row, x[i], y, nx[i], ny)
        if diagonal:
            row[i] = 0
        _add_row(row, x_codes[i], y_starts, y_codes, x_sums[i], columns)
    _add_transposed(columns, y_sums)


@_compiled
def _row_distances_from_parts(
    row: np.ndarray, partial_squares: np.ndarray, x: np.ndarray, Y: np.ndarray, first: int
) -> None:
    """Compute the distances of a point to k others, from the squared distances along most
    coordinates, `partial_squares`, shape (k,), and from the remaining r coordinates: x of the
    point, shape (r,), and k columns of Y, from `first` on, of the others.
    """
    k = len(row)
    row[:] = partial_squares
    for c in range(0, len(x), COORDINATES_PER_LOOP):
        x0, x1, x2, x3 = x[c], x[c + 1], x[c + 2], x[c + 3]
        y0, y1 = Y[c, first : first + k], Y[c + 1, first : first + k]
        y2, y3 = Y[c + 2, first : first + k], Y[c + 3, first : first + k]
        for j in range(k):
            d0, d1, d2, d3 = x0 - y0[j], x1 - y1[j], x2 - y2[j], x3 - y3[j]
            row[j] += (d0 * d0 + d1 * d1) + (d2 * d2 + d3 * d3)
    for j in range(k):
        row[j] = np.sqrt(row[j])


@_compiled
def add_sums_from_parts(
    partial_squares: np.ndarray,
    X: np.ndarray,
    Y: np.ndarray,
    x_first: int,
    y_first: int,
    x_starts: np.ndarray,
    y_starts: np.ndarray,
    x_sums: np.ndarray,
    y_sums: np.ndarray,
) -> None:
    """Compute distances of a tile from the squared distances along most coordinates and from the
    remaining coordinates, and add them up over the classes of the rows and of the columns, in one
    pass.

    Args:
        partial_squares: squared distances along most coordinates, shape (m, k).
        X: the remaining coordinates of all points, shape (n, r), where r is a multiple of
            COORDINATES_PER_LOOP.
        Y: transpose of X, contiguous.
        x_first: index of the point of the first row.
        y_first: index of the point of the first column.
        x_starts: as in `add_sums`.
        y_starts: as in `add_sums`.
        x_sums: as in `add_sums`.
        y_sums: as in `add_sums`.
    """
    m, k = partial_squares.shape
    columns = np.zeros((len(x_starts) - 1 if len(y_sums) else 0, k), dtype=np.float64)
    x_codes, y_codes = _codes_from_starts(x_starts, m), _codes_from_starts(y_starts, k)
    row = np.empty(k, dtype=partial_squares.dtype)
    for i in range(m):
        _row_distances_from_parts(row, partial_squares[i], X[x_first + i], Y, y_first)
        _add_row(row, x_codes[i], y_starts, y_codes, x_sums[i], columns)
    _add_transposed(columns, y_sums)


@_compiled
def _min_over_other_classes(row: np.ndarray, counts: np.ndarray, point_class: int) -> Any:
    """Return the smallest row / counts, both of shape (K,), over the other classes."""
    value_of_class, row[point_class] = row[point_class], np.finfo(row.dtype).max
    best = row[0] / counts[0]
    for c in range(len(counts)):
        best = min(best, row[c] / counts[c])
    row[point_class] = value_of_class
    return best


@_compiled
def min_mean_of_other_classes(
    sums: np.ndarray, counts: np.ndarray, point_classes: np.ndarray
) -> np.ndarray:
    """Return for each row of sums, shape (m, K), the smallest sums / counts over the classes other
    than its class, given in `point_classes`.
    """
    minima = np.empty(len(sums))
    for i in range(len(sums)):
        minima[i] = _min_over_other_classes(sums[i], counts, point_classes[i])
    return minima


@_compiled
def add_silhouettes(
    sums: np.ndarray,
    weights: np.ndarray,
    sizes: np.ndarray,
    point_classes: np.ndarray,
    first: int,
    totals: np.ndarray,
) -> None:
    """Interpolate sums of distances between nodes, and add up the silhouettes of m points for each
    row of interpolation weights.

    Args:
        sums: sums of distances to the points of each class at q nodes, shape (q, n, K); contiguous,
            finite.
        weights: weights of the nodes, shape (t, q).
        sizes: sizes of the classes, shape (K,).
        point_classes: class codes of the m points, shape (m,).
        first: index of the first of the m points.
        totals: shape (t,); the silhouettes are added to it.
    """
    q, _, k = sums.shape
    interpolated = np.empty(k)
    for i in range(len(point_classes)):
        for t in range(len(weights)):
            interpolated[:] = 0
            for node in range(0, q - 2, 3):  # three at once: fewer passes over the output
                w0, w1, w2 = weights[t, node], weights[t, node + 1], weights[t, node + 2]
                s0, s1, s2 = (
                    sums[node, first + i],
                    sums[node + 1, first + i],
                    sums[node + 2, first + i],
                )
                for c in range(k):
                    interpolated[c] += w0 * s0[c] + (w1 * s1[c] + w2 * s2[c])
            for node in range(q - q % 3, q):
                w0, s0 = weights[t, node], sums[node, first + i]
                for c in range(k):
                    interpolated[c] += w0 * s0[c]
            totals[t] += _silhouette(interpolated, sizes, point_classes[i])


@_compiled
def _silhouette(sums: np.ndarray, sizes: np.ndarray, point_class: int) -> float:
    """Silhouette of a point from its sums of distances; 0 in a class of one point, and for 0/0."""
    if sizes[point_class] <= 1:
        return 0.0
    cohesion, separation = (
        sums[point_class] / (sizes[point_class] - 1),
        _min_over_other_classes(sums, sizes, point_class),
    )
    larger = max(cohesion, separation)
    return (separation - cohesion) / larger if larger != 0 else 0.0
