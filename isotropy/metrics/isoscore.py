"""IsoScore of a point cloud, in the closed form that needs no eigendecomposition.

Rudman, Gillman, Rayne & Eickhoff (2022), "IsoScore: Measuring the Uniformity of Embedding Space Utilization",
Findings of ACL, doi:10.18653/v1/2022.findings-acl.262.
"""

from __future__ import annotations

import torch

from isotropy.metrics.validation import Points, as_points, require_finite

_TINY, _HUGE = 1e-12, 1e12  # between these, squares and their sums are exact enough in float32
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
        A float; for a torch tensor a 0-d float64 tensor on its device, through which gradients flow.

    Raises:
        ValueError: bad shape, NaN or infinity, or all points equal (0/0: the score is undefined).
    """
    points = as_points(X, finite=False)
    n, d = points.shape
    mean = points.mean(dim=0)
    centred = points - mean
    scatter = _scatter(centred)
    trace = scatter.diagonal().sum()
    spread = (trace / n).sqrt()  # root mean square distance from the mean
    if not _TINY < float(spread.detach()) < _HUGE:
        # NaN, or squares beyond the float range. The score does not depend on the unit: take the largest value as one.
        require_finite(points)
        unit = centred.detach().abs().amax().clamp(min=torch.finfo(points.dtype).tiny)
        scatter = _scatter(centred / unit)
        trace = scatter.diagonal().sum()
        spread = (trace / n).sqrt() * unit.double()
    # Equal points differ from their mean by its rounding, no more.
    rounding = 4 * torch.finfo(points.dtype).eps * mean.detach().abs().amax()
    if not bool(spread.detach() > rounding) or not bool(trace > 0):
        raise ValueError("all points are equal: IsoScore is undefined")
    score = (trace**2 / scatter.square().sum() - 1) / (d - 1)
    return score if isinstance(X, torch.Tensor) else float(score)


def _scatter(centred: torch.Tensor) -> torch.Tensor:
    """X'X, or the smaller XX', which has the same trace and Frobenius norm; float64, from products in the dtype of X."""
    if centred.shape[0] < centred.shape[1]:
        centred = centred.T
    total = torch.zeros(centred.shape[1], centred.shape[1], dtype=torch.float64, device=centred.device)
    for block in torch.split(centred, ROWS_PER_BLOCK):
        total = total + (block.T @ block).double()
    return total
