"""Intrinsic dimension from exact distances to nearest neighbours.

Facco, d'Errico, Rodriguez & Laio (2017), doi:10.1038/s41598-017-11873-y (TwoNN). Levina & Bickel
(2005), NIPS; Amsaleg et al. (2015), doi:10.1145/2783258.2783405 (maximum likelihood of the local
dimension).
"""

from __future__ import annotations

import hashlib
import math
import warnings
from typing import Literal, NamedTuple

import numpy as np
import torch

from isotropy.metrics.matmul import (
    full_precision,
)
from isotropy.metrics.neighbours import nearest_distances
from isotropy.metrics.validation import Points, as_points, sample_rows, scaled

MIN_COSINE_DISTANCE = 1e-8  # lower bound of 1 - cos in the code of Cai et al.


@full_precision
def two_nn(X: Points, *, discard_fraction: float = 0.1) -> float:
    """Intrinsic dimension by TwoNN, as Rudman & Eickhoff (2024) measure it (Figure 7).

    With mu the ratio of the distances to the second and the first neighbour, log(mu) is exponential
    with rate d: the slope, through the origin, of -log(1 - F(mu)) on log(mu), where F is the
    empirical distribution.

    Args:
        X: point cloud, shape (n, d), array or tensor. Repeated points are left out, with a warning.
        discard_fraction: share of the largest ratios left out of the fit, as in scikit-dimension.

    Raises:
        ValueError: bad shapes, NaN or infinity, fewer than three different points, a lattice (both
            neighbours equally far but for rounding), or `discard_fraction` outside [0, 1) or so
            large that no point is left.

    Examples:
        >>> plane = np.random.default_rng(0).normal(size=(1000, 2))
        >>> round(two_nn(np.pad(plane, ((0, 0), (0, 8)))), 1)
        2.0
    """
    if not 0 <= discard_fraction < 1:
        raise ValueError(f"discard_fraction must lie in [0, 1), got {discard_fraction}")
    points = as_points(X, min_points=3, min_dims=1, in_place=True).detach()
    distinct = _mask_of_distinct(points, "two_nn")
    points = scaled(points if distinct is None else points[distinct.to(points.device)])
    if len(points) < 3:
        raise ValueError(
            "two_nn needs neighbours at different distances: at least 3 different points, got "
            f"{len(points)}"
        )
    two_nearest = nearest_distances(points, 2, torch.arange(len(points)))[0]
    if not (two_nearest[:, 0] > 0).all():
        raise ValueError(
            f"{(two_nearest[:, 0] == 0).sum()} points have a nearest neighbour at distance 0 in "
            f"{points.dtype}: remove repeated points or pass float64"
        )
    log_mu = np.log(two_nearest[:, 1] / two_nearest[:, 0])
    n = len(log_mu)
    # F = 1 at the last point, where the logarithm is infinite
    n_fitted = min(int(n * (1 - discard_fraction)), n - 1)
    if not n_fitted:
        raise ValueError(f"discard_fraction {discard_fraction} leaves none of {n} points to fit")
    fitted = np.argsort(log_mu, kind="stable")[:n_fitted]
    x, y = log_mu[fitted], -np.log1p(-np.arange(1, n_fitted + 1) / n)
    # A coordinate is rounded, so the difference of two distances is, too
    rounding = 4 * torch.finfo(points.dtype).eps * math.sqrt(points.shape[1])
    gaps = two_nearest[fitted, 1] - two_nearest[fitted, 0]
    if (gaps <= rounding * float(points.abs().amax())).all():
        raise ValueError(
            "two_nn needs neighbours at different distances; both are equally far from each of "
            f"{n_fitted} points"
        )
    return float((x * y).sum() / (x * x).sum())


def lid_mle(
    X: Points,
    k: int = 100,
    *,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    squared: bool = False,
    repeated: Literal["drop", "keep"] = "drop",
    n_queries: int | None = None,
    seed: int = 0,
) -> float:
    """Mean local intrinsic dimension. Arguments, values and errors as in `lid_mle_samples`."""
    arguments = {
        "metric": metric,
        "squared": squared,
        "repeated": repeated,
        "n_queries": n_queries,
        "seed": seed,
    }
    return float(lid_mle_samples(X, k, **arguments).mean())  # type: ignore[arg-type]


class LidEstimates(NamedTuple):
    """Mean local intrinsic dimension by the conventional estimator, and as published by Cai et al.
    (2021).

    Attributes:
        conventional: mean over the points that do not repeat an earlier one.
        published: mean over all points, including repeated ones. Where all k neighbours are equally
            far, the estimate is infinite, and the authors' code replaces it by the number of
            dimensions; where some or all are at distance 0, it is 0 there.
        n_repeated: number of points that repeat an earlier one; by cosine, or a multiple of it.
        n_replaced: number of infinite estimates that were replaced in the published mean.
    """

    conventional: float
    published: float
    n_repeated: int
    n_replaced: int


@full_precision
def lid_mle_estimates(
    X: Points,
    k: int = 100,
    *,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    n_queries: int | None = None,
    seed: int = 0,
) -> LidEstimates:
    """Compute both estimates from one search: `lid_mle` with its defaults, and with `squared=True,
    repeated="keep"`.

    Arguments and errors as in `lid_mle_samples`.
    """
    points = _points_for_metric(as_points(X, min_dims=1, in_place=True).detach(), metric)
    distinct = _mask_of_distinct(points, "lid_mle")
    rows = _query_rows(points, distinct, k, n_queries, seed)
    r, r_distinct = nearest_distances(points, k, rows, distinct)
    published, n_replaced = _published_mean(_clamp_as_published(r, metric), points.shape[1])
    r_conventional = r_distinct if distinct is None else r_distinct[distinct[rows].numpy()]
    conventional = float(_mle_estimates(r_conventional, squared=False).mean())
    n_repeated = 0 if distinct is None else int((~distinct).sum())
    return LidEstimates(conventional, published, n_repeated, n_replaced)


@full_precision
def lid_mle_samples(
    X: Points,
    k: int = 100,
    *,
    metric: Literal["euclidean", "cosine"] = "euclidean",
    squared: bool = False,
    repeated: Literal["drop", "keep"] = "drop",
    n_queries: int | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Local intrinsic dimension at each point by maximum likelihood: -1 / mean over i = 1..k of
    log(r_i / r_k).

    The conventional estimate is the default. The published one of Cai et al. (2021, section 5) is
    `squared=True, repeated="keep"`: their neighbour search returns squared distances (and 1 - cos,
    half the squared distance of unit vectors), of which no root is taken, so that each value is
    half the conventional one.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device.
        k: number of neighbours, not counting the point itself; 2 <= k < n.
        metric: "euclidean", or "cosine": distances between the unit vectors.
        squared: use squared distances, as published.
        repeated: "drop": leave repeated points out, with a warning. "keep": equal points are
            neighbours at distance 0 (1 - cos is at least 1e-8), as published: the estimate at a
            repeated point is 0 (euclidean).
        n_queries: number of points at which to estimate, sampled with `seed`, with neighbours among
            all points; None: all points. The sample is drawn before repeated points are dropped.
        seed: seed of the sample.

    Returns:
        Estimates, shape (points,), float64; infinite where all k neighbours are equally far.

    Raises:
        ValueError: bad shapes, NaN or infinity, k out of range, an unknown metric, or a zero vector
            for "cosine".
    """
    if repeated not in ("drop", "keep"):
        raise ValueError(f'repeated must be "drop" or "keep", got {repeated!r}')
    points = _points_for_metric(as_points(X, min_dims=1, in_place=True).detach(), metric)
    distinct = _mask_of_distinct(points, "lid_mle") if repeated == "drop" else None
    rows = _query_rows(points, distinct, k, n_queries, seed)
    if distinct is not None:
        rows, points = (
            (distinct.cumsum(0) - 1)[rows[distinct[rows]]],
            points[distinct.to(points.device)],
        )
    r = nearest_distances(points, k, rows)[0]
    return _mle_estimates(_clamp_as_published(r, metric) if repeated == "keep" else r, squared)


def _points_for_metric(points: torch.Tensor, metric: str) -> torch.Tensor:
    """Return the cloud, or its unit vectors for "cosine"."""
    if metric not in ("euclidean", "cosine"):
        raise ValueError(f'metric must be "euclidean" or "cosine", got {metric!r}')
    if metric == "euclidean":
        return points
    points = scaled(points)
    norms = torch.linalg.vector_norm(points, dim=1, keepdim=True)
    if not bool((norms > 0).all()):
        raise ValueError(f"{int((norms == 0).sum())} points are zero: they have no cosine")
    units: torch.Tensor = points / norms
    return units


def _query_rows(
    points: torch.Tensor, distinct: torch.Tensor | None, k: int, n_queries: int | None, seed: int
) -> torch.Tensor:
    """Return the indices of the points at which to estimate: all, or a random sample."""
    n = len(points)
    n_distinct = n if distinct is None else int(distinct.sum())
    if not 2 <= k < n_distinct:
        raise ValueError(
            f"k must lie between 2 and {n_distinct - 1} for {n_distinct} different points, got {k}"
        )
    rows = (
        torch.arange(n) if n_queries is None or n_queries >= n else sample_rows(n, n_queries, seed)
    )
    if distinct is not None and not bool(distinct[rows].any()):
        raise ValueError(f"all {len(rows)} sampled points repeat others: use a larger n_queries")
    return rows


def _clamp_as_published(r: np.ndarray, metric: str) -> np.ndarray:
    """Bound distances as the authors do: 1 - cos, half the squared distance of unit vectors, is at
    least 1e-8.
    """
    clamped: np.ndarray = (
        np.maximum(r, np.sqrt(2 * MIN_COSINE_DISTANCE)) if metric == "cosine" else r
    )
    return clamped


def _mle_estimates(r: np.ndarray, squared: bool) -> np.ndarray:
    """Compute the estimate of each point from distances to k neighbours, shape (points, k)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_log = np.log(r[:, -1:] / r).mean(axis=1)
        estimates: np.ndarray = 1 / ((2 if squared else 1) * mean_log)
    estimates[r[:, 0] == 0] = 0  # the limit of the formula
    return estimates


def _published_mean(r: np.ndarray, d: int) -> tuple[float, int]:
    """Return the mean as the authors' code computes it, from distances to k neighbours, and the
    number of infinite estimates that were replaced by d.
    """
    estimates = _mle_estimates(r, squared=True)
    is_infinite = np.isinf(estimates)
    estimates[is_infinite] = d
    return float(estimates.mean()), int(is_infinite.sum())


def _mask_of_distinct(points: torch.Tensor, caller: str) -> torch.Tensor | None:
    """Return a mask, shape (n,), of the points that do not repeat an earlier one, and warn of those
    that do; None if none does.
    """
    distinct = torch.ones(len(points), dtype=torch.bool)
    seen: set[bytes] = set()
    for i, row in enumerate((points + 0.0).cpu().numpy()):  # -0.0 becomes 0.0
        key = hashlib.blake2b(row.tobytes(), digest_size=16).digest()
        distinct[i] = key not in seen
        seen.add(key)
    n_repeated = len(points) - len(seen)
    if not n_repeated:
        return None
    warnings.warn(
        f"{caller}: {n_repeated} of {len(points)} points repeat another and were left out",
        stacklevel=3,
    )
    return distinct
