"""Sums of distances of a cloud at several steps, between which its points move in a subspace of low
rank.

With V an orthonormal basis of the displacements, shape (d, r), and x' the part of x orthogonal to
it, which does not move,

    |x_i(t) - x_j(t)|^2 = |x'_i - x'_j|^2 + |w_i(t) - w_j(t)|^2,    w(t) = x(t) V.

The first term takes one matrix product of d columns for all steps, the second one of r columns for
each: n^2 (d + q r) operations for q steps, not n^2 q d. Tile by tile, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.metrics.distances import ALONG, add_silhouettes, add_sums_along, centred, unit
from isotropy.metrics.matmul import full_precision, visit_pairs, worker_threads
from isotropy.metrics.silhouettes import Tiles, chunks_of, silhouette_from_sums, sorted_by_class
from isotropy.metrics.validation import as_codes, as_points, sample_rows

SAMPLE_SIZE = 512
"""Points from which the subspace is estimated; the residual is then computed for all points."""
MAX_RESIDUAL = 4
"""In tolerances: where the root mean square residual of all points is larger, the sample was not
representative."""
MAX_RANK = 0.25
"""Largest rank that saves time, as a share of d."""
POINTS = 256  # whose silhouettes a thread takes at a time
MANY_CLASSES = 16  # for fewer, a loop per point costs more than it saves


class MovingSums(NamedTuple):
    """Sums of distances of a cloud at several steps.

    Attributes:
        sums: shape (q, n, K), float64.
        residuals: largest distance of each point, over the steps, from its projection onto the
            subspace, shape (n,), float64; the error of a distance is at most the sum of two.
        rank: dimension of the subspace, r.
    """

    sums: torch.Tensor
    residuals: torch.Tensor
    rank: int


@full_precision
def moving_distance_sums(
    clouds: Sequence[torch.Tensor], labels: Any, *, tolerance: float
) -> MovingSums | None:
    """Sum of the distances of each point to the points of each class, at each step.

    Args:
        clouds: the cloud at each step, shape (n, d), float32 or float64, on the CPU.
        labels: as in `isotropy.metrics.distance_sums`.
        tolerance: largest root mean square residual, over steps and sampled points, in units of
            the coordinates.

    Returns:
        As `distance_sums` of each cloud; None where the rank is too large to save time, or where
        squares of coordinates would overflow or underflow.

    Raises:
        ValueError: as in `distance_sums`.
    """
    with worker_threads() as pool:
        first = as_points(clouds[0], min_dims=1, in_place=True).detach()
        if any(unit(cloud) != 1 for cloud in clouds):
            return None
        chosen = sample_rows(len(first), SAMPLE_SIZE, seed=0)
        moved = torch.cat([cloud[chosen] - first[chosen] for cloud in clouds[1:]])
        basis = _basis(moved, tolerance)
        if basis.shape[1] > MAX_RANK * basis.shape[0]:
            return None
        along, residuals = [], torch.zeros(len(first), dtype=torch.float64)
        for cloud in clouds[1:]:
            moved = cloud - first
            along.append(moved @ basis)
            rest = torch.linalg.vector_norm(moved - along[-1] @ basis.T, dim=1)
            residuals = torch.maximum(residuals, rest.double())
        if residuals.square().mean().sqrt() > MAX_RESIDUAL * tolerance:
            return None
        return MovingSums(_sums(first, along, basis, labels, pool), residuals, basis.shape[1])


def _basis(moved: torch.Tensor, tolerance: float) -> torch.Tensor:
    """An orthonormal basis, shape (d, r), of a subspace from which displacements, shape (n, d),
    differ by less than the tolerance.
    """
    rows = moved.double()
    squares, directions = torch.linalg.eigh(rows.T @ rows)  # least first
    left_out = (squares.clamp(min=0).cumsum(dim=0) / len(rows)).sqrt()
    r = int((left_out > tolerance).sum())
    r = min(len(directions), max(ALONG, -(-r // ALONG) * ALONG))
    basis: torch.Tensor = directions.flip(1)[:, :r].to(moved.dtype)
    return basis.contiguous()


def _sums(
    first: torch.Tensor, along: list[torch.Tensor], basis: torch.Tensor, labels: Any, pool: Executor
) -> torch.Tensor:
    """The sums, from the first cloud and the displacements to each later step, along the basis."""
    _, counts, order = sorted_by_class(labels, len(first))
    chunks = chunks_of(counts.tolist())
    points = centred(first[order])
    begin = points @ basis
    still = Tiles(points - begin @ basis.T, chunks, counts)
    moving = [begin, *(begin + part[order] for part in along)]
    at = [(w.numpy(), w.T.contiguous().numpy()) for w in moving]
    sums = np.zeros((len(moving), len(first), len(counts)))

    def visit(pair: tuple[int, int]) -> None:
        a, b = chunks[pair[0]], chunks[pair[1]]
        rest = still.squares(a, b)
        for (rows, columns), into in zip(at, sums, strict=True):
            add_sums_along(
                rest,
                rows,
                columns,
                a.start,
                b.start,
                still.starts[a],
                still.starts[b],
                into[a.rows, b.classes],
                into[b.rows if a is not b else slice(0), a.classes],
            )

    visit_pairs(pool, len(chunks), visit)
    unsorted = torch.empty(sums.shape, dtype=torch.float64)
    unsorted[:, order] = torch.from_numpy(sums)
    return unsorted


def interpolated_silhouettes(sums: torch.Tensor, weights: np.ndarray, labels: Any) -> np.ndarray:
    """Mean silhouette at steps between nodes, from interpolated sums of distances: weighted sums of
    those at the nodes.

    Args:
        sums: at q nodes, shape (q, n, K), float64, finite.
        weights: of the nodes, a row for each step, shape (t, q), float64.
        labels: as in `isotropy.metrics.distance_sums`.

    Returns:
        Shape (t,), float64. On the CPU the sums of many classes are interpolated point by point, in
        the cache; the number of threads changes no byte.

    Raises:
        ValueError: shapes that do not fit.
    """
    codes = as_codes(labels, sums.shape[1])
    sizes = torch.bincount(codes)
    expected = (weights.shape[1], len(codes), len(sizes))
    if sums.shape != expected:
        raise ValueError(f"sums must have shape {expected}, got {tuple(sums.shape)}")
    if not sums.is_cpu or sums.shape[2] < MANY_CLASSES:
        own = torch.tensor(weights, device=sums.device)
        between = (torch.tensordot(row, sums, dims=1) for row in own)
        return np.array([float(silhouette_from_sums(s, codes).mean()) for s in between])
    at_nodes, rows = sums.contiguous().numpy(), np.ascontiguousarray(weights, dtype=np.float64)

    def add_up(first: int) -> np.ndarray:
        totals, own = np.zeros(len(rows)), codes[first : first + POINTS].numpy()
        add_silhouettes(at_nodes, rows, sizes.double().numpy(), own, first, totals)
        return totals

    with worker_threads() as pool:
        parts = list(pool.map(add_up, range(0, len(codes), POINTS)))
    means: np.ndarray = np.sum(parts, axis=0) / len(codes)
    return means
