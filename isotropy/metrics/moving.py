"""Sums of distances of a cloud at several steps, between which its points move in a subspace of low
rank.

With V an orthonormal basis of the displacements, shape (d, r), and x' the part of x orthogonal to
it, which does not move,

    |x_i(t) - x_j(t)|^2 = |x'_i - x'_j|^2 + |w_i(t) - w_j(t)|^2,    w(t) = x(t) V.

The first term takes one matrix product of d columns for all steps, the second one of r columns for
each: n^2 (d + q r) operations for q steps, not n^2 q d. Computed tile by tile on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.metrics.compiled import has_kernels
from isotropy.metrics.distances import (
    COORDINATES_PER_LOOP,
    add_silhouettes,
    add_sums_from_parts,
    centred,
)
from isotropy.metrics.matmul import full_precision, visit_pairs, worker_threads
from isotropy.metrics.silhouettes import Tiles, scores_from_sums, sort_by_class, split_into_chunks
from isotropy.metrics.validation import as_codes, as_points, coordinate_scale, sample_rows

SAMPLE_SIZE = 512
"""Points from which the subspace is estimated; the residual is then computed for all points."""
MAX_RESIDUAL = 4
"""Largest root mean square residual of all points, in units of the tolerance; if it is larger, the
sample was not representative."""
MAX_RANK = 0.25
"""Largest rank for which the method saves time, as a share of d."""
POINTS = 256  # points per task of a thread
MANY_CLASSES = 16  # with fewer, a loop over points costs more than it saves


class MovingSums(NamedTuple):
    """Sums of distances of a cloud at several steps.

    Attributes:
        sums: sum over each class at each step, shape (q, n, K), float64.
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
        The `distance_sums` of each cloud; None if the rank is too large to save time, or if squares
        of coordinates would overflow or underflow.

    Raises:
        ValueError: as in `distance_sums`.
    """
    with worker_threads() as pool:
        first = as_points(clouds[0], min_dims=1, in_place=True).detach()
        if any(coordinate_scale(cloud) != 1 for cloud in clouds):
            return None
        sampled = sample_rows(len(first), SAMPLE_SIZE, seed=0)
        displacements = torch.cat([cloud[sampled] - first[sampled] for cloud in clouds[1:]])
        basis = _basis(displacements, tolerance)
        if basis.shape[1] > MAX_RANK * basis.shape[0]:
            return None
        coordinates, residuals = [], torch.zeros(len(first), dtype=torch.float64)
        for cloud in clouds[1:]:
            displacements = cloud - first
            coordinates.append(displacements @ basis)
            distances = torch.linalg.vector_norm(displacements - coordinates[-1] @ basis.T, dim=1)
            residuals = torch.maximum(residuals, distances.double())
        if residuals.square().mean().sqrt() > MAX_RESIDUAL * tolerance:
            return None
        return MovingSums(_sums(first, coordinates, basis, labels, pool), residuals, basis.shape[1])


def _basis(displacements: torch.Tensor, tolerance: float) -> torch.Tensor:
    """Return an orthonormal basis, shape (d, r), of a subspace that contains displacements, shape
    (n, d), up to the tolerance (root mean square).
    """
    rows = displacements.double()
    squares, directions = torch.linalg.eigh(rows.T @ rows)  # in ascending order
    left_out = (squares.clamp(min=0).cumsum(dim=0) / len(rows)).sqrt()
    r = int((left_out > tolerance).sum())
    r = min(
        len(directions),
        max(COORDINATES_PER_LOOP, -(-r // COORDINATES_PER_LOOP) * COORDINATES_PER_LOOP),
    )
    basis: torch.Tensor = directions.flip(1)[:, :r].to(displacements.dtype)
    return basis.contiguous()


def _sums(
    first: torch.Tensor,
    displacements: list[torch.Tensor],
    basis: torch.Tensor,
    labels: Any,
    pool: Executor,
) -> torch.Tensor:
    """Compute the sums from the first cloud and the later displacements along the basis."""
    _, counts, order = sort_by_class(labels, len(first))
    chunks = split_into_chunks(counts.tolist())
    points = centred(first[order])
    first_coordinates = points @ basis
    fixed_tiles = Tiles(points - first_coordinates @ basis.T, chunks, counts)
    coordinates = [first_coordinates, *(first_coordinates + part[order] for part in displacements)]
    coordinate_arrays = [(w.numpy(), w.T.contiguous().numpy()) for w in coordinates]
    sums = np.zeros((len(coordinates), len(first), len(counts)))

    def visit(pair: tuple[int, int]) -> None:
        a, b = chunks[pair[0]], chunks[pair[1]]
        fixed_squares = fixed_tiles.squares(a, b)
        for (rows, columns), step_sums in zip(coordinate_arrays, sums, strict=True):
            add_sums_from_parts(
                fixed_squares,
                rows,
                columns,
                a.start,
                b.start,
                fixed_tiles.starts[a],
                fixed_tiles.starts[b],
                step_sums[a.rows, b.classes],
                step_sums[b.rows if a is not b else slice(0), a.classes],
            )

    visit_pairs(pool, len(chunks), visit)
    unsorted = torch.empty(sums.shape, dtype=torch.float64)
    unsorted[:, order] = torch.from_numpy(sums)
    return unsorted


def interpolated_silhouettes(sums: torch.Tensor, weights: np.ndarray, labels: Any) -> np.ndarray:
    """Mean silhouette at steps between nodes, from interpolated sums of distances: weighted sums of
    those at the nodes.

    Args:
        sums: sums of distances at q nodes, shape (q, n, K), float64, finite.
        weights: weights of the nodes, one row per step, shape (t, q), float64.
        labels: as in `isotropy.metrics.distance_sums`.

    Returns:
        Shape (t,), float64. On the CPU the sums of many classes are interpolated point by point, to
        stay in the cache; the result does not depend on the number of threads.

    Raises:
        ValueError: incompatible shapes.
    """
    codes = as_codes(labels, sums.shape[1])
    sizes = torch.bincount(codes)
    expected = (weights.shape[1], len(codes), len(sizes))
    if sums.shape != expected:
        raise ValueError(f"sums must have shape {expected}, got {tuple(sums.shape)}")
    if not has_kernels(sums) or sums.shape[2] < MANY_CLASSES:
        weight_rows = torch.tensor(weights, device=sums.device)
        codes, sizes = codes.to(sums.device), sizes.to(sums.device)
        step_means = [
            scores_from_sums(torch.tensordot(row, sums, dims=1), codes, sizes).mean()
            for row in weight_rows
        ]
        return torch.stack(step_means).cpu().numpy()
    node_sums, rows = sums.contiguous().numpy(), np.ascontiguousarray(weights, dtype=np.float64)

    def add_up(first: int) -> np.ndarray:
        totals, block_codes = np.zeros(len(rows)), codes[first : first + POINTS].numpy()
        add_silhouettes(node_sums, rows, sizes.double().numpy(), block_codes, first, totals)
        return totals

    with worker_threads() as pool:
        parts = list(pool.map(add_up, range(0, len(codes), POINTS)))
    means: np.ndarray = np.sum(parts, axis=0) / len(codes)
    return means
