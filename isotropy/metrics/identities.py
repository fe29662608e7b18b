"""Identities that link isotropy and clustering: the quantities of Mickus, Grönroos & Attieh (2024),
section 2 and Appendix B.

Each is computed in closed form; the tests compare it with the sum over all pairs or triples.
"""

from __future__ import annotations

import math
from typing import Any

import torch

from isotropy.metrics.matmul import scatter
from isotropy.metrics.validation import Points, as_codes, as_points


def cosine_to_ones(X: Points) -> float:
    """Cosine of the angle between the vector of variances along the principal axes and the vector
    of ones.

    cos = tr(Sigma) / (sqrt(d) ||Sigma||_F), in [1/sqrt(d), 1]. It gives the isotropy defect and
    IsoScore (section 2.2):

        defect^2 = d (1 - cos) / (d - sqrt(d)),    IsoScore = (d cos^2 - 1) / (d - 1).

    Args:
        X: point cloud, shape (n, d), n >= 2, d >= 2.

    Raises:
        ValueError: bad shapes, NaN or infinity, or all points equal.
    """
    points = as_points(X).double()
    mean = points.mean(dim=0)
    S = scatter(points - mean)
    # Equal points differ from their mean by rounding errors
    rounding = 4 * torch.finfo(torch.float64).eps * float(mean.abs().amax())
    if not float((S.trace() / len(points)).sqrt()) > rounding:
        raise ValueError("all points are equal: the variances have no direction")
    return float(S.trace() / (math.sqrt(len(S)) * S.square().sum().sqrt()))


def isotropy_defect(X: Points) -> float:
    """Isotropy defect delta of IsoScore (Rudman et al. 2022, step 5 of Algorithm 1), in [0, 1]: 0
    for equal variances.

    It is the distance between the normalized variances and the vector of ones, divided by its
    maximum sqrt(2 (d - sqrt(d))). By section 2.2 of Mickus et al. this distance is a chord:
    distance^2 = 2 d (1 - cos). Arguments and errors as in `cosine_to_ones`.
    """
    d = as_points(X).shape[1]
    return math.sqrt(max(d * (1 - cosine_to_ones(X)) / (d - math.sqrt(d)), 0.0))


def variance_by_pairs(X: Points) -> torch.Tensor:
    """Variance (ddof = 1) of each component, shape (d,), as half the mean squared difference over
    all pairs i != j.

    The identity is that of Zhang et al. (2012), cited in section 2.2. Computed on centred data by
    sum over i, j of (x_i - x_j)^2 = 2 n sum x^2 - 2 (sum x)^2.
    """
    points = as_points(X, min_dims=1).double()
    centred, n = points - points.mean(dim=0), len(points)
    pair_sum = 2 * n * centred.square().sum(dim=0) - 2 * centred.sum(dim=0).square()
    return pair_sum / (2 * n * (n - 1))


def silhouette_objective(X: Points, labels: Any) -> float:
    """Equation 1: the sum of squared distances over ordered pairs of points of different classes,
    minus that over pairs within classes.
    """
    within, between, _ = _squared_distances(X, labels)
    return float((between - within).sum())


def triplet_objective(X: Points, labels: Any) -> float:
    """Equation 5: the sum over all triplets (a, p, n) of |a - n|^2 - |a - p|^2, p of the class of a
    and n of another.

    Computed over pairs: with k the size of the class of a, each pair between classes has the weight
    k - 1, each pair within a class -(N - k). For a margin >= 0 it is an upper bound of the triplet
    objective with hinge, -max(0, |a - p|^2 - |a - n|^2 + margin) summed over the triplets. (Our
    copy of the paper lacks the formulas of Appendix B; this follows their description in words.)

    Args:
        X: point cloud, shape (n, d).
        labels: class of each point, shape (n,) or (n, n_labels).

    Raises:
        ValueError: bad shapes, NaN or infinity, or fewer than two classes.
    """
    within, between, size = _squared_distances(X, labels)
    return float(((size - 1) * between - (len(size) - size) * within).sum())


def hinged_triplet_objective(X: Points, labels: Any, margin: float = 0.0) -> float:
    """The triplet objective, to be maximized: -max(0, |a - p|^2 - |a - n|^2 + margin), summed over
    all triplets.

    Costs n^3 operations: use samples. Arguments and errors as in `triplet_objective`, its upper
    bound for a margin >= 0.
    """
    points = as_points(X, min_dims=1).double()
    codes = as_codes(labels, len(points)).to(points.device)
    points = points - points.mean(dim=0)
    squared = torch.cdist(points, points).square()
    total = 0.0
    for anchor, distances in enumerate(squared):
        same = codes == codes[anchor]
        positives = same.clone()
        positives[anchor] = False
        hinge = (distances[positives][:, None] - distances[~same][None, :] + margin).clamp(min=0)
        total -= float(hinge.sum())
    return total


def _squared_distances(X: Points, labels: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return for each point the sum of its squared distances to points of its class, that to points
    of other classes, and the size of its class.
    """
    points = as_points(X, min_dims=1).double()
    codes = as_codes(labels, len(points)).to(points.device)
    centred = points - points.mean(dim=0)
    counts = torch.bincount(codes)
    squares = centred.square().sum(dim=1)
    sums = torch.zeros(
        len(counts), points.shape[1], dtype=torch.float64, device=points.device
    ).index_add_(0, codes, centred)
    size = counts[codes].double()
    within = (
        size * squares
        + torch.bincount(codes, weights=squares)[codes]
        - 2 * (centred * sums[codes]).sum(dim=1)
    )
    total = len(points) * squares + squares.sum() - 2 * centred @ centred.sum(dim=0)
    return within, total - within, size
