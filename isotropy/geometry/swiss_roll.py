"""Whether a cloud is rolled up, and along what (the Swiss rolls of Cai et al. 2021).

On a Swiss roll two points can be near each other in space and far apart along the sheet. So
distances along the sheet (Isomap's geodesic distances) are compared with distances in the plane
that fits best, and with those in the plane into which the sheet unrolls.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import Isomap

POINTS = 800  # that are looked at: geodesic distances take n squared numbers
NEIGHBOURS = 10
PLANE = 2


class Roll(NamedTuple):
    """How far a cloud is rolled up.

    Attributes:
        gain: residual variance of the plane that fits best, minus that of Isomap's plane: near 0
            for a line, a plane or a ball; above 0.1 for a roll.
        along_position, along_frequency: size of Spearman's rho of the first unrolled coordinate
            with the position in the window, and with the frequency of the type.
    """

    gain: float
    along_position: float
    along_frequency: float


def roll(
    coordinates: np.ndarray, positions: np.ndarray, frequencies: np.ndarray, seed: int
) -> Roll:
    """Measure a cloud on its first principal components.

    Args:
        coordinates: shape (n, 3): a cloud on its first three principal components.
        positions: of each point in its window, shape (n,).
        frequencies: of each point's type, shape (n,).
        seed: of the sample of POINTS points.

    Returns:
        NaN for fewer than 30 different points.

    Source:
        Tenenbaum, de Silva & Langford (2000): residual variance is 1 - r squared of geodesic
        distances and distances in the plane.
    """
    points, first = np.unique(coordinates.astype(np.float64), axis=0, return_index=True)
    if len(points) < 30:
        return Roll(np.nan, np.nan, np.nan)
    order = np.argsort(first, kind="stable")
    chosen = np.random.default_rng(seed).permutation(len(points))[:POINTS]
    cloud, rows = points[order][chosen], first[order][chosen]
    method = Isomap(n_neighbors=NEIGHBOURS, n_components=PLANE, eigen_solver="dense")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # parts that are apart are joined where they are nearest
        unrolled = method.fit_transform(cloud)
    geodesic = squareform(method.dist_matrix_, checks=False)
    centred = cloud - cloud.mean(axis=0)
    flat = centred @ np.linalg.svd(centred, full_matrices=False)[2][:PLANE].T
    along = [abs(_rho(unrolled[:, 0], of[rows])) for of in (positions, frequencies)]
    return Roll(_residual(geodesic, flat) - _residual(geodesic, unrolled), *along)


def _residual(geodesic: np.ndarray, plane: np.ndarray) -> float:
    r = np.corrcoef(geodesic, pdist(plane))[0, 1]
    return float(1 - r**2)


def _rho(x: np.ndarray, y: np.ndarray) -> float:
    return float(stats.spearmanr(x, y).statistic) if np.ptp(y) > 0 else 0.0
