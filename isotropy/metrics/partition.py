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
from typing import Literal

import torch

from isotropy.metrics.matmul import scatter
from isotropy.metrics.validation import Points, aligned, as_points

ROWS = 4096  # of W at a time


def partition_isotropy(
    W: Points, *, signs: Literal["fixed", "both"] = "fixed", log: bool = False
) -> float:
    """I(W): 1 for an isotropic cloud, 0 in the limit of one that lies in a direction. W is not
    centred.

    In double precision and in log space: no overflow, and with `log` no underflow either (decoder
    models reach 1e-170).

    Args:
        W: point cloud, shape (n, d), n >= 2, d >= 2, array or tensor on any device.
        signs: "fixed": each eigenvector points where its entry of largest size is positive. "both":
            the least and largest F over u and -u, about the square of the other, which no sign can
            change.
        log: return the natural logarithm of I(W).

    Returns:
        I(W) in [0, 1], or its logarithm. Where eigenvalues are equal their eigenvectors are not
        unique, nor is I(W).

    Raises:
        ValueError: bad shapes, NaN or infinity, or a cloud of zeros.
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
    _, vectors = torch.linalg.eigh(second)
    rows = vectors.abs().argmax(dim=0, keepdim=True)
    vectors = vectors * vectors.gather(0, rows).sign()
    log_f = _log_partition(points, vectors)
    if signs == "both":
        log_f = torch.cat([log_f, _log_partition(points, -vectors)])
    difference = float(log_f.amin() - log_f.amax())
    return difference if log else math.exp(difference)


def _log_partition(points: torch.Tensor, vectors: torch.Tensor) -> torch.Tensor:
    """log F(u) for each column u, shape (columns,)."""
    parts = [
        torch.logsumexp(aligned(block.double()) @ vectors, dim=0)
        for block in torch.split(points, ROWS)
    ]
    return torch.logsumexp(torch.stack(parts), dim=0)
