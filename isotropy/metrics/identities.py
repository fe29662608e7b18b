"""What links isotropy to clusters: the quantities of Mickus, Grönroos & Attieh (2024), section 2
and Appendix B.

Each is computed by the short form; the tests compare it with the long one, over all pairs or
triples.
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
    # Equal points differ from their mean by it
    rounding = 4 * torch.finfo(torch.float64).eps * float(mean.abs().amax())
    if not float((S.trace() / len(points)).sqrt()) > rounding:
        raise ValueError("all points are equal: the variances have no direction")
    return float(S.trace() / (math.sqrt(len(S)) * S.square().sum().sqrt()))


def isotropy_defect(X: Points) -> float:
    """Isotropy defect delta of IsoScore (Rudman et al. 2022, step 5 of Algorithm 1), in [0, 1]: 0
    for equal variances.

    The distance of the normalized variances to the vector of ones, over its largest value sqrt(2 (d
    - sqrt(d))). By section 2.2 of Mickus et al. it is a chord: distance^2 = 2 d (1 - cos).
      Arguments and errors as in `cosine_to_ones`.
    """
    d = as_points(X).shape[1]
    return math.sqrt(max(d * (1 - cosine_to_ones(X)) / (d - math.sqrt(d)), 0.0))


def variance_by_pairs(X: Points) -> torch.Tensor:
    """Variance (ddof = 1) of each component, shape (d,), as half the mean squared difference over
    all pairs i != j.

    (Zhang et al. 2012, in section 2.2.) Sum over i, j of (x_i - x_j)^2 = 2 n sum x^2 - 2 (sum x)^2,
    on centred data.
    """
    points = as_points(X, min_dims=1).double()
    centred, n = points - points.mean(dim=0), len(points)
    over_pairs = 2 * n * centred.square().sum(dim=0) - 2 * centred.sum(dim=0).square()
    return over_pairs / (2 * n * (n - 1))


def silhouette_objective(X: Points, labels: Any) -> float:
    """Equation 1: squared distances over ordered pairs of points, those between classes minus those
    within.
    """
    within, between, _ = _squared_distances(X, labels)
    return float((between - within).sum())


def triplet_objective(X: Points, labels: Any) -> float:
    """Equation 5: the sum over all triplets (a, p, n) of |a - n|^2 - |a - p|^2, p of the class of a
    and n of another.

    As pairs, with k the size of the class of a: weight k - 1 for each pair between classes, -(N -
    k) for each within. For a margin >= 0 it is at least the triplet objective with hinge, -max(0,
    |a - p|^2 - |a - n|^2 + margin) summed over the triplets. (The formulas of Appendix B
    are missing from the text of the paper that we have; this is what its words describe.)

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

    Costs n^3 operations: for samples. Arguments and errors as in `triplet_objective`, its upper
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
    """For each point its squared distances summed within its class and to other classes, and the
    size of its class.
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
