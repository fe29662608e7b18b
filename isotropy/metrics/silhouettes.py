"""Exact silhouette of a labelled point cloud in bounded memory, on CPU or GPU.

Rousseeuw (1987), "Silhouettes: a graphical aid to the interpretation and validation of cluster
analysis", J. Comput. Appl. Math. 20, doi:10.1016/0377-0427(87)90125-7.

For a point i of class A: a(i) is its mean distance to the other points of A, b(i) the least mean
distance to another class, s(i) = (b - a) / max(a, b), and 0 where A has no other point. The
reference, which the tests compare with:

    D = cdist(X, X)
    sums = D @ one_hot(labels)                                     # (n, K)
    a = sums[i, own] / (count[own] - 1); b = min over the others of sums / count

Here D is visited in tiles, each pair of tiles once (D is symmetric), so memory is n*K, not n*n.
Points are sorted by class; on the CPU tiles within one large class are centred on it, for precision
and speed where classes have collapsed.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.metrics.compiled import has_kernels
from isotropy.metrics.distances import (
    TILE,
    add_sums,
    distances,
    min_mean_of_other_classes,
    normalized,
    squared_norms,
    sum_by_class,
    tile_to_distances,
    unchecked_distances,
)
from isotropy.metrics.matmul import full_precision, product, visit_pairs, worker_threads
from isotropy.metrics.validation import (
    Points,
    as_codes,
    as_numbers,
    as_points,
    coordinate_scale,
    require_finite,
    sample_rows,
)

GPU_TILE = 4096
MAX_EXACT_BYTES = 32 * 2**20  # above this, distance sums are held in the dtype of the cloud
SumsCallback = Callable[[slice, torch.Tensor], None]
MAX_SUMS_BYTES = 256 * 2**20  # above this, distance sums are held for one tile of rows at a time


class Chunk(NamedTuple):
    """Rows start:stop of the cloud sorted by class, which contain the classes first..last. A chunk
    is `pure` if all its rows belong to one large class.
    """

    start: int
    stop: int
    first: int
    last: int
    pure: bool

    @property
    def rows(self) -> slice:
        """Slice of the rows of the sorted cloud."""
        return slice(self.start, self.stop)

    @property
    def classes(self) -> slice:
        """Slice of the class codes."""
        return slice(self.first, self.last + 1)


class Operands(NamedTuple):
    """Two sets of points, shapes (m, d) and (k, d), and their squared norms."""

    x: np.ndarray
    y: np.ndarray
    nx: np.ndarray
    ny: np.ndarray


def silhouette(X: Points, labels: Any, *, sample_size: int | None = None, seed: int = 0) -> float:
    """Mean silhouette: exact over all points, or over a random sample.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device.
        labels: class of each point, shape (n,), or a multi-label indicator matrix, shape (n,
            n_labels), each distinct row of which is one class (Mickus et al. 2024, section 3.1).
        sample_size: number of points drawn without replacement, if n is larger; the score is that
            of the sample alone, as in scikit-learn.
        seed: seed of the sample.

    Returns:
        The mean of `silhouette_samples`, in [-1, 1].

    Raises:
        ValueError: bad shapes, NaN or infinity, fewer than two classes, or each point a class of
            its own.

    Examples:
        >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], ["a", "a", "b", "b"]), 2)
        0.9
    """
    if sample_size is not None:
        points = as_points(X, min_dims=1, in_place=True)
        rows = sample_rows(len(points), sample_size, seed)
        codes = as_codes(labels, len(points))
        return float(silhouette_samples(points[rows.to(points.device)], codes[rows]).mean())
    return float(silhouette_samples(X, labels).mean())


@full_precision
def silhouette_samples(X: Points, labels: Any) -> torch.Tensor:
    """Silhouette of each point, shape (n,), float64, on the device of X. Arguments and errors as in
    `silhouette`.

    Costs n^2 d operations (a matrix product with symmetry) and about 8 n K bytes for K classes, at
    most 256 MB; beyond that, symmetry is not used, and each thread holds 4 K kB. The number of
    threads is torch's and does not change the result.
    """
    # Around all steps: otherwise torch's own threads would stay active beside the workers
    with worker_threads() as pool:
        points = as_points(X, min_dims=1, in_place=True).detach()
        codes, counts, order = sort_by_class(labels, len(points))
        order = order.to(points.device)
        scores = torch.empty(len(points), dtype=torch.float64, device=points.device)

        def store(rows: slice, sums: torch.Tensor) -> None:
            scores[order[rows]] = scores_from_sums(
                sums, codes[rows].to(sums.device), counts.to(sums.device)
            )

        _distance_sums(normalized(points[order]), codes, counts, pool, store)
        return scores


@full_precision
def distance_sums(X: Points, labels: Any) -> torch.Tensor:
    """Sum of the distances of each point to the points of each class, from which its silhouette
    follows.

    Unlike the silhouette, the sums are smooth while a cloud moves: callers may interpolate
    them over time.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device.
        labels: as in `silhouette`.

    Returns:
        Shape (n, K), float64, on the device of X, in the unit of X; columns in the order of the
        sorted distinct labels.

    Raises:
        ValueError: as in `silhouette`.
    """
    with worker_threads() as pool:
        points = as_points(X, min_dims=1, in_place=True).detach()
        codes, counts, order = sort_by_class(labels, len(points))
        sums = torch.empty(len(points), len(counts), dtype=torch.float64, device=points.device)
        order = order.to(points.device)

        def store(rows: slice, part: torch.Tensor) -> None:
            sums[order[rows]] = part.double()

        _distance_sums(normalized(points[order]), codes, counts, pool, store)
        return sums.mul_(coordinate_scale(points))


def silhouette_from_sums(sums: Points, labels: Any) -> torch.Tensor:
    """Silhouette of each point, shape (n,), float64, from the sums of its distances to each class,
    as `distance_sums` gives.

    Raises:
        ValueError: sums that do not have one row per label and one column per class.
    """
    sums = as_numbers(sums, "sums").detach()
    if sums.ndim != 2:
        raise ValueError(f"sums must have shape (n, K), got {tuple(sums.shape)}")
    codes = as_codes(labels, len(sums))
    counts = torch.bincount(codes)
    if sums.shape[1] != len(counts):
        raise ValueError(
            f"sums must have shape ({len(codes)}, {len(counts)}), got {tuple(sums.shape)}"
        )
    require_finite(sums)
    return scores_from_sums(sums.clone(), codes.to(sums.device), counts.to(sums.device))


@full_precision
def silhouette_of_labelings(X: Points, labelings: Sequence[Any]) -> torch.Tensor:
    """Mean silhouette of the same cloud under several labelings, which share the distances; shape
    (len(labelings),).

    For comparing numbers of clusters: n^2 (d + 2 K) operations for K classes in all labelings
    together. Arguments and errors as in `silhouette`; float64, on the CPU.
    """
    points = as_points(X, min_dims=1, in_place=True).detach()
    n = points.shape[0]
    codes = [as_codes(labels, n).to(points.device) for labels in labelings]
    counts = [torch.bincount(c) for c in codes]
    if any(len(c) == n for c in counts):
        raise ValueError(f"each of the {n} points is a class of its own: silhouette is undefined")
    # Columns of `indicators`: the classes of all labelings, one after another.
    indicators = torch.cat(
        [torch.nn.functional.one_hot(c, len(k)) for c, k in zip(codes, counts, strict=True)], dim=1
    )
    sums = _sums_over_columns(normalized(points), indicators.to(points.dtype))
    starts = np.cumsum([0, *map(len, counts)])
    means = [
        scores_from_sums(sums[:, a:b].clone(), c, k).mean()
        for a, b, c, k in zip(starts[:-1], starts[1:], codes, counts, strict=True)
    ]
    return torch.stack(means).cpu()


def sort_by_class(labels: Any, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sort points by class; return the sorted class codes, the number of points of each class, and
    the sorting order, all on the CPU.
    """
    codes = as_codes(labels, n)
    order = torch.argsort(codes, stable=True)
    counts = torch.bincount(codes)
    if len(counts) == n:
        raise ValueError(f"each of the {n} points is a class of its own: silhouette is undefined")
    return codes[order], counts, order


def _distance_sums(
    cloud: torch.Tensor,
    codes: torch.Tensor,
    counts: torch.Tensor,
    pool: Executor,
    store: SumsCallback,
) -> None:
    """Compute sums of distances to each class for a normalized cloud sorted by class. They are
    passed to `store` in parts, as a slice of rows and the sums of these rows.
    """
    if has_kernels(cloud):
        _sums_on_cpu(cloud, counts, pool, store)
    else:
        _sums_by_torch(cloud, codes, counts, store)


def _sums_by_torch(
    cloud: torch.Tensor, codes: torch.Tensor, counts: torch.Tensor, store: SumsCallback
) -> None:
    """Compute `_distance_sums` tile by tile in plain torch, on any device."""
    codes = codes.to(cloud.device)
    if len(cloud) * len(counts) * 8 <= MAX_SUMS_BYTES:
        store(slice(0, len(cloud)), _symmetric_sums_by_torch(cloud, codes, counts))
        return
    for start in range(0, len(cloud), GPU_TILE):
        rows = slice(start, min(start + GPU_TILE, len(cloud)))
        tiles = zip(torch.split(cloud, GPU_TILE), torch.split(codes, GPU_TILE), strict=True)
        sums = torch.zeros(rows.stop - start, len(counts), dtype=torch.float64, device=cloud.device)
        for columns, column_codes in tiles:
            sums += sum_by_class(distances(cloud[rows], columns), column_codes, len(counts))
        store(rows, sums)


def _symmetric_sums_by_torch(
    cloud: torch.Tensor, codes: torch.Tensor, counts: torch.Tensor
) -> torch.Tensor:
    """Compute the sums of distances of all points to each class, shape (n, K), float64, in plain
    torch: each pair of tiles once, and a GPU is waited for once.

    Close pairs, which need more digits, are only counted at first; tiles that have some are
    computed again by `distances`.
    """
    chunks = split_into_chunks(counts.tolist(), GPU_TILE, balanced=True)
    starts = torch.cumsum(counts, dim=0) - counts
    centred_cloud = cloud.clone()  # large classes centred on their means, against close pairs
    for label in {c.first for c in chunks if c.pure}:
        rows = slice(int(starts[label]), int(starts[label] + counts[label]))
        centred_cloud[rows] -= cloud[rows].mean(dim=0)
    indicators = {
        c: torch.nn.functional.one_hot(codes[c.rows] - c.first, c.last - c.first + 1)
        for c in chunks
        if not c.pure
    }
    pairs = list(itertools.combinations_with_replacement(chunks, 2))
    sums = torch.zeros(len(cloud), len(counts), dtype=torch.float64, device=cloud.device)

    def over_columns(tile: torch.Tensor, chunk: Chunk) -> torch.Tensor:
        if chunk.pure:
            return tile.sum(dim=1, keepdim=True)
        return tile @ indicators[chunk].to(tile.dtype)

    def tile_sums(a: Chunk, b: Chunk, tile: torch.Tensor) -> list[torch.Tensor]:
        return [over_columns(tile, b), *([] if a is b else [over_columns(tile.T, a)])]

    quick, n_close = [], []
    for a, b in pairs:
        same_class = a.pure and b.pure and a.first == b.first
        points = centred_cloud if same_class else cloud
        tile, close = unchecked_distances(points[a.rows], points[b.rows], a is b)
        quick.append(tile_sums(a, b, tile))
        n_close.append(close)
    for (a, b), parts, close in zip(pairs, quick, torch.stack(n_close).tolist(), strict=True):
        if close:
            parts = tile_sums(a, b, distances(cloud[a.rows], cloud[b.rows]))
        sums[a.rows, b.classes] += parts[0]
        if a is not b:
            sums[b.rows, a.classes] += parts[1]
    return sums


def _sums_on_cpu(
    cloud: torch.Tensor, counts: torch.Tensor, pool: Executor, store: SumsCallback
) -> None:
    """Compute `_distance_sums` by one fused pass over each tile, in worker threads."""
    n, k = len(cloud), len(counts)
    chunks = split_into_chunks(counts.tolist())
    tiles = Tiles(cloud, chunks, counts)
    if n * k * 8 <= MAX_SUMS_BYTES:
        # A small class lies in one chunk, so that its sums are written once: float32 only rounds
        # them, and halves the memory traffic, which costs more than the arithmetic.
        sums = np.zeros(
            (n, k), dtype=np.float64 if n * k * 8 <= MAX_EXACT_BYTES else cloud.numpy().dtype
        )

        def visit(pair: tuple[int, int]) -> None:
            rows, columns = chunks[pair[0]], chunks[pair[1]]
            tiles.add(rows, columns, sums[rows.rows], sums[columns.rows])

        visit_pairs(pool, len(chunks), visit)
        store(slice(0, n), torch.from_numpy(sums))
        return

    def sum_rows(rows: Chunk) -> None:
        sums = np.zeros((rows.stop - rows.start, k))
        for columns in chunks:
            tiles.add(rows, columns, sums, None)
        store(rows.rows, torch.from_numpy(sums))

    list(pool.map(sum_rows, chunks))


def split_into_chunks(
    counts: list[int], size: int = TILE, *, balanced: bool = False
) -> list[Chunk]:
    """Cut the sorted rows into chunks of at most `size` rows: large classes by themselves (with
    `balanced`, in chunks of equal size), small ones packed together.
    """
    chunks: list[Chunk] = []
    start = packed = 0  # `packed`: number of rows of small classes from `start` on
    first = 0
    for label, count in enumerate(counts):
        large = 2 * count > size
        if packed and (large or packed + count > size):
            chunks.append(Chunk(start, start + packed, first, label - 1, False))
            start, packed = start + packed, 0
        if large:
            stop = start + count
            step = -(-count // -(-count // size)) if balanced else size
            chunks += [
                Chunk(s, min(s + step, stop), label, label, True) for s in range(start, stop, step)
            ]
            start = stop
        else:
            first = first if packed else label
            packed += count
    if packed:
        chunks.append(Chunk(start, start + packed, first, len(counts) - 1, False))
    return chunks


class Tiles:
    """Sums of distances between chunks of a normalized cloud on the CPU."""

    def __init__(self, cloud: torch.Tensor, chunks: list[Chunk], counts: torch.Tensor) -> None:
        starts = np.r_[0, np.cumsum(counts.numpy())]
        self.starts = {
            c: starts[c.first : c.last + 2].clip(c.start, c.stop) - c.start for c in chunks
        }
        self.thread_local = threading.local()
        self.cloud, self.norms = cloud, squared_norms(cloud)
        self.class_centred_cloud, self.class_centred_norms = (
            torch.empty_like(cloud),
            torch.empty_like(self.norms),
        )
        for label in {c.first for c in chunks if c.pure}:
            # Each large class, centred on its own mean.
            rows = slice(starts[label], starts[label + 1])
            torch.sub(cloud[rows], cloud[rows].mean(dim=0), out=self.class_centred_cloud[rows])
            self.class_centred_norms[rows] = squared_norms(self.class_centred_cloud[rows])

    def scratch(self) -> torch.Tensor:
        """Return the tile of this thread. It is reused, since allocation costs more than the
        arithmetic, and has full size, so that rows of products are aligned.
        """
        if not hasattr(self.thread_local, "tile"):
            self.thread_local.tile = torch.empty(TILE, TILE, dtype=self.cloud.dtype)
        tile: torch.Tensor = self.thread_local.tile
        return tile

    def products(self, rows: Chunk, columns: Chunk) -> tuple[torch.Tensor, Operands]:
        """Return the scalar products of two chunks, in the thread's tile, and the operands."""
        same_class = rows.pure and columns.pure and rows.first == columns.first
        cloud, norms = (
            (self.class_centred_cloud, self.class_centred_norms)
            if same_class
            else (self.cloud, self.norms)
        )
        x, y = cloud[rows.rows], cloud[columns.rows]
        tile = self.scratch()[: len(x), : len(y)]
        product(x, y, out=tile)
        squares = norms[rows.rows].numpy(), norms[columns.rows].numpy()
        return tile, Operands(x.numpy(), y.numpy(), *squares)

    def squares(self, rows: Chunk, columns: Chunk) -> np.ndarray:
        """Squared distances of two chunks, in the thread's tile."""
        tile, operands = self.products(rows, columns)
        tile_to_distances(tile.numpy(), operands.x, operands.y, operands.nx, operands.ny)
        return tile.square_().numpy()

    def add(
        self, rows: Chunk, columns: Chunk, row_sums: np.ndarray, column_sums: np.ndarray | None
    ) -> None:
        """Add the distances of two chunks to the sums of their rows, shape (rows, K), and to those
        of their columns.
        """
        if column_sums is None or rows is columns:
            column_sums = row_sums[:0]
        tile, operands = self.products(rows, columns)
        add_sums(
            tile.numpy(),
            operands.x,
            operands.y,
            operands.nx,
            operands.ny,
            self.starts[rows],
            self.starts[columns],
            row_sums[:, columns.classes],
            column_sums[:, rows.classes],
        )


def _sums_over_columns_by_torch(cloud: torch.Tensor, indicators: torch.Tensor) -> torch.Tensor:
    """Multiply the matrix of distances by class indicators, shape (n, K), float64, tile by tile in
    plain torch, on any device.
    """
    sums = torch.zeros(indicators.shape, dtype=torch.float64, device=cloud.device)
    for a in range(0, len(cloud), GPU_TILE):
        for b in range(0, len(cloud), GPU_TILE):
            tile = distances(cloud[a : a + GPU_TILE], cloud[b : b + GPU_TILE])
            sums[a : a + GPU_TILE] += tile @ indicators[b : b + GPU_TILE]
    return sums


def _sums_over_columns(cloud: torch.Tensor, indicators: torch.Tensor) -> torch.Tensor:
    """Same as `_sums_over_columns_by_torch`, but on the CPU each tile is computed only once."""
    if not has_kernels(cloud):
        return _sums_over_columns_by_torch(cloud, indicators)
    sums = torch.zeros(indicators.shape, dtype=torch.float64)
    norms = squared_norms(cloud)

    parts = [slice(start, min(start + TILE, len(cloud))) for start in range(0, len(cloud), TILE)]
    columns = [indicators[part].T.contiguous() for part in parts]

    def visit(pair: tuple[int, int]) -> None:
        a, b = parts[pair[0]], parts[pair[1]]
        tile = product(cloud[a], cloud[b])
        tile_to_distances(
            tile.numpy(), cloud[a].numpy(), cloud[b].numpy(), norms[a].numpy(), norms[b].numpy()
        )
        if a == b:
            tile.fill_diagonal_(0)
        sums[a] += product(tile, columns[pair[1]])
        if a != b:
            sums[b] += product(tile.T, columns[pair[0]])

    with worker_threads() as pool:
        visit_pairs(pool, len(parts), visit)
    return sums


def scores_from_sums(sums: torch.Tensor, codes: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Compute silhouettes from sums of distances to each class, shape (rows, K), which are
    overwritten on a GPU or without numba.
    """
    if has_kernels(sums):  # in one pass over the sums
        point_classes, sizes = codes.numpy(), counts.numpy().astype(np.float64)
        separation = torch.from_numpy(min_mean_of_other_classes(sums.numpy(), sizes, point_classes))
        within = sums.numpy()[np.arange(len(sums)), point_classes].astype(np.float64)
        cohesion = torch.from_numpy(within / np.maximum(sizes[point_classes] - 1, 1))
        return _silhouette_ratio(cohesion, separation, counts[codes])
    return _scores_by_torch(sums, codes, counts)


def _scores_by_torch(sums: torch.Tensor, codes: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Compute `scores_from_sums` in plain torch, on any device."""
    class_column = codes[:, None]
    cohesion = sums.gather(1, class_column)[:, 0] / (counts[codes] - 1).clamp(min=1)
    separation = sums.div_(counts).scatter_(1, class_column, torch.inf).amin(dim=1)
    return _silhouette_ratio(cohesion, separation, counts[codes])


def _silhouette_ratio(
    cohesion: torch.Tensor, separation: torch.Tensor, size: torch.Tensor
) -> torch.Tensor:
    """Compute (b - a) / max(a, b). It is 0 for classes of one point by definition, and for 0/0 (two
    classes in the same place) as in scikit-learn.
    """
    scores = (separation - cohesion) / torch.maximum(cohesion, separation)
    return torch.where(size > 1, scores, 0.0).nan_to_num(nan=0.0)
