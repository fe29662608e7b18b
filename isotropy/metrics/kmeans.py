"""k-means for several numbers of clusters at once, by Lloyd's algorithm.

An iteration of a single k-means reads all points for few operations: memory bandwidth limits it.
Here one matrix product computes the distances to the centres of all runs that have not converged,
and sums of clusters are updated only for points that change their cluster. Steps and stopping rules
are those of scikit-learn's `KMeans`, and so are the initial centres: k-means++, Arthur &
Vassilvitskii (2007), SODA.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from sklearn.cluster import kmeans_plusplus

from isotropy.metrics.matmul import full_precision, product, worker_threads
from isotropy.metrics.validation import aligned

ROWS = 1024  # points per block: their distances to all centres fit into the cache


class Clustering(NamedTuple):
    """Result of a k-means run."""

    labels: np.ndarray
    """Nearest centre of each point, shape (n,), int32."""
    centers: np.ndarray
    """Shape (k, d), float64."""
    inertia: float
    """Sum of squared distances of the points to the mean of their cluster."""
    n_iter: int
    """Number of iterations."""


def kmeans(
    X: np.ndarray,
    k_range: Sequence[int],
    *,
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
) -> dict[int, Clustering]:
    """Return the best of `n_init` runs of k-means for each number of clusters.

    Args:
        X: points, shape (n, d), float32 or float64, finite, whose squares are in the float range.
        k_range: numbers of clusters, each from 1 to n.
        n_init: number of initializations for each, at least 1; the run of smallest inertia is kept.
        max_iter: maximum number of iterations of a run, at least 1.
        tol: a run stops when the sum of the squared distances that its centres move is at most
            `tol` times the mean variance of a dimension, or when no point changes its cluster.
        seed: seed of the initial centres.

    Returns:
        One clustering per number of clusters. With one initialization, labels, centres and
        iterations are those of scikit-learn's `KMeans` with this seed, up to rounding errors.

    Raises:
        ValueError: a number of clusters, initializations or iterations is out of range.
    """
    k_values = sorted(set(k_range))
    if not k_values or k_values[0] < 1 or k_values[-1] > len(X):
        raise ValueError(f"k_range must hold numbers from 1 to {len(X)}, got {k_values}")
    if n_init < 1 or max_iter < 1:
        raise ValueError(f"n_init and max_iter must be at least 1, got {n_init} and {max_iter}")
    mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    centred = aligned(torch.from_numpy(X - mean)).numpy()
    starts = _InitialCenters(centred, k_values, seed)
    best: dict[int, Clustering] = {}
    for _ in range(n_init):
        initial_centers = starts.draw()
        runs = lloyd(centred, list(initial_centers.values()), max_iter=max_iter, tol=tol)
        for k, run in zip(initial_centers, runs, strict=True):
            if k not in best or run.inertia < best[k].inertia:
                best[k] = run
    return {k: run._replace(centers=run.centers + mean) for k, run in best.items()}


class _InitialCenters:
    """Initial centres for several numbers of clusters, by scikit-learn's k-means++.

    All numbers of clusters with the same number of trials per centre draw the same sequence of
    centres, so that one call for the largest number serves them all.
    """

    def __init__(self, X: np.ndarray, k_values: Sequence[int], seed: int) -> None:
        self.X, self.norms = X, np.einsum("ij,ij->i", X, X)
        self.shared: dict[int, list[int]] = {}  # by number of trials, as in scikit-learn
        for k in k_values:
            self.shared.setdefault(2 + int(np.log(k)), []).append(k)
        self.rngs = {n_trials: np.random.RandomState(seed) for n_trials in self.shared}

    def draw(self) -> dict[int, np.ndarray]:
        """Draw new initial centres for each number of clusters."""
        centers_by_k: dict[int, np.ndarray] = {}
        for n_trials, k_values in self.shared.items():
            centers, _ = kmeans_plusplus(
                self.X,
                k_values[-1],
                x_squared_norms=self.norms,
                random_state=self.rngs[n_trials],
                n_local_trials=n_trials,
            )
            centers_by_k |= {k: centers[:k] for k in k_values}
        return centers_by_k


class _KMeansRun:
    """One run of k-means: its centres, labels, and the sums and sizes of its clusters."""

    def __init__(self, start: np.ndarray, n: int) -> None:
        self.centers = start.astype(np.float64)
        self.labels = np.full(n, -1, dtype=np.int32)
        self.sums = np.zeros_like(self.centers)
        self.sizes = np.zeros(len(start), dtype=np.int64)
        self.n_iter = 0

    def relabel(self, X: np.ndarray, labels: np.ndarray) -> int:
        """Replace the labels and update the sums and sizes; return how many labels changed."""
        return _move_points(X, self.labels, labels, self.sums, self.sizes)

    def update(self, X: np.ndarray) -> float:
        """Move each centre to the mean of its points; return the sum of the squared distances that
        they moved.
        """
        sums, sizes = self._relocate_empty(X) if not self.sizes.all() else (self.sums, self.sizes)
        centers = sums / np.maximum(sizes, 1)[:, None]
        centers[sizes == 0] = centers[sizes.argmax()]
        moved = float(((centers - self.centers) ** 2).sum())
        self.centers = centers
        return moved

    def _relocate_empty(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Give each empty cluster one of the points that are farthest from their centres, as
        scikit-learn does; return the new sums and sizes.
        """
        sums, sizes = self.sums.copy(), self.sizes.copy()
        squared_distances = np.empty(len(X))
        for first in range(0, len(X), ROWS):
            part = slice(first, first + ROWS)
            squared_distances[part] = ((X[part] - self.centers[self.labels[part]]) ** 2).sum(axis=1)
        empty = np.flatnonzero(sizes == 0)
        for cluster, point in zip(
            empty, np.argsort(-squared_distances, kind="stable"), strict=False
        ):
            if squared_distances[point] > 0:
                sums[self.labels[point]] -= X[point]
                sizes[self.labels[point]] -= 1
                sums[cluster], sizes[cluster] = X[point], 1
        return sums, sizes

    def result(self, total: float) -> Clustering:
        """Return the clustering, given the sum of the squared norms of all points."""
        between = ((self.sums**2).sum(axis=1) / np.maximum(self.sizes, 1)).sum()
        return Clustering(self.labels, self.centers, float(total - between), self.n_iter)


@full_precision
def lloyd(
    X: np.ndarray, starts: Sequence[np.ndarray], *, max_iter: int = 300, tol: float = 1e-4
) -> list[Clustering]:
    """Run k-means from each of several initializations, all in parallel.

    Args:
        X: points, shape (n, d), float32 or float64, contiguous, whose mean is 0.
        starts: initial centres, shape (k, d), one array per run.
        max_iter: maximum number of iterations of a run, at least 1.
        tol: as for `kmeans`.

    Returns:
        One clustering per run.
    """
    total = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    max_move = tol * total / X.size
    active = runs = [_KMeansRun(start, len(X)) for start in starts]
    with worker_threads() as pool:

        def assign(assigned_runs: list[_KMeansRun]) -> list[int]:
            """Assign points to nearest centres; return how many labels of each run changed."""
            centers = np.concatenate([run.centers for run in assigned_runs]).astype(X.dtype)
            ends = np.cumsum([len(run.centers) for run in assigned_runs])
            labels = np.empty((len(assigned_runs), len(X)), dtype=np.int32)
            norms = np.einsum("ij,ij->i", centers, centers)
            all_centers = torch.tensor(centers)  # a copy, aligned by torch

            def block(first: int) -> None:
                points = torch.from_numpy(X[first : first + ROWS])
                products = product(points, all_centers).numpy()
                _assign_nearest(products, norms, ends, labels[:, first : first + ROWS])

            list(pool.map(block, range(0, len(X), ROWS)))
            return list(pool.map(lambda run, row: run.relabel(X, row), assigned_runs, labels))

        while active:
            changed = assign(active)
            moves = list(pool.map(lambda run: run.update(X), active))
            outdated, still_active = [], []
            for run, n_changed, moved in zip(active, changed, moves, strict=True):
                run.n_iter += 1
                if n_changed and (moved <= max_move or run.n_iter == max_iter):
                    outdated.append(run)
                elif n_changed:
                    still_active.append(run)
            if outdated:  # update labels to the last centres
                assign(outdated)
            active = still_active
    return [run.result(total) for run in runs]


def _assign_nearest(
    products: np.ndarray, norms: np.ndarray, ends: np.ndarray, labels: np.ndarray
) -> None:
    """Write the nearest centre of each point in each run to `labels`, shape (runs, rows), from the
    products of points and all centres, shape (rows, centres). `ends` holds the end of each run's
    centres.
    """
    distances = norms - 2 * products.astype(np.float64)
    for row, (first, end) in zip(labels, pairwise([0, *ends]), strict=True):
        row[:] = distances[:, first:end].argmin(axis=1)


def _move_points(
    X: np.ndarray, before: np.ndarray, after: np.ndarray, sums: np.ndarray, sizes: np.ndarray
) -> int:
    """Move the points whose label changes (-1: no label yet) to the sums and sizes of their new
    clusters, and update `before`; return how many changed.
    """
    moved = np.flatnonzero(before != after)
    labelled = moved[before[moved] >= 0]
    for rows, labels, sign in ((moved, after, 1), (labelled, before, -1)):
        clusters, points = torch.from_numpy(labels[rows]), torch.from_numpy(X[rows]).double()
        torch.from_numpy(sums).index_add_(0, clusters, points, alpha=sign)
        sizes += sign * np.bincount(labels[rows], minlength=len(sizes))
    before[moved] = after[moved]
    return len(moved)
