"""k-means for several numbers of clusters at once, by Lloyd's algorithm.

An iteration of one k-means reads all points for few operations, so that memory limits it. Here one
matrix product takes the distances to the centres of all runs that still move, and sums of clusters
change by the points that change their cluster. Steps and stopping rules are those of scikit-learn's
`KMeans`, and so are its starts: k-means++, Arthur & Vassilvitskii (2007), SODA.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numba import njit
from sklearn.cluster import kmeans_plusplus

from isotropy.metrics.compiled import KEPT
from isotropy.metrics.matmul import full_precision, product, worker_threads
from isotropy.metrics.validation import aligned

ROWS = 1024  # points of a block, whose distances to all centres lie in the cache


class Clustering(NamedTuple):
    """What k-means found."""

    labels: np.ndarray
    """Nearest centre of each point, shape (n,), int32."""
    centers: np.ndarray
    """Shape (k, d), float64."""
    inertia: float
    """Sum of squared distances of the points to the mean of their cluster."""
    n_iter: int
    """Iterations until it stopped."""


def kmeans(
    X: np.ndarray,
    k_range: Sequence[int],
    *,
    n_init: int = 1,
    max_iter: int = 300,
    tol: float = 1e-4,
    seed: int = 0,
) -> dict[int, Clustering]:
    """The best of `n_init` runs of k-means for each number of clusters.

    Args:
        X: points, shape (n, d), float32 or float64, finite, whose squares are in the float range.
        k_range: numbers of clusters, each from 1 to n.
        n_init: starts for each, at least 1; the run of least inertia counts.
        max_iter: iterations of a run, at least 1.
        tol: a run ends where the squared distances that its centres move, in all, are at most `tol`
            times the mean variance of a dimension; or where no point changes its cluster.
        seed: of the starts.

    Returns:
        One clustering per number. With one start, labels, centres and iterations are those of
        scikit-learn's `KMeans` with this seed, but for rounding.

    Raises:
        ValueError: a number of clusters, starts or iterations out of range.
    """
    numbers = sorted(set(k_range))
    if not numbers or numbers[0] < 1 or numbers[-1] > len(X):
        raise ValueError(f"k_range must hold numbers from 1 to {len(X)}, got {numbers}")
    if n_init < 1 or max_iter < 1:
        raise ValueError(f"n_init and max_iter must be at least 1, got {n_init} and {max_iter}")
    mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
    centred = aligned(torch.from_numpy(X - mean)).numpy()
    starts = _Starts(centred, numbers, seed)
    best: dict[int, Clustering] = {}
    for _ in range(n_init):
        drawn = starts.draw()
        runs = lloyd(centred, list(drawn.values()), max_iter=max_iter, tol=tol)
        for k, run in zip(drawn, runs, strict=True):
            if k not in best or run.inertia < best[k].inertia:
                best[k] = run
    return {k: run._replace(centers=run.centers + mean) for k, run in best.items()}


class _Starts:
    """Starting centres for several numbers of clusters: scikit-learn's k-means++.

    It draws the same points one after another for all numbers with the same trials per point, so
    that one call for the largest of them starts all.
    """

    def __init__(self, X: np.ndarray, numbers: Sequence[int], seed: int) -> None:
        self.X, self.norms = X, np.einsum("ij,ij->i", X, X)
        self.shared: dict[int, list[int]] = {}  # by trials per point, as scikit-learn has them
        for k in numbers:
            self.shared.setdefault(2 + int(np.log(k)), []).append(k)
        self.rngs = {n_trials: np.random.RandomState(seed) for n_trials in self.shared}

    def draw(self) -> dict[int, np.ndarray]:
        """The next start for each number."""
        found: dict[int, np.ndarray] = {}
        for n_trials, numbers in self.shared.items():
            centers, _ = kmeans_plusplus(
                self.X,
                numbers[-1],
                x_squared_norms=self.norms,
                random_state=self.rngs[n_trials],
                n_local_trials=n_trials,
            )
            found |= {k: centers[:k] for k in numbers}
        return found


class _Run:
    """One run of k-means: its centres, labels, and the sums and sizes of its clusters."""

    def __init__(self, start: np.ndarray, n: int) -> None:
        self.centers = start.astype(np.float64)
        self.labels = np.full(n, -1, dtype=np.int32)
        self.sums = np.zeros_like(self.centers)
        self.sizes = np.zeros(len(start), dtype=np.int64)
        self.n_iter = 0

    def relabel(self, X: np.ndarray, labels: np.ndarray) -> int:
        """Take new labels over; how many have changed."""
        changed: int = _move(X, self.labels, labels, self.sums, self.sizes)
        return changed

    def update(self, X: np.ndarray) -> float:
        """Move each centre to the mean of its points; the sum of squared distances of these
        moves.
        """
        sums, sizes = self._relocate_empty(X) if not self.sizes.all() else (self.sums, self.sizes)
        centers = sums / np.maximum(sizes, 1)[:, None]
        centers[sizes == 0] = centers[sizes.argmax()]
        moved = float(((centers - self.centers) ** 2).sum())
        self.centers = centers
        return moved

    def _relocate_empty(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Sums and sizes where each empty cluster has been given one of the points that are
        farthest from their centre, as scikit-learn does.
        """
        sums, sizes = self.sums.copy(), self.sizes.copy()
        away = np.empty(len(X))
        for first in range(0, len(X), ROWS):
            part = slice(first, first + ROWS)
            away[part] = ((X[part] - self.centers[self.labels[part]]) ** 2).sum(axis=1)
        empty = np.flatnonzero(sizes == 0)
        for cluster, point in zip(empty, np.argsort(-away, kind="stable"), strict=False):
            if away[point] > 0:
                sums[self.labels[point]] -= X[point]
                sizes[self.labels[point]] -= 1
                sums[cluster], sizes[cluster] = X[point], 1
        return sums, sizes

    def result(self, total: float) -> Clustering:
        """What was found, of points whose squared norms add up to `total`."""
        within = ((self.sums**2).sum(axis=1) / np.maximum(self.sizes, 1)).sum()
        return Clustering(self.labels, self.centers, float(total - within), self.n_iter)


@full_precision
def lloyd(
    X: np.ndarray, starts: Sequence[np.ndarray], *, max_iter: int = 300, tol: float = 1e-4
) -> list[Clustering]:
    """Run k-means from each of several starts, all of them side by side.

    Args:
        X: points, shape (n, d), float32 or float64, contiguous, whose mean is 0.
        starts: centres, shape (k, d), one array per run.
        max_iter: iterations of a run, at least 1.
        tol: as for `kmeans`.

    Returns:
        One clustering per start.
    """
    total = float(np.einsum("ij,ij->", X, X, dtype=np.float64))
    least = tol * total / X.size
    runs = [_Run(start, len(X)) for start in starts]
    moving = list(runs)
    with worker_threads() as pool:

        def assign(chosen: list[_Run]) -> list[int]:
            """Points of each run that have another nearest centre than before."""
            centers = np.concatenate([run.centers for run in chosen]).astype(X.dtype)
            ends = np.cumsum([len(run.centers) for run in chosen])
            labels = np.empty((len(chosen), len(X)), dtype=np.int32)
            norms = np.einsum("ij,ij->i", centers, centers)
            all_centers = torch.tensor(centers)  # in torch's memory, which is aligned

            def block(first: int) -> None:
                points = torch.from_numpy(X[first : first + ROWS])
                products = product(points, all_centers).numpy()
                _nearest(products, norms, ends, labels[:, first : first + ROWS])

            list(pool.map(block, range(0, len(X), ROWS)))
            return list(pool.map(lambda i: chosen[i].relabel(X, labels[i]), range(len(chosen))))

        while moving:
            changed = assign(moving)
            moves = list(pool.map(lambda run: run.update(X), moving))
            unsettled, still = [], []
            for run, n_changed, moved in zip(moving, changed, moves, strict=True):
                run.n_iter += 1
                if n_changed and (moved <= least or run.n_iter == max_iter):
                    unsettled.append(run)
                elif n_changed:
                    still.append(run)
            if unsettled:  # labels are those of the last centres
                assign(unsettled)
            moving = still
    return [run.result(total) for run in runs]


@njit(cache=KEPT, nogil=True)
def _nearest(products: np.ndarray, norms: np.ndarray, ends: np.ndarray, labels: np.ndarray) -> None:
    """Write the nearest centre of each point within each run: products of points and centres, shape
    (rows, centres), the centres of a run up to its entry of `ends`; labels, shape (runs, rows).
    """
    for i in range(len(products)):
        first = 0
        for run in range(len(ends)):
            row, own = products[i, first : ends[run]], norms[first : ends[run]]
            best, nearest = own[0] - 2 * row[0], 0
            for j in range(1, len(row)):
                distance = own[j] - 2 * row[j]
                if distance < best:
                    best, nearest = distance, j
            labels[run, i] = nearest
            first = ends[run]


@njit(cache=KEPT, nogil=True)
def _move(
    X: np.ndarray, before: np.ndarray, after: np.ndarray, sums: np.ndarray, sizes: np.ndarray
) -> int:
    """Move the points that change their cluster (-1: none) from sum to sum, in their order; how
    many there are.
    """
    changed = 0
    for i in range(len(X)):
        old, new = before[i], after[i]
        if old == new:
            continue
        changed += 1
        if old >= 0:
            sizes[old] -= 1
            for j in range(X.shape[1]):
                sums[old, j] -= X[i, j]
        sizes[new] += 1
        for j in range(X.shape[1]):
            sums[new, j] += X[i, j]
        before[i] = new
    return changed
