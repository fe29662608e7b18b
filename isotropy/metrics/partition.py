"""I(W), the isotropy of Mu & Viswanath by the partition function.

Mu & Viswanath (2018), "All-but-the-Top", ICLR; used by Rajaee & Pilehvar (2021), equations 1 and 2.

With F(u) = sum_i exp(u' w_i), I(W) = min F(u) / max F(u) over the eigenvectors u of W'W. An
eigenvector has no sign, and F(u) is not F(-u): the published value depends on the sign that a
linear algebra library happens to return. Here the sign is fixed; the reference, which the tests
compare with:

    u = eigh(W.T @ W)[1].T; u *= sign of the entry of u that is largest in size
    F = exp(u @ W.T).sum(1); F.min() / F.max()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch

from isotropy.metrics.matmul import scatter
from isotropy.metrics.validation import (
    Points,
    aligned,
    as_points,
    as_symmetric,
    require_dimensions,
)

ROWS = 4096  # of W per block


def partition_isotropy(
    W: Points, *, signs: Literal["fixed", "both"] = "fixed", log: bool = False
) -> float:
    """I(W): 1 for an isotropic cloud, approaching 0 for a cloud concentrated in one direction. W is
    not centred.

    In double precision and in log space: no overflow, and with `log` no underflow either (decoder
    models reach 1e-170).

    Args:
        W: point cloud, shape (n, d), n >= 2, d >= 2, array or tensor on any device.
        signs: "fixed": the entry of largest magnitude of each eigenvector is made positive. "both":
            the minimum and maximum of F are over both u and -u, so that the result does not depend
            on signs; it is about the square of the result for "fixed".
        log: return the natural logarithm of I(W).

    Returns:
        I(W) in [0, 1], or its logarithm. Where eigenvalues are equal their eigenvectors are not
        unique, nor is I(W).

    Raises:
        ValueError: bad shapes, NaN or infinity, or a cloud of zeros.
    """
    return partition_isotropies(W, [1.0], signs=signs, log=log)[0]


def partition_isotropies(
    W: Points,
    scales: Sequence[float],
    *,
    signs: Literal["fixed", "both"] = "fixed",
    log: bool = False,
) -> list[float]:
    """I(W) of a cloud at several scales, which share the eigenvectors.

    Args:
        W: point cloud, shape (n, d).
        scales: factors that all vectors are multiplied by, at least one.
        signs: as in `partition_isotropy`.
        log: as in `partition_isotropy`.

    Returns:
        `partition_isotropy` of the cloud multiplied by each factor.

    Raises:
        ValueError: as in `partition_isotropy`, or no factor given.
    """
    if signs not in ("fixed", "both"):
        raise ValueError(f'signs must be "fixed" or "both", got {signs!r}')
    points = as_points(W, in_place=True).detach()
    largest = points.abs().amax().double()
    if not bool(largest > 0):
        raise ValueError("all points are zero: I(W) has no directions to compare")
    second = torch.zeros(
        points.shape[1], points.shape[1], dtype=torch.float64, device=points.device
    )
    for block in torch.split(points, ROWS):
        second += scatter(block.double() / largest)
    stream = StreamingPartition(second, signs=signs, scale=scales)
    stream.update(points)
    return stream.compute_each(log=log)


class StreamingPartition:
    """I(W) of vectors that do not fit into memory, in a second pass over them: call `update` for
    each batch, then `compute`.

    Args:
        second: W'W of all vectors, shape (d, d), up to a factor; from a first pass.
        signs: as in `partition_isotropy`.
        scale: factor that all vectors are multiplied by, or several factors. I(W) depends on the
            length of vectors: scores of two clouds are comparable only at a common length.

    Raises:
        ValueError: a `second` that is not symmetric or zero, NaN or infinity, or no scale.
    """

    def __init__(
        self,
        second: Points,
        *,
        signs: Literal["fixed", "both"] = "fixed",
        scale: float | Sequence[float] = 1.0,
    ) -> None:
        moment = as_symmetric(second, "the second moment W'W").detach().double()
        _, vectors = torch.linalg.eigh(moment)
        largest_rows = vectors.abs().argmax(dim=0, keepdim=True)
        vectors = vectors * vectors.gather(0, largest_rows).sign()
        self._directions, self._both = vectors, signs == "both"
        self._scales: list[float] = np.atleast_1d(scale).tolist()
        if not self._scales:
            raise ValueError("I(W) needs a scale, got none")
        # For each scale: log F of each direction over the vectors added so far.
        self._log_f: list[torch.Tensor] = []

    def update(self, W: Points) -> None:
        """Add a batch of vectors, shape (n, d), n >= 1."""
        points = as_points(W, min_points=1, in_place=True).detach()
        require_dimensions(points, len(self._directions))
        parts = [[log_f] for log_f in self._log_f] or [[] for _ in self._scales]
        for block in torch.split(points, ROWS):
            rows = aligned(block.double())
            products = rows @ self._directions
            if self._both:
                products = torch.cat([products, -products], dim=1)
            for scale, scale_parts in zip(self._scales, parts, strict=True):
                scale_parts.append(torch.logsumexp(products * scale, dim=0))
        self._log_f = [torch.logsumexp(torch.stack(log_f_parts), dim=0) for log_f_parts in parts]

    def merge(self, other: StreamingPartition) -> None:
        """Add the vectors of another stream of the same second moment, as if they had been seen
        here.
        """
        pairs = zip(self._log_f, other._log_f, strict=True)
        both = [torch.logaddexp(mine, theirs) for mine, theirs in pairs] if self._log_f else []
        self._log_f = both or list(other._log_f)

    def compute(self, *, log: bool = False) -> float:
        """I(W) of the vectors so far, or its natural logarithm, at the first scale.

        Raises:
            ValueError: no vectors so far.
        """
        return self.compute_each(log=log)[0]

    def compute_each(self, *, log: bool = False) -> list[float]:
        """I(W) of the vectors so far, or its natural logarithm, at each scale."""
        if not self._log_f:
            raise ValueError("I(W) needs vectors, the stream has seen none")
        log_scores = [float(log_f.amin() - log_f.amax()) for log_f in self._log_f]
        return log_scores if log else [math.exp(difference) for difference in log_scores]
