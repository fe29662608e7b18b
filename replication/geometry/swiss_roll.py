"""Measure whether a cloud is rolled up, and along which quantity (the Swiss rolls of Cai et al.
2021).

On a Swiss roll two points can be near each other in space and far apart along the sheet. So
geodesic distances (along the sheet, by Isomap) are compared with distances in the best-fitting
plane, and with those in the plane that Isomap unrolls the sheet into.
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.spatial.distance import pdist, squareform
from sklearn.manifold import Isomap

SAMPLE_SIZE = 800  # sample size: the matrix of geodesic distances has n² entries
N_NEIGHBOURS = 10
N_PLANE_DIMENSIONS = 2


class Roll(NamedTuple):
    """Measures of how strongly a cloud is rolled up, and along which quantities.

    Attributes:
        gain: residual variance of the best-fitting plane minus that of Isomap's plane: near 0 for a
            line, a plane or a ball; above 0.1 for a roll.
        along_position, along_frequency: absolute Spearman correlation of the first unrolled
            coordinate with the position in the window, and with the frequency of the type.
    """

    gain: float
    along_position: float
    along_frequency: float


def roll(
    coordinates: np.ndarray, positions: np.ndarray, frequencies: np.ndarray, seed: int
) -> Roll:
    """Measure how strongly a cloud is rolled up.

    Args:
        coordinates: coordinates on the first three principal components, shape (n, 3).
        positions: position of each point in its window, shape (n,).
        frequencies: frequency of the type of each point, shape (n,).
        seed: seed for the sample of POINTS points.

    Returns:
        The measurements; NaN for fewer than 30 distinct points.

    Source:
        Tenenbaum, de Silva & Langford (2000): residual variance is 1 - r², with r the correlation
        of geodesic distances and distances in the plane.
    """
    points, first_rows = np.unique(coordinates.astype(np.float64), axis=0, return_index=True)
    if len(points) < 30:
        return Roll(np.nan, np.nan, np.nan)
    order = np.argsort(first_rows, kind="stable")
    chosen = np.random.default_rng(seed).permutation(len(points))[:SAMPLE_SIZE]
    cloud, rows = points[order][chosen], first_rows[order][chosen]
    method = Isomap(n_neighbors=N_NEIGHBOURS, n_components=N_PLANE_DIMENSIONS, eigen_solver="dense")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Isomap warns when it joins components
        unrolled = method.fit_transform(cloud)
    geodesic = squareform(method.dist_matrix_, checks=False)
    centred = cloud - cloud.mean(axis=0)
    best_plane = centred @ np.linalg.svd(centred, full_matrices=False)[2][:N_PLANE_DIMENSIONS].T
    along = [abs(_rho(unrolled[:, 0], quantity[rows])) for quantity in (positions, frequencies)]
    return Roll(_residual(geodesic, best_plane) - _residual(geodesic, unrolled), *along)


def _residual(geodesic: np.ndarray, plane: np.ndarray) -> float:
    r = np.corrcoef(geodesic, pdist(plane))[0, 1]
    return float(1 - r**2)


def _rho(x: np.ndarray, y: np.ndarray) -> float:
    return float(stats.spearmanr(x, y).statistic) if np.ptp(y) > 0 else 0.0
