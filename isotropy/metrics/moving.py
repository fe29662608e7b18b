"""Sums of distances of a cloud at several times, between which its points move in few directions.

With V an orthonormal basis of the displacements, shape (d, r), and x' the part of x orthogonal to
it, which stays where it is,

    |x_i(t) - x_j(t)|^2 = |x'_i - x'_j|^2 + |w_i(t) - w_j(t)|^2,    w(t) = x(t) V.

The first term takes one matrix product of d columns for all times, the second one of r columns for
each: n^2 (d + q r) operations for q times, not n^2 q d. Tile by tile, on the CPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np
import torch

from isotropy.metrics.distances import ALONG, add_sums_along, centred, unit
from isotropy.metrics.matmul import full_precision, visit_pairs, worker_threads
from isotropy.metrics.silhouettes import Tiles, chunks_of, sorted_by_class
from isotropy.metrics.validation import as_points, sample_rows

LOOKED_AT = 512
"""Points from which directions are found; what these miss is looked for in all."""
UNSEEN = 4
"""Times the tolerance: where all points are missed by more, those looked at were unlike them."""
WORTH_IT = 0.25
"""More directions than this part of all save nothing."""


class MovingSums(NamedTuple):
    """Sums of distances of a cloud at several times.

    Attributes:
        sums: shape (q, n, K), float64.
        missed: how far each point is, at its worst time, from where it was taken to be, shape (n,),
            float64; a distance errs by less than those of its two points together.
        directions: r.
    """

    sums: torch.Tensor
    missed: torch.Tensor
    directions: int


@full_precision
def moving_distance_sums(
    clouds: Sequence[torch.Tensor], labels: Any, *, tolerance: float
) -> MovingSums | None:
    """Sum of the distances of each point to the points of each class, at each time.

    Args:
        clouds: the cloud at each time, shape (n, d), float32 or float64, on the CPU.
        labels: as in `isotropy.metrics.distance_sums`.
        tolerance: of how far points are missed, in the unit of the cloud: root mean square over
            times, and over the points that are looked at.

    Returns:
        As `distance_sums` of each cloud; None where it moves in so many directions
        that this would save nothing, or its unit is not 1.

    Raises:
        ValueError: as in `distance_sums`.
    """
    with worker_threads() as pool:
        first = as_points(clouds[0], min_dims=1, in_place=True).detach()
        if any(unit(cloud) != 1 for cloud in clouds):
            return None
        chosen = sample_rows(len(first), LOOKED_AT, seed=0)
        moved = torch.cat([cloud[chosen] - first[chosen] for cloud in clouds[1:]])
        basis = _directions(moved, tolerance)
        if basis.shape[1] > WORTH_IT * basis.shape[0]:
            return None
        along, missed = [], torch.zeros(len(first), dtype=torch.float64)
        for cloud in clouds[1:]:
            moved = cloud - first
            along.append(moved @ basis)
            rest = torch.linalg.vector_norm(moved - along[-1] @ basis.T, dim=1)
            missed = torch.maximum(missed, rest.double())
        if missed.square().mean().sqrt() > UNSEEN * tolerance:
            return None
        return MovingSums(_sums(first, along, basis, labels, pool), missed, basis.shape[1])


def _directions(moved: torch.Tensor, tolerance: float) -> torch.Tensor:
    """An orthonormal basis of displacements, shape (n, d), but for a small rest; shape (d, r)."""
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
    """The sums, from the first cloud and its way along the basis to each later time."""
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
