"""Transforms that make a cloud more isotropic, as scikit-learn estimators.

Mu & Viswanath (2018), "All-but-the-Top", ICLR. Rajaee & Pilehvar (2021), "A Cluster-based Approach
for Improving Isotropy in Contextual Embedding Space", ACL, section 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from copy import copy
from typing import Any, Literal

import numpy as np
import scipy.linalg
import torch
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted, validate_data

from isotropy.metrics.matmul import (
    gram,
    one_blas_thread,
    ordered_threads,
    oriented,
    scatter,
    worker_threads,
)

FLOATS = (np.float64, np.float32)
TINY, HUGE = 1e-12, 1e15  # largest values between which sums of squares are floats


class Center(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract the mean.

    Attributes:
        mean_: shape (d,), float64.
        n_features_in_: d.
    """

    def fit(self, X: Any, y: Any = None) -> Center:
        """Take the mean of a cloud, shape (n, d)."""
        X = validate_data(self, X, dtype=FLOATS)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The cloud, moved; shape (n, d), in the precision of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return X - self.mean_.astype(X.dtype)  # type: ignore[no-any-return]


class AllButTheTop(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract the mean and the projection on the first principal components (the "global approach"
    of Rajaee & Pilehvar).

    Args:
        n_components: components to remove, 0 <= n_components < min(n - 1, d). None: d / 100,
            rounded, and at least 1 (the rule of thumb of Mu & Viswanath). Rajaee & Pilehvar remove
            15 (BERT), 25 (RoBERTa), 30 (GPT-2).

    Attributes:
        mean_: shape (d,), float64.
        components_: orthonormal rows, shape (n_components, d), float64, the largest variance first.
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> AllButTheTop:
        """Find mean and components of a cloud, shape (n, d), n >= 2."""
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        n, d = X.shape
        wanted = max(1, round(d / 100)) if self.n_components is None else self.n_components
        if self.n_components is None:
            wanted = min(wanted, min(n - 1, d) - 1)
        _require_components(wanted, n, d)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        self.components_ = principal_components(X - self.mean_.astype(X.dtype), wanted)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The cloud without mean and components; shape (n, d), in the precision of X."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return _removed(X - self.mean_.astype(X.dtype), self.components_)


class ClusterBasedEnhancement(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Cluster the cloud; in each cluster subtract the mean and the projection on the first
    principal components.

    A cluster of `n_components` + 1 points or fewer has no variance beyond what would be removed: it
    is dissolved, smallest first, and its points go to the nearest cluster that is left, those of a
    mixture to the most probable one. Where the mean alone is removed, only empty clusters are: a
    single point becomes the zero vector. New points belong to the cluster that the clusterer says
    among those that are left.

    Args:
        n_clusters: clusters to look for; 27 for BERT and RoBERTa, 10 for GPT-2 in the paper.
        n_components: components to remove from each; 12 for BERT and RoBERTa, 30 for GPT-2 in the
            paper.
        clusterer: "kmeans" (the paper) or "gmm" (Rajaee & Sheikhi 2020): Gaussian mixture, diagonal
            covariances.
        remove: "mean+pcs", or "mean" alone.
        init: "k-means++", or "random": random points, as the authors.
        max_iter: iterations, of a mixture too; 300 converge as a rule. The authors' k-means,
            SciPy's `kmeans2` with its 10 iterations, is `init="random", max_iter=9, tol=0`: its
            labels are of before the tenth moves the centres.
        tol: of convergence, as in scikit-learn.
        random_state: seed of the clusterer.

    Attributes:
        labels_: cluster of each point of fit, shape (n,).
        centers_: of the clusters that are left, shape (n_clusters_, d), float64.
        means_: mean of the points of each, shape (n_clusters_, d), float64.
        components_: one array per cluster, shape (removed, d), float64.
        n_clusters_: clusters that are left.
        n_iter_: iterations of the clusterer.
    """

    def __init__(
        self,
        n_clusters: int = 8,
        n_components: int = 1,
        *,
        clusterer: Literal["kmeans", "gmm"] = "kmeans",
        remove: Literal["mean", "mean+pcs"] = "mean+pcs",
        init: Literal["k-means++", "random"] = "k-means++",
        max_iter: int = 300,
        tol: float = 1e-4,
        random_state: Any = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_components = n_components
        self.clusterer = clusterer
        self.remove = remove
        self.init = init
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> ClusterBasedEnhancement:
        """Find the clusters of a cloud, shape (n, d), n >= n_clusters, and the mean and components
        of each.
        """
        X = validate_data(self, X, dtype=FLOATS, ensure_min_samples=2)
        wanted = self._components_to_remove(X)
        if self.clusterer not in ("kmeans", "gmm"):
            raise ValueError(f'clusterer must be "kmeans" or "gmm", got {self.clusterer!r}')
        if not 1 <= self.n_clusters <= len(X):
            raise ValueError(
                f"n_clusters must lie between 1 and the number of points, {len(X)}, got "
                f"{self.n_clusters}"
            )
        # A mixture adds an absolute 1e-6 to variances, and single precision loses the small ones:
        # it sees points of unit size. k-means does where squares are beyond the range of floats.
        self._unit = _unit(X) if self.clusterer == "kmeans" else _size(X)
        self._model = self._fitted_clusterer(self._scaled(X))
        self.n_iter_ = self._model.n_iter_
        return self._learn(X, wanted)

    def refit(self, X: Any) -> ClusterBasedEnhancement:
        """Find means and components anew, after a change of `n_components` or `remove`, with the
        clusters found before.

        Args:
            X: the cloud of the fit.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        return self._learn(X, self._components_to_remove(X))

    def restore(
        self, centers: np.ndarray, means: np.ndarray, components: list[np.ndarray]
    ) -> ClusterBasedEnhancement:
        """Take clusters, means and components as they were learnt before: what `transform` needs.

        Args:
            centers: shape (clusters, d), float64.
            means: of the same shape.
            components: one array per cluster.
        """
        self.centers_, self.means_, self.components_ = centers, means, components
        self.n_clusters_, self.n_features_in_ = centers.shape
        self._unit, self._left, self._model = 1.0, np.arange(len(centers)), None
        return self

    def _components_to_remove(self, X: np.ndarray) -> int:
        if self.remove not in ("mean", "mean+pcs"):
            raise ValueError(f'remove must be "mean" or "mean+pcs", got {self.remove!r}')
        wanted = 0 if self.remove == "mean" else self.n_components
        _require_components(wanted, *X.shape)
        return wanted

    def _learn(self, X: np.ndarray, wanted: int) -> ClusterBasedEnhancement:
        """Means and components of the clusters, of which small ones are dissolved."""
        d = X.shape[1]
        self.centers_ = np.asarray(self._centers_of(self._model), dtype=np.float64) * self._unit
        self._left = np.arange(len(self.centers_))
        self.labels_ = self._dissolve(X, wanted)
        self.n_clusters_ = len(self.centers_)
        self.means_ = np.empty_like(self.centers_)
        self.components_ = [np.empty((0, d))] * self.n_clusters_

        def learn(c: int, rows: np.ndarray) -> None:
            members = X[rows]
            self.means_[c] = members.mean(axis=0, dtype=np.float64)
            members -= self.means_[c].astype(X.dtype)
            self.components_[c] = principal_components(members, wanted)

        _for_each_cluster(learn, self.labels_, self.n_clusters_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """The cloud without its clusters' means and components; shape (n, d), in the precision of
        X.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        labels = self._assigned(X)
        result: np.ndarray = np.empty_like(X)

        def remove(c: int, rows: np.ndarray) -> None:
            members = X[rows]
            members -= self.means_[c].astype(X.dtype)
            result[rows] = _removed(members, self.components_[c])

        _for_each_cluster(remove, labels, self.n_clusters_)
        return result

    def _fitted_clusterer(self, X: np.ndarray) -> KMeans | GaussianMixture:
        common = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "n_init": 1,
            "random_state": self.random_state,
        }
        if self.clusterer == "kmeans":
            with ordered_threads():
                return KMeans(self.n_clusters, init=self.init, **common).fit(X)
        start = {"k-means++": "k-means++", "random": "random_from_data"}[self.init]
        with warnings.catch_warnings():
            if self.tol == 0:  # all iterations are wanted, whatever comes out
                warnings.simplefilter("ignore", ConvergenceWarning)
            return GaussianMixture(
                self.n_clusters, covariance_type="diag", init_params=start, **common
            ).fit(X)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """What the clusterer sees: the cloud in its unit, for a mixture in double precision."""
        if self.clusterer == "kmeans":
            return X if self._unit == 1 else X / X.dtype.type(self._unit)
        return X.astype(np.float64) / self._unit

    @staticmethod
    def _centers_of(model: KMeans | GaussianMixture) -> np.ndarray:
        centers: np.ndarray = model.cluster_centers_ if isinstance(model, KMeans) else model.means_
        return centers

    def _assigned(self, X: np.ndarray) -> np.ndarray:
        """Cluster of each point, shape (n,), among those that are left."""
        if self._model is not None and len(self._left) == len(self._centers_of(self._model)):
            known = self._centers_of(self._model).dtype  # of the fit, which predict asks for
            points = self._scaled(X).astype(known, copy=False)
            # k-means sets the limit itself, and would without the lock of calls at the same time
            is_kmeans = isinstance(self._model, KMeans)
            with one_blas_thread() if is_kmeans else nullcontext():
                labels: np.ndarray = self._model.predict(points)
            return labels
        if not isinstance(self._model, GaussianMixture):
            centers = self.centers_ if self._unit == 1 else self.centers_ / self._unit
            points = self._scaled(X)
            with one_blas_thread():  # which scikit-learn sets itself
                nearest: np.ndarray = pairwise_distances_argmin(points, centers.astype(X.dtype))
            return nearest
        left = copy(self._model)
        for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
            setattr(left, name, getattr(left, name)[self._left])
        return left.predict(self._scaled(X))  # type: ignore[no-any-return]

    def _dissolve(self, X: np.ndarray, n_components: int) -> np.ndarray:
        """Drop empty clusters and those of which no component would be left, smallest first; m
        points have rank m - 1. Returns the cluster of each point, shape (n,).
        """
        while True:
            labels = self._assigned(X)
            sizes = np.bincount(labels, minlength=len(self.centers_))
            smallest = int(sizes.argmin())
            if len(sizes) == 1 or sizes[smallest] > n_components + (n_components > 0):
                return labels
            self.centers_ = np.delete(self.centers_, smallest, axis=0)
            self._left = np.delete(self._left, smallest)


def _for_each_cluster(
    work: Callable[[int, np.ndarray], None], labels: np.ndarray, n_clusters: int
) -> None:
    """Call with each cluster and its rows; an empty one is left out."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=n_clusters))
    rows = np.split(order, ends[:-1])
    filled = [c for c in range(n_clusters) if len(rows[c])]
    # Products and means of one cluster beside those of another. Decompositions wait for one
    # another, since SciPy's solver holds Python's lock; they gain little from more threads.
    with one_blas_thread(), worker_threads() as pool:
        list(pool.map(lambda c: work(c, rows[c]), filled))


def _unit(X: np.ndarray) -> float:
    """1, or a power of two that brings the largest value near 1 where squares are beyond the range
    of single precision.
    """
    # np.abs would allocate a copy of X
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    if largest == 0 or TINY < largest < HUGE:
        return 1.0
    return float(2.0 ** np.floor(np.log2(largest)))


def _size(X: np.ndarray) -> float:
    """Root of the mean variance over dimensions; 1 for points that are all the same."""
    size = float(np.sqrt(X.var(axis=0, dtype=np.float64).mean()))
    return size if size > 0 else 1.0


def principal_components(centred: np.ndarray, n_components: int) -> np.ndarray:
    """First principal components of a centred cloud, shape (n, d): orthonormal rows, shape
    (n_components, d), float64.

    By the eigenvectors of X'X, in the dtype of X, or for n < d of the smaller XX', in float64; the
    rest in float64. Each points where its entry of largest size is positive, so that the same cloud
    gives the same bytes.
    """
    n, d = centred.shape
    if n_components == 0:
        return np.empty((0, d))
    centred = np.require(centred, requirements=["C", "W"])  # what torch can share
    if (unit := _unit(centred)) != 1:
        centred = centred / centred.dtype.type(unit)
    if n < d:
        wide = centred.astype(np.float64)
        S = gram(torch.from_numpy(wide)).numpy()
    else:
        S = scatter(torch.from_numpy(centred)).numpy()
    top = [len(S) - n_components, len(S) - 1]
    values, vectors = scipy.linalg.eigh(
        S, subset_by_index=top, overwrite_a=True, check_finite=False
    )
    if n < d:
        # Largest first, so that rounding in a small direction does not turn a large one; directions
        # without variance are 0.
        images = scipy.linalg.qr(wide.T @ vectors[:, ::-1], mode="economic")[0][:, ::-1]
        vectors = np.where(values > values.max() * 1e-12, images, 0)
    return oriented(vectors.T[::-1])


def _removed(centred: np.ndarray, components: np.ndarray) -> np.ndarray:
    """A cloud, shape (n, d), without its projection on orthonormal rows, shape (k, d). The cloud is
    overwritten.
    """
    if not len(components):
        return centred
    rows = components.astype(centred.dtype)
    centred -= (centred @ rows.T) @ rows
    return centred


def _require_components(wanted: int, n: int, d: int) -> None:
    most = max(0, min(n - 1, d) - 1)
    if not 0 <= wanted <= most:
        raise ValueError(
            f"n_components must lie between 0 and {most} for {n} points of {d} dimensions "
            f"(n_samples={n}, n_features={d}), got {wanted}: nothing would be left"
        )
