"""Exact silhouette of a labelled point cloud in bounded memory, on CPU or GPU.

Rousseeuw (1987), "Silhouettes: a graphical aid to the interpretation and validation of cluster analysis",
J. Comput. Appl. Math. 20, doi:10.1016/0377-0427(87)90125-7.

For a point i of class A: a(i) is its mean distance to the other points of A, b(i) the least mean distance to another
class, s(i) = (b - a) / max(a, b), and 0 where A has no other point. The reference, which the tests compare with:

    D = cdist(X, X); sums = D @ one_hot(labels)                    # (n, K)
    a = sums[i, own] / (count[own] - 1); b = min over the others of sums / count

Here D is visited in tiles of TILE x TILE, each pair of tiles once (D is symmetric), so memory is n*K, not n*n. A tile
is one matrix product, |x|^2 + |y|^2 - 2xy, which loses digits where x and y are close. Three measures keep float32
within 1e-6 of float64 per point: the cloud is centred; tiles within one large class are centred on that class; and a
pair that is still closer than CLOSE of its norms is computed again from the difference.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from isotropy.metrics.validation import Points, as_codes, as_points

TILE = 512  # rows; a float32 tile of 1 MB stays in the cache of one core
CLOSE = 1e-3  # squared distance over the sum of squared norms, under which a pair is computed directly
MAX_SUMS_BYTES = 256 * 2**20  # above this, distance sums are held for one tile of rows at a time
NUMBERS_AT_ONCE = 2**22  # in the differences of pairs that are computed directly


class _Chunk(NamedTuple):
    """Rows start:stop of the cloud sorted by class; they hold classes first..last. `pure`: one class, a large one."""

    start: int
    stop: int
    first: int
    last: int
    pure: bool

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def classes(self) -> slice:
        return slice(self.first, self.last + 1)


def silhouette(X: Points, labels: Any) -> float:
    """Mean silhouette over all points, exact: no sampling.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device.
        labels: class of each point, shape (n,), or a multi-label indicator matrix, shape (n, n_labels), each distinct
            row of which is one class (Mickus et al. 2024, section 3.1).

    Returns:
        The mean of `silhouette_samples`, in [-1, 1].

    Raises:
        ValueError: bad shapes, NaN or infinity, fewer than two classes, or each point a class of its own.
    """
    return float(silhouette_samples(X, labels).mean())


def silhouette_samples(X: Points, labels: Any) -> torch.Tensor:
    """Silhouette of each point, shape (n,), float64, on the device of X. Arguments and errors as in `silhouette`.

    Costs n^2 d operations (a matrix product with symmetry) and about 8 n K bytes for K classes, at most 256 MB; beyond
    that, symmetry is given up and memory stays bounded.
    """
    points = as_points(X, min_dims=1).detach()
    n = points.shape[0]
    codes = as_codes(labels, n)
    order = torch.argsort(codes, stable=True)
    counts = torch.bincount(codes)
    if len(counts) == n:
        raise ValueError(f"each of the {n} points is a class of its own: silhouette is undefined")
    device = points.device
    codes, order, counts = codes[order].to(device), order.to(device), counts.to(device)
    centred = points[order]
    centred = centred - centred.mean(dim=0, dtype=torch.float64).to(centred.dtype)
    # The score does not depend on the unit; a unit of one keeps squares inside the float range.
    centred = centred / centred.abs().amax().clamp(min=torch.finfo(centred.dtype).tiny)
    chunks = _chunks(counts.tolist())
    tiles = _Tiles(centred, chunks, codes)
    k = len(counts)
    if n * k * 8 <= MAX_SUMS_BYTES:
        sums = torch.zeros(n, k, dtype=torch.float64, device=device)
        for i, rows in enumerate(chunks):
            for columns in chunks[i:]:
                distances = tiles.distances(rows, columns)
                sums[rows.rows, columns.classes] += tiles.sum_by_class(distances, columns)
                if columns is not rows:
                    sums[columns.rows, rows.classes] += tiles.sum_by_class(distances.T, rows)
        scores = _scores(sums, codes, counts)
    else:
        parts = []
        for rows in chunks:
            sums = torch.zeros(rows.stop - rows.start, k, dtype=torch.float64, device=device)
            for columns in chunks:
                sums[:, columns.classes] += tiles.sum_by_class(tiles.distances(rows, columns), columns)
            parts.append(_scores(sums, codes[rows.rows], counts))
        scores = torch.cat(parts)
    result = torch.empty_like(scores)
    result[order] = scores
    return result


def _chunks(counts: list[int]) -> list[_Chunk]:
    """Cut the sorted rows into chunks of at most TILE rows: large classes by themselves, small ones packed together."""
    chunks: list[_Chunk] = []
    start = packed = 0  # `packed`: rows of small classes that wait since `start`
    first = 0
    for label, count in enumerate(counts):
        large = 2 * count > TILE
        if packed and (large or packed + count > TILE):
            chunks.append(_Chunk(start, start + packed, first, label - 1, False))
            start, packed = start + packed, 0
        if large:
            stop = start + count
            chunks += [_Chunk(s, min(s + TILE, stop), label, label, True) for s in range(start, stop, TILE)]
            start = stop
        else:
            first = first if packed else label
            packed += count
    if packed:
        chunks.append(_Chunk(start, start + packed, first, len(counts) - 1, False))
    return chunks


class _Tiles:
    """Distances between chunks of a centred cloud, and their sums over classes."""

    def __init__(self, centred: torch.Tensor, chunks: list[_Chunk], codes: torch.Tensor) -> None:
        self.centred = centred
        self.norms = centred.square().sum(dim=1)
        self.own_centred, self.own_norms = self._centre_on_class(chunks)
        self.own_class = {c: codes[c.rows] - c.first for c in chunks}  # counted from the chunk's first

    def _centre_on_class(self, chunks: list[_Chunk]) -> tuple[torch.Tensor, torch.Tensor]:
        """The cloud with each large class moved to its own mean, and its squared norms."""
        own = self.centred.clone()
        spans: dict[int, tuple[int, int]] = {}
        for c in chunks:
            if c.pure:
                spans[c.first] = (spans.get(c.first, (c.start, 0))[0], c.stop)
        for start, stop in spans.values():
            own[start:stop] -= own[start:stop].mean(dim=0, dtype=torch.float64).to(own.dtype)
        return own, own.square().sum(dim=1)

    def distances(self, rows: _Chunk, columns: _Chunk) -> torch.Tensor:
        """Euclidean distances between two chunks, shape (rows, columns)."""
        same_class = rows.pure and columns.pure and rows.first == columns.first
        points, norms = (self.own_centred, self.own_norms) if same_class else (self.centred, self.norms)
        x, y, nx, ny = points[rows.rows], points[columns.rows], norms[rows.rows], norms[columns.rows]
        squared = torch.addmm(ny, x, y.T, alpha=-2).add_(nx[:, None])
        if rows is columns:
            squared.fill_diagonal_(torch.inf)  # a point's distance to itself is not "close", it is zero
        if bool(squared.amin() < CLOSE * (nx.amax() + ny.amax())):
            self._correct_close_pairs(squared, x, y, nx, ny)
        if rows is columns:
            squared.fill_diagonal_(0)
        return squared.clamp_(min=0).sqrt_()

    @staticmethod
    def _correct_close_pairs(
        squared: torch.Tensor, x: torch.Tensor, y: torch.Tensor, nx: torch.Tensor, ny: torch.Tensor
    ) -> None:
        """Compute pairs that lost digits by cancellation again, from their difference."""
        i, j = torch.nonzero(squared < CLOSE * (nx[:, None] + ny), as_tuple=True)
        pairs = max(1, NUMBERS_AT_ONCE // x.shape[1])
        for a, b in zip(torch.split(i, pairs), torch.split(j, pairs), strict=True):
            squared[a, b] = (x[a] - y[b]).square_().sum(dim=1)

    def sum_by_class(self, distances: torch.Tensor, columns: _Chunk) -> torch.Tensor:
        """Sum each row over the classes of its columns, shape (rows, classes in the chunk), float64."""
        if columns.first == columns.last:
            return distances.sum(dim=1, keepdim=True).double()
        sums = distances.new_zeros(columns.last - columns.first + 1, len(distances))
        return sums.index_add_(0, self.own_class[columns], distances.T.contiguous()).T.double()


def _scores(sums: torch.Tensor, codes: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Silhouettes from sums of distances to each class, shape (rows, K), which are overwritten."""
    own = codes[:, None]
    size = counts[codes]
    cohesion = sums.gather(1, own)[:, 0] / (size - 1).clamp(min=1)
    separation = sums.div_(counts).scatter_(1, own, torch.inf).amin(dim=1)
    scores = (separation - cohesion) / torch.maximum(cohesion, separation)
    # Classes of one point score 0 by definition; 0/0 (all of both classes in one place) is 0 as in scikit-learn.
    return torch.where(size > 1, scores, 0.0).nan_to_num(nan=0.0)
