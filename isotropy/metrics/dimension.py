"""Intrinsic dimension from the distances to nearest neighbours, which are exact.

Facco, d'Errico, Rodriguez & Laio (2017), doi:10.1038/s41598-017-11873-y (TwoNN). Levina & Bickel
(2005), NIPS; Amsaleg et al. (2015), doi:10.1145/2783258.2783405 (maximum likelihood of the local
dimension).
"""

from __future__ import annotations

import math
import warnings
from typing import Literal, NamedTuple

import numpy as np
import torch

from isotropy.metrics.distances import TILE, centred, keep_two_least, scaled, squared_norms
from isotropy.metrics.matmul import (
    ROWS_PER_BLOCK,
    full_precision,
    product,
    visit_pairs,
    worker_threads,
)
from isotropy.metrics.neighbours import nearest
from isotropy.metrics.validation import Points, as_points, sample_rows

CLAMP = 1e-8  # least 1 - cos in the code of Cai et al.


@full_precision
def two_nn(X: Points, *, discard_fraction: float = 0.1) -> float:
    """Intrinsic dimension by TwoNN, as Rudman & Eickhoff (2024) measure it (Figure 7).

    With mu the ratio of the distances to the second and the first neighbour, log(mu) is exponential
    with rate d: the slope, through the origin, of -log(1 - F(mu)) on log(mu), where F is the
    empirical distribution.

    Args:
        X: point cloud, shape (n, d), array or tensor on any device. Of equal points one is kept,
            with a warning.
        discard_fraction: share of the largest ratios that is left out of the fit, as in
            scikit-dimension.

    Raises:
        ValueError: bad shapes, NaN or infinity, fewer than three different points, or
            `discard_fraction` outside [0, 1).
    """
    if not 0 <= discard_fraction < 1:
        raise ValueError(f"discard_fraction must lie in [0, 1), got {discard_fraction}")
    points = as_points(X, min_points=3, min_dims=1, in_place=True).detach()
    if (different := _first_of_equals(points, "two_nn")) is not None:
        points = points[different.to(points.device)]
    two = (
        _two_nearest(points) if points.is_cpu else nearest(points, 2, torch.arange(len(points)))[0]
    )
    if not (two[:, 0] > 0).all():
        raise ValueError(
            f"{(two[:, 0] == 0).sum()} points have a nearest neighbour at distance 0 in "
            f"{points.dtype}: remove repeated points or pass float64"
        )
    log_mu = np.sort(np.log(two[:, 1] / two[:, 0]))
    n = len(log_mu)
    # F = 1 at the last, where the logarithm ends
    kept = min(int(n * (1 - discard_fraction)), n - 1)
    x, y = log_mu[:kept], -np.log1p(-np.arange(1, kept + 1) / n)
    if not (x * x).sum() > 0:
        raise ValueError(
            "two_nn needs neighbours at different distances; both are equally far from each of "
            f"{kept} points"
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
    """Mean local intrinsic dimension by the conventional estimate, and as Cai et al. (2021) have
    published it.

    Attributes:
        conventional: over points that do not repeat an earlier one.
        published: over all points, repetitions included. Where all k neighbours are equally far the
            estimate is infinite, and the authors' code puts the number of dimensions in its place;
            where they all are at distance 0 it has none, and leaves the point out.
        n_repeated: points that repeat an earlier one.
        n_replaced: points that the published mean has with the number of dimensions.
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
    """Both estimates: `lid_mle` as it is, and with `squared=True, repeated="keep"`, from one
    search.

    Arguments and errors as in `lid_mle_samples`.
    """
    points = _directed(as_points(X, min_dims=1, in_place=True).detach(), metric)
    kept = _first_of_equals(points, "lid_mle")
    rows = _drawn(points, kept, k, n_queries, seed)
    r, apart = nearest(points, k, rows, kept)
    published, n_replaced = _as_published(_clamped(r, metric), points.shape[1])
    own = apart if kept is None else apart[kept[rows].numpy()]
    conventional = float(_estimates(own, squared=False).mean())
    n_repeated = 0 if kept is None else int((~kept).sum())
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
        k: neighbours, the point itself not counted; 2 <= k < n.
        metric: "euclidean", or "cosine": distances between the unit vectors.
        squared: use squared distances, as published.
        repeated: "drop": of equal points one is kept, with a warning. "keep": they are neighbours
            at distance 0 (for 1 - cos at least 1e-8), as published: a point that has one gets 0
            (euclidean).
        n_queries: measure at this many points, drawn with `seed`, with neighbours among all; None:
            at all points. They are drawn before repetitions are dropped.
        seed: of the draw.

    Returns:
        Estimates, shape (points,), float64; infinite where all k neighbours are equally far.

    Raises:
        ValueError: bad shapes, NaN or infinity, k out of range, an unknown metric, or a zero vector
            for "cosine".
    """
    if repeated not in ("drop", "keep"):
        raise ValueError(f'repeated must be "drop" or "keep", got {repeated!r}')
    points = _directed(as_points(X, min_dims=1, in_place=True).detach(), metric)
    kept = _first_of_equals(points, "lid_mle") if repeated == "drop" else None
    rows = _drawn(points, kept, k, n_queries, seed)
    if kept is not None:
        rows, points = (kept.cumsum(0) - 1)[rows[kept[rows]]], points[kept.to(points.device)]
    r = nearest(points, k, rows)[0]
    return _estimates(_clamped(r, metric) if repeated == "keep" else r, squared)


def _directed(points: torch.Tensor, metric: str) -> torch.Tensor:
    """The cloud, or its unit vectors for "cosine"."""
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


def _drawn(
    points: torch.Tensor, kept: torch.Tensor | None, k: int, n_queries: int | None, seed: int
) -> torch.Tensor:
    """Numbers of the points to measure at; all, or some that are drawn."""
    n = len(points)
    different = n if kept is None else int(kept.sum())
    if not 2 <= k < different:
        raise ValueError(
            f"k must lie between 2 and {different - 1} for {different} different points, got {k}"
        )
    rows = (
        torch.arange(n) if n_queries is None or n_queries >= n else sample_rows(n, n_queries, seed)
    )
    if kept is not None and not bool(kept[rows].any()):
        raise ValueError(
            f"all {len(rows)} points that were drawn repeat others: take a larger n_queries"
        )
    return rows


def _clamped(r: np.ndarray, metric: str) -> np.ndarray:
    """Distances as the authors have them: 1 - cos, half the square of the distance of unit vectors,
    is at least 1e-8.
    """
    clamped: np.ndarray = np.maximum(r, np.sqrt(2 * CLAMP)) if metric == "cosine" else r
    return clamped


def _estimates(r: np.ndarray, squared: bool) -> np.ndarray:
    """Estimates from distances to k neighbours, shape (points,)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_log = np.log(r[:, -1:] / r).mean(axis=1)
        estimates: np.ndarray = 1 / ((2 if squared else 1) * mean_log)
    estimates[r[:, 0] == 0] = 0  # the limit of the formula
    return estimates


def _as_published(r: np.ndarray, d: int) -> tuple[float, int]:
    """Mean as the authors' code takes it, from distances to k neighbours; and how many infinite
    estimates it replaced by d.
    """
    known = r[r[:, -1] > 0]
    estimates = _estimates(known, squared=True)
    endless = np.isinf(estimates)
    estimates[endless] = d
    return float(estimates.mean()) if len(known) else math.nan, int(endless.sum())


def _first_of_equals(points: torch.Tensor, what: str) -> torch.Tensor | None:
    """Which points do not repeat an earlier one, shape (n,), with a warning that some do; None if
    none does.
    """
    rows = points.cpu().numpy()
    # Rows with equal digests are compared; the rest, which is most, is neither sorted nor copied.
    width = rows.shape[1] * rows.dtype.itemsize // 4
    factors = np.random.default_rng(0).integers(1, 2**63, width, dtype=np.uint64) * np.uint64(
        2
    ) + np.uint64(1)
    digests = np.empty(len(rows), dtype=np.uint64)
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        block = np.ascontiguousarray(rows[start : start + ROWS_PER_BLOCK] + 0.0)  # -0.0 becomes 0.0
        digests[start : start + len(block)] = block.view(np.uint32).astype(np.uint64) @ factors
    _, first, counts = np.unique(digests, return_index=True, return_counts=True)
    if len(first) == len(rows):
        return None
    suspects = np.flatnonzero(np.isin(digests, digests[first[counts > 1]]))
    keys = np.ascontiguousarray(rows[suspects] + 0.0)
    _, first = np.unique(
        keys.view(np.dtype((np.void, keys.dtype.itemsize * keys.shape[1]))).reshape(-1),
        return_index=True,
    )
    repeated = np.delete(suspects, first)
    if not len(repeated):
        return None
    warnings.warn(
        f"{what}: {len(repeated)} of {len(rows)} points repeat another and were left out",
        stacklevel=3,
    )
    different = torch.ones(len(rows), dtype=torch.bool)
    different[torch.from_numpy(repeated)] = False
    return different


def _two_nearest(points: torch.Tensor) -> np.ndarray:
    """Distances to the two nearest neighbours, shape (n, 2), on the CPU; each pair of tiles is
    visited once.
    """
    points = scaled(points)
    cloud = centred(points)
    norms = squared_norms(cloud).numpy()
    least = np.full((n := len(cloud), 2), np.finfo(norms.dtype).max, dtype=norms.dtype)
    parts = [slice(start, min(start + TILE, n)) for start in range(0, n, TILE)]

    def visit(pair: tuple[int, int]) -> None:
        a, b = parts[pair[0]], parts[pair[1]]
        # Differences of near points lose no digits before centring.
        x, y = points[a].numpy(), points[b].numpy()
        keep_two_least(
            product(cloud[a], cloud[b]).numpy(), x, y, norms[a], norms[b], least[a], least[b]
        )

    with worker_threads() as pool:
        visit_pairs(pool, len(parts), visit)
    return least.astype(np.float64)
