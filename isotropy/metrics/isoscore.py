"""IsoScore of a point cloud, in the closed form that needs no eigendecomposition.

Rudman, Gillman, Rayne & Eickhoff (2022), "IsoScore: Measuring the Uniformity of Embedding Space Utilization",
Findings of ACL, doi:10.18653/v1/2022.findings-acl.262.
"""

from __future__ import annotations

import torch

from isotropy.metrics.validation import Points, as_points

ROWS_PER_BLOCK = 4096  # float32 products are summed over at most this many rows before they join a float64 total


def isoscore(X: Points) -> float | torch.Tensor:
    """IsoScore: the share of dimensions that a cloud uses uniformly, from 0 (a line) to 1 (equal variances).

    With Sigma the covariance and PR = tr(Sigma)^2 / ||Sigma||_F^2 the participation ratio,

        IsoScore = (PR - 1) / (d - 1),

    which equals steps 1 to 4 of the paper's Algorithm 1 exactly: with Lambda the eigenvalues,
    ||sqrt(d) Lambda/||Lambda|| - 1||^2 = 2d - 2 sqrt(d) tr(Sigma)/||Sigma||_F.

    Args:
        X: point cloud, shape (n, d), n >= 2, d >= 2. Array or tensor on any device.

    Returns:
        A float; for a torch tensor a 0-d float64 tensor on its device, so that a training loop is not forced to wait.

    Raises:
        ValueError: bad shape, NaN or infinity, or all points equal (0/0: the score is undefined).
    """
    points = as_points(X)
    n, d = points.shape
    centred = points - points.mean(dim=0, dtype=torch.float64).to(points.dtype)
    # The score does not depend on the unit; a unit of one keeps squares of squares inside the float range.
    scale = centred.detach().abs().amax()
    # Equal points differ from their mean by its rounding, no more.
    if not bool(scale > 4 * torch.finfo(points.dtype).eps * points.detach().abs().amax()):
        raise ValueError("all points are equal: IsoScore is undefined")
    centred = centred / scale
    # X'X and XX' have the same trace and Frobenius norm: take the smaller.
    scatter = _scatter(centred) if n >= d else _scatter(centred.T)
    score = (scatter.diagonal().sum() ** 2 / scatter.square().sum() - 1) / (d - 1)
    return score if isinstance(X, torch.Tensor) else float(score)


def _scatter(centred: torch.Tensor) -> torch.Tensor:
    """A'A in float64 from blocks of rows multiplied in the dtype of A, shape (columns, columns)."""
    total = torch.zeros(centred.shape[1], centred.shape[1], dtype=torch.float64, device=centred.device)
    for block in torch.split(centred, ROWS_PER_BLOCK):
        total = total + (block.T @ block).double()
    return total
