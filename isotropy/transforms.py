"""Transforms that make a cloud more isotropic, as scikit-learn estimators.

Mu & Viswanath (2018), "All-but-the-Top", ICLR. Rajaee & Pilehvar (2021), "A Cluster-based Approach
for Improving Isotropy in Contextual Embedding Space", ACL, section 3.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from typing import Any, Literal

import numpy as np
import scipy.linalg
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import pairwise_distances_argmin
from sklearn.mixture import GaussianMixture
from sklearn.utils.validation import check_is_fitted, validate_data

from isotropy.metrics.matmul import (
    gram,
    scatter,
    single_blas_thread,
    two_openmp_threads,
    with_fixed_signs,
    worker_threads,
)
from isotropy.metrics.validation import as_array, as_numbers

FLOAT_DTYPES = (np.float64, np.float32)
# If the largest value lies between these, sums of squares neither underflow nor overflow.
TINY, HUGE = 1e-12, 1e15


def _validate(estimator: BaseEstimator, X: Any, **options: Any) -> np.ndarray:
    """Check a cloud as scikit-learn does; and refuse what it would convert to wrong numbers in
    silence: masked arrays, texts of digits, dates.
    """
    if isinstance(X, torch.Tensor):
        X = as_numbers(X.detach(), "points").cpu().numpy()
    elif not issparse(X):  # which scikit-learn refuses
        if hasattr(X, "iloc") and hasattr(X, "sparse"):
            raise ValueError("points are a sparse frame: pass .sparse.to_dense()")
        dtype = as_array(X, "points").dtype
        if dtype.kind in "USMmV" or (hasattr(X, "iloc") and dtype.kind not in "fiub"):
            raise TypeError(f"points must be real numbers, got dtype {dtype}")
    points: np.ndarray = validate_data(estimator, X, dtype=FLOAT_DTYPES, **options)
    return points


class Center(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract the mean.

    Attributes:
        mean_: shape (d,), float64.
        n_features_in_: d.

    Examples:
        >>> Center().fit_transform([[1.0, 2.0], [3.0, 6.0]]).tolist()
        [[-1.0, -2.0], [1.0, 2.0]]
    """

    def fit(self, X: Any, y: Any = None) -> Center:
        """Compute the mean of a cloud, shape (n, d)."""
        X = _validate(self, X)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the centred cloud, shape (n, d), in the dtype of X."""
        check_is_fitted(self)
        X = _validate(self, X, reset=False)
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

    Examples:
        >>> X = np.random.default_rng(0).normal(size=(100, 3)) * [9, 1, 1]
        >>> AllButTheTop(n_components=1).fit_transform(X).std(axis=0).round(1)
        array([0., 1., 1.])
    """

    def __init__(self, n_components: int | None = None) -> None:
        self.n_components = n_components

    def fit(self, X: Any, y: Any = None) -> AllButTheTop:
        """Compute the mean and the first components of a cloud, shape (n, d), n >= 2."""
        X = _validate(self, X, ensure_min_samples=2)
        n, d = X.shape
        n_components = max(1, round(d / 100)) if self.n_components is None else self.n_components
        if self.n_components is None:
            n_components = min(n_components, min(n - 1, d) - 1)
        _check_n_components(n_components, n, d)
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        self.components_ = principal_components(X - self.mean_.astype(X.dtype), n_components)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the cloud without mean and components, shape (n, d), in the dtype of X."""
        check_is_fitted(self)
        X = _validate(self, X, reset=False)
        return _remove_projection(X - self.mean_.astype(X.dtype), self.components_)


class Whitening(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Subtract the mean and divide by the standard deviation along each principal component, then
    rotate back: the covariance becomes the identity, by the change that moves the points least
    (ZCA; Kessy, Lewin & Strimmer 2018, doi:10.1080/00031305.2016.1277159). Whitened sentence
    embeddings: Su et al. (2021), arXiv:2103.15316.

    Directions whose variance may be that of rounding errors in the dtype of the cloud are removed,
    not divided by it: with n <= d points the covariance is a projection, of rank n - 1 at most.

    Args:
        shrinkage: weight of the mean variance in each variance, in [0, 1]: 0 whitens, 1 only
            centres and scales. Above 0 few points are whitened with less noise.

    Attributes:
        mean_: shape (d,), float64.
        matrix_: symmetric, shape (d, d), float64.
        n_features_in_: d.

    Examples:
        >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [1, 5, 25]
        >>> np.cov(Whitening().fit_transform(X), rowvar=False).round(6).diagonal().tolist()
        [1.0, 1.0, 1.0]
    """

    def __init__(self, shrinkage: float = 0.0) -> None:
        self.shrinkage = shrinkage

    def fit(self, X: Any, y: Any = None) -> Whitening:
        """Compute the mean and the covariance of a cloud, shape (n, d), n >= 2."""
        X = _validate(self, X, ensure_min_samples=2)
        if not 0 <= self.shrinkage <= 1:
            raise ValueError(f"shrinkage must lie between 0 and 1, got {self.shrinkage}")
        self.mean_ = X.mean(axis=0, dtype=np.float64)
        centred = X - self.mean_
        scale = _scale(centred)
        centred /= scale
        variances, components = scipy.linalg.eigh(scatter(torch.from_numpy(centred)).numpy())
        variances = np.maximum(variances, 0) / (len(X) - 1)
        variances += self.shrinkage * (variances.mean() - variances)
        # What the rounding errors of X and of the covariance can make of a variance of 0
        rounding = np.finfo(X.dtype).eps * np.abs(X).max() / scale
        noise = max(rounding**2, np.finfo(variances.dtype).eps * variances.max())
        kept = variances > len(variances) * noise
        scaled = components[:, kept] / np.sqrt(variances[kept])
        self.matrix_ = scaled @ components[:, kept].T / scale
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the whitened cloud, shape (n, d), in the dtype of X."""
        check_is_fitted(self)
        X = _validate(self, X, reset=False)
        whitened: np.ndarray = (X - self.mean_.astype(X.dtype)) @ self.matrix_.astype(X.dtype)
        return whitened


class ClusterBasedEnhancement(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Cluster the cloud; in each cluster subtract the mean and the projection on the first
    principal components.

    A cluster of `n_components` + 1 points or fewer has no variance beyond what would be removed.
    Such clusters are dissolved, smallest first: their points go to the nearest remaining cluster,
    with a mixture to the most probable one. If only the mean is removed, only empty clusters are
    dissolved: a single point becomes the zero vector. New points are assigned by the clusterer, to
    one of the remaining clusters.

    Args:
        n_clusters: number of clusters; 27 for BERT and RoBERTa, 10 for GPT-2 in the paper.
        n_components: components to remove from each cluster; 12 for BERT and RoBERTa, 30 for GPT-2
            in the paper.
        clusterer: "kmeans" (the paper) or "gmm" (Rajaee & Sheikhi 2020): Gaussian mixture, diagonal
            covariances.
        remove: "mean+pcs", or "mean" alone.
        init: "k-means++", or "random": random points, as the authors do.
        max_iter: maximum number of iterations of either clusterer; k-means usually converges within
            300. The authors' k-means, SciPy's `kmeans2` with its 10 iterations, corresponds to
            `init="random", max_iter=9, tol=0`: its labels precede the tenth update of the centres.
        tol: convergence tolerance, as in scikit-learn.
        random_state: seed of the clusterer.

    Attributes:
        labels_: cluster of each point that was fitted, shape (n,).
        centers_: centres of the remaining clusters, shape (n_clusters_, d), float64.
        means_: mean of the points of each cluster, shape (n_clusters_, d), float64.
        components_: removed components, one array per cluster, shape (n_removed, d), float64.
        n_clusters_: number of remaining clusters.
        n_iter_: number of iterations of the clusterer.

    Examples:
        >>> from isotropy.metrics import isoscore
        >>> rng = np.random.default_rng(0)
        >>> X = np.repeat(rng.normal(size=(4, 8)) * 9, 50, axis=0) + rng.normal(size=(200, 8))
        >>> enhanced = ClusterBasedEnhancement(4, 1, random_state=0).fit_transform(X)
        >>> round(isoscore(X), 1), round(isoscore(enhanced), 1)
        (0.2, 0.9)
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
        """Cluster a cloud, shape (n, d), n >= n_clusters, and compute the mean and the components
        of each cluster.
        """
        X = _validate(self, X, ensure_min_samples=2)
        n_components = self._components_to_remove(X)
        if self.clusterer not in ("kmeans", "gmm"):
            raise ValueError(f'clusterer must be "kmeans" or "gmm", got {self.clusterer!r}')
        if not 1 <= self.n_clusters <= len(X):
            raise ValueError(
                f"n_clusters must lie between 1 and the number of points, {len(X)}, got "
                f"{self.n_clusters}"
            )
        # A mixture adds 1e-6 to all variances, which would distort small ones: it is fitted to
        # points of unit variance. k-means needs scaling only if squares over- or underflow.
        self._scale = _scale(X) if self.clusterer == "kmeans" else _rms_deviation(X)
        self._model = self._fit_clusterer(self._scaled(X))
        self.n_iter_ = self._model.n_iter_
        return self._fit_components(X, n_components)

    def refit(self, X: Any) -> ClusterBasedEnhancement:
        """Recompute means and components after a change of `n_components` or `remove`, with the
        clusters of the last fit.

        Args:
            X: the cloud that was fitted.
        """
        check_is_fitted(self)
        X = _validate(self, X, reset=False)
        return self._fit_components(X, self._components_to_remove(X))

    def restore(
        self, centers: np.ndarray, means: np.ndarray, components: list[np.ndarray]
    ) -> ClusterBasedEnhancement:
        """Restore a fitted state that `transform` can use, without the clusterer.

        Args:
            centers: cluster centres, shape (n_clusters, d), float64.
            means: mean of each cluster, in the same shape.
            components: components to remove, one array per cluster.
        """
        self.centers_, self.means_, self.components_ = centers, means, components
        self.n_clusters_, self.n_features_in_ = centers.shape
        self._scale, self._remaining, self._model = 1.0, np.arange(len(centers)), None
        return self

    def _components_to_remove(self, X: np.ndarray) -> int:
        if self.remove not in ("mean", "mean+pcs"):
            raise ValueError(f'remove must be "mean" or "mean+pcs", got {self.remove!r}')
        n_components = 0 if self.remove == "mean" else self.n_components
        _check_n_components(n_components, *X.shape)
        return n_components

    def _fit_components(self, X: np.ndarray, n_components: int) -> ClusterBasedEnhancement:
        """Dissolve small clusters; compute the means and components of the remaining ones."""
        d = X.shape[1]
        self.centers_ = np.asarray(self._model_centers(self._model), dtype=np.float64) * self._scale
        self._remaining = np.arange(len(self.centers_))
        self.labels_ = self._dissolve_small_clusters(X, n_components)
        self.n_clusters_ = len(self.centers_)
        self.means_ = np.empty_like(self.centers_)
        self.components_ = [np.empty((0, d))] * self.n_clusters_

        def fit_cluster(c: int, rows: np.ndarray) -> None:
            members = X[rows]
            self.means_[c] = members.mean(axis=0, dtype=np.float64)
            members -= self.means_[c].astype(X.dtype)
            self.components_[c] = principal_components(members, n_components)

        _for_each_cluster(fit_cluster, self.labels_, self.n_clusters_)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the cloud without the means and components of its clusters, shape (n, d), in the
        dtype of X.
        """
        check_is_fitted(self)
        X = _validate(self, X, reset=False)
        labels = self._assign_clusters(X)
        result: np.ndarray = np.empty_like(X)

        def remove(c: int, rows: np.ndarray) -> None:
            members = X[rows]
            members -= self.means_[c].astype(X.dtype)
            result[rows] = _remove_projection(members, self.components_[c])

        _for_each_cluster(remove, labels, self.n_clusters_)
        return result

    def _fit_clusterer(self, X: np.ndarray) -> KMeans | GaussianMixture:
        common = {
            "max_iter": self.max_iter,
            "tol": self.tol,
            "n_init": 1,
            "random_state": self.random_state,
        }
        if self.clusterer == "kmeans":
            with two_openmp_threads():
                return KMeans(self.n_clusters, init=self.init, **common).fit(X)
        init_params = {"k-means++": "k-means++", "random": "random_from_data"}[self.init]
        with warnings.catch_warnings():
            if self.tol == 0:  # a fixed number of iterations
                warnings.simplefilter("ignore", ConvergenceWarning)
            return GaussianMixture(
                self.n_clusters, covariance_type="diag", init_params=init_params, **common
            ).fit(X)

    def _scaled(self, X: np.ndarray) -> np.ndarray:
        """Return the rescaled cloud that the clusterer gets; for a mixture in float64."""
        if self.clusterer == "kmeans":
            return X if self._scale == 1 else X / X.dtype.type(self._scale)
        return X.astype(np.float64) / self._scale

    @staticmethod
    def _model_centers(model: KMeans | GaussianMixture) -> np.ndarray:
        centers: np.ndarray = model.cluster_centers_ if isinstance(model, KMeans) else model.means_
        return centers

    def _assign_clusters(self, X: np.ndarray) -> np.ndarray:
        """Assign each point to one of the remaining clusters; returns labels, shape (n,)."""
        if not isinstance(self._model, GaussianMixture):
            # Far from the origin, differences of squared lengths would lose all digits.
            origin = self.centers_.mean(axis=0).astype(X.dtype)
            points, centers = X - origin, (self.centers_ - origin).astype(X.dtype)
            scale = X.dtype.type(_scale(centers))
            with single_blas_thread():  # scikit-learn limits it too, without a lock
                labels: np.ndarray = pairwise_distances_argmin(points / scale, centers / scale)
            return labels
        remaining_model = copy(self._model)
        for name in ("weights_", "means_", "covariances_", "precisions_", "precisions_cholesky_"):
            setattr(remaining_model, name, getattr(remaining_model, name)[self._remaining])
        return remaining_model.predict(self._scaled(X))  # type: ignore[no-any-return]

    def _dissolve_small_clusters(self, X: np.ndarray, n_components: int) -> np.ndarray:
        """Drop empty clusters and those that would have no variance left, smallest first; m centred
        points have rank m - 1. Returns the cluster of each point, shape (n,).
        """
        while True:
            labels = self._assign_clusters(X)
            sizes = np.bincount(labels, minlength=len(self.centers_))
            smallest = int(sizes.argmin())
            if len(sizes) == 1 or sizes[smallest] > n_components + (n_components > 0):
                return labels
            self.centers_ = np.delete(self.centers_, smallest, axis=0)
            self._remaining = np.delete(self._remaining, smallest)


def _for_each_cluster(
    work: Callable[[int, np.ndarray], None], labels: np.ndarray, n_clusters: int
) -> None:
    """Call `work(cluster, rows)` for each cluster that is not empty, in parallel."""
    order = np.argsort(labels, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=n_clusters))
    rows = np.split(order, ends[:-1])
    non_empty = [c for c in range(n_clusters) if len(rows[c])]
    # Products and means of different clusters run in parallel. Decompositions do not, since SciPy's
    # solver holds the GIL; they gain little from more threads.
    with single_blas_thread(), worker_threads() as pool:
        list(pool.map(lambda c: work(c, rows[c]), non_empty))


def _scale(X: np.ndarray) -> float:
    """Return a power of two that brings the largest value near 1 if squares would leave the range
    of single precision, otherwise 1.
    """
    # np.abs would allocate a copy of X
    largest = max(float(X.max(initial=0)), -float(X.min(initial=0)))
    if largest == 0 or TINY < largest < HUGE:
        return 1.0
    return float(2.0 ** np.floor(np.log2(largest)))


def _rms_deviation(X: np.ndarray) -> float:
    """Return the square root of the mean variance of a dimension; 1 if all points are equal."""
    deviation = float(np.sqrt(X.var(axis=0, dtype=np.float64).mean()))
    return deviation if deviation > 0 else 1.0


def principal_components(centred: np.ndarray, n_components: int) -> np.ndarray:
    """Return the first principal components of a centred cloud, shape (n, d), as orthonormal rows,
    shape (n_components, d), float64.

    They are the eigenvectors of X'X, computed in the dtype of X, or for n < d follow from those of
    the smaller XX', computed in float64. The sign is chosen so that the entry of largest magnitude
    is positive: the same cloud gives the same bytes.
    """
    n, d = centred.shape
    if n_components == 0:
        return np.empty((0, d))
    centred = np.require(centred, requirements=["C", "W"])  # as torch requires
    if (scale := _scale(centred)) != 1:
        centred = centred / centred.dtype.type(scale)
    if n < d:
        centred_float64 = centred.astype(np.float64)
        S = gram(torch.from_numpy(centred_float64)).numpy()
    else:
        S = scatter(torch.from_numpy(centred)).numpy()
    index_range = [len(S) - n_components, len(S) - 1]
    values, vectors = scipy.linalg.eigh(
        S, subset_by_index=index_range, overwrite_a=True, check_finite=False
    )
    if n < d:
        # Largest first, so that rounding errors of directions of small variance do not rotate those
        # of large variance; directions without variance are 0.
        directions = scipy.linalg.qr(centred_float64.T @ vectors[:, ::-1], mode="economic")[0][
            :, ::-1
        ]
        vectors = np.where(values > values.max() * 1e-12, directions, 0)
    return with_fixed_signs(vectors.T[::-1])


def _remove_projection(centred: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Subtract from a centred cloud, shape (n, d), its projection on orthonormal rows, shape (k,
    d), in place.
    """
    if not len(components):
        return centred
    directions = components.astype(centred.dtype)
    centred -= (centred @ directions.T) @ directions
    return centred


def _check_n_components(n_components: int, n: int, d: int) -> None:
    maximum = max(0, min(n - 1, d) - 1)
    if not 0 <= n_components <= maximum:
        raise ValueError(
            f"n_components must lie between 0 and {maximum} for {n} points of {d} dimensions "
            f"(n_samples={n}, n_features={d}), got {n_components}: nothing would be left"
        )
