"""Transforms: scikit-learn's estimator checks, the published steps in double precision, small and
empty clusters, scales at which squares overflow, and saved transforms."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file
from scipy.cluster.vq import kmeans2
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances_argmin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator
from threadpoolctl import threadpool_info, threadpool_limits

from isotropy.metrics import isoscore
from isotropy.metrics.kmeans import lloyd
from isotropy.transform_files import load_transform, save_transform
from isotropy.transforms import (
    AllButTheTop,
    Center,
    ClusterBasedEnhancement,
    Whitening,
    principal_components,
)

RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 5, 1200)
X = RNG.standard_normal((1200, 24)) * np.linspace(2, 0.3, 24)
X += 6 * RNG.standard_normal((5, 24))[LABELS]

ESTIMATORS = [
    Center(),
    AllButTheTop(),
    AllButTheTop(0),
    Whitening(),
    Whitening(0.5),
    ClusterBasedEnhancement(),
    ClusterBasedEnhancement(3, 1, init="random", max_iter=9, tol=0),
    ClusterBasedEnhancement(2, clusterer="gmm"),
    ClusterBasedEnhancement(3, remove="mean"),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=str)
@pytest.mark.filterwarnings("ignore")  # a check of k-means on 1 point warns
def test_estimator_checks_of_scikit_learn(estimator: object) -> None:
    results = check_estimator(estimator, on_fail=None)
    assert len(results) > 30
    failed = [r for r in results if r["status"] not in ("passed", "skipped")]
    assert not failed


def test_whitening_is_that_of_the_principal_components() -> None:
    """Scores of scikit-learn's whitened components, rotated back; covariance and IsoScore are
    exact, and float32 gives nearly the same."""
    pca = PCA(whiten=True).fit(X)
    whitened = Whitening().fit_transform(X)
    np.testing.assert_allclose(whitened, pca.transform(X) @ pca.components_, atol=1e-10)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(24), atol=1e-10)
    assert isoscore(whitened) == pytest.approx(1)
    single = Whitening().fit_transform(X.astype(np.float32))
    np.testing.assert_allclose(single, whitened, atol=2e-4)
    assert single.dtype == np.float32


def test_whitening_keeps_what_a_dominant_dimension_does_not_hide() -> None:
    """In single precision, with one variance 40,000 times the others, as of rogue dimensions."""
    cloud = np.random.default_rng(0).normal(size=(400, 64)).astype(np.float32)
    cloud[:, 0] *= 200
    whitened = Whitening().fit_transform(cloud)
    np.testing.assert_allclose(np.cov(whitened.T), np.eye(64), atol=1e-3)


@pytest.mark.parametrize("offset", [0, 100])
def test_whitening_does_not_amplify_rounding_errors(offset: float) -> None:
    """Points of rank 8, rounded to single precision: the other directions are removed."""
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(500, 8)) @ rng.normal(size=(8, 32)) + offset
    whitening = Whitening().fit(exact.astype(np.float32))
    assert np.linalg.matrix_rank(whitening.matrix_) == 8
    np.testing.assert_allclose(whitening.matrix_, Whitening().fit(exact).matrix_, atol=1e-4)


def test_shrunk_whitening_between_whitening_and_scaling() -> None:
    centred = X - X.mean(axis=0)
    scaled = centred / np.sqrt(X.var(axis=0, ddof=1).mean())
    np.testing.assert_allclose(Whitening(1.0).fit_transform(X), scaled, atol=1e-10)
    half = [isoscore(Whitening(s).fit_transform(X)) for s in (0, 0.1, 0.5, 1)]
    assert half == sorted(half, reverse=True)
    with pytest.raises(ValueError, match="shrinkage"):
        Whitening(2).fit(X)


def published_steps(X: np.ndarray, labels: np.ndarray, n_components: int) -> np.ndarray:
    """In each cluster, subtract the mean and the projection on the first principal components, in
    double precision."""
    result = np.empty_like(X, dtype=np.float64)
    for c in np.unique(labels):
        members = X[labels == c].astype(np.float64)
        members -= members.mean(0)
        pcs = np.linalg.svd(members, full_matrices=False)[2][:n_components]
        result[labels == c] = members - members @ pcs.T @ pcs
    return result


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-10), (np.float32, 5e-4)])
@pytest.mark.parametrize(
    "options", [{}, {"clusterer": "gmm"}, {"init": "random", "max_iter": 9, "tol": 0}]
)
@pytest.mark.parametrize("remove", ["mean+pcs", "mean"])
def test_enhancement_equals_the_published_steps(
    dtype: type, tolerance: float, options: dict[str, Any], remove: Any
) -> None:
    cloud = X.astype(dtype)
    enhancement = ClusterBasedEnhancement(5, 3, remove=remove, **options)
    result = enhancement.fit_transform(cloud)
    assert result.dtype == dtype
    expected = published_steps(X, enhancement.labels_, 0 if remove == "mean" else 3)
    assert np.abs(result - expected).max() < tolerance
    assert np.array_equal(result, enhancement.transform(cloud))


@pytest.mark.parametrize("n", [1200, 15])
def test_all_but_the_top_equals_enhancement_with_one_cluster(n: int) -> None:
    """With more points than dimensions, and with fewer."""
    cloud = X[:n]
    expected = published_steps(cloud, np.zeros(n), 4)
    assert AllButTheTop(4).fit_transform(cloud) == pytest.approx(expected, abs=1e-9)
    assert ClusterBasedEnhancement(1, 4).fit_transform(cloud) == pytest.approx(expected, abs=1e-9)
    assert AllButTheTop(0).fit_transform(cloud) == pytest.approx(
        Center().fit_transform(cloud), abs=1e-12
    )
    theirs = PCA(4, svd_solver="full").fit(cloud).components_
    products = AllButTheTop(4).fit(cloud).components_ @ theirs.T
    assert np.abs(products) == pytest.approx(np.eye(4), abs=1e-6)


def test_default_number_of_components() -> None:
    """It is d / 100, at least 1."""
    assert len(AllButTheTop().fit(X).components_) == 1
    assert len(AllButTheTop().fit(RNG.standard_normal((400, 300))).components_) == 3


@pytest.mark.parametrize("clusterer", ["kmeans", "gmm"])
def test_refit_equals_fit(clusterer: Any) -> None:
    """Also if more clusters are dissolved than before, or fewer."""
    cloud = np.concatenate([X, [[50.0] * 24, [50.1] * 24, [49.9] * 24]])
    refitted = ClusterBasedEnhancement(6, 1, clusterer=clusterer).fit(cloud)
    for n_components, remove in [(5, "mean+pcs"), (5, "mean"), (2, "mean+pcs"), (1, "mean+pcs")]:
        changes = {"n_components": n_components, "remove": remove}
        fitted = ClusterBasedEnhancement(6, clusterer=clusterer, **changes).fit(cloud)
        refitted.set_params(**changes).refit(cloud)
        assert np.array_equal(refitted.transform(cloud), fitted.transform(cloud))
        assert np.array_equal(refitted.labels_, fitted.labels_)
        assert refitted.n_clusters_ == fitted.n_clusters_
    with pytest.raises(ValueError, match="n_components"):
        refitted.set_params(n_components=30).refit(cloud)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_points_far_from_the_origin_are_in_the_cluster_of_the_nearest_centre(dtype: type) -> None:
    offset = 3e3 if dtype is np.float32 else 3e8
    cloud = (np.random.default_rng(0).normal(size=(2000, 8)) + offset).astype(dtype)
    enhancement = ClusterBasedEnhancement(10, 1).fit(cloud)
    differences = cloud[:, None] - enhancement.centers_
    assert np.array_equal(enhancement.labels_, np.square(differences).sum(axis=2).argmin(axis=1))


def test_small_clusters_are_dissolved() -> None:
    """Clusters with no more points than components would become zero: their points move to the
    nearest remaining cluster."""
    far = np.array([[1e3], [1e3], [1e3], [-1e3]])
    outliers = np.vstack([X, far + RNG.standard_normal((4, 24))])
    enhancement = ClusterBasedEnhancement(7, 4).fit(outliers)
    sizes = np.bincount(enhancement.labels_)
    assert len(sizes) == enhancement.n_clusters_ == len(enhancement.means_) < 7
    assert sizes.min() > 5
    result = enhancement.transform(outliers)
    assert np.isfinite(result).all()
    assert (np.linalg.norm(result, axis=1) > 0).all()
    assert np.array_equal(enhancement.fit_transform(outliers), result)
    nearest = pairwise_distances_argmin(outliers, enhancement.centers_)
    assert np.array_equal(enhancement.labels_, nearest)


def test_one_cluster_remains_where_all_are_too_small() -> None:
    enhancement = ClusterBasedEnhancement(40, 20).fit(X[:60])
    assert enhancement.n_clusters_ == 1
    expected = published_steps(X[:60], np.zeros(60), 20)
    assert np.abs(enhancement.transform(X[:60]) - expected).max() < 1e-9


def test_changing_a_parameter_after_fit_does_not_change_clusters() -> None:
    """Not even if it is set to the number of remaining clusters."""
    outliers = np.vstack([X, 1e3 + RNG.standard_normal((1, 24))])
    enhancement = ClusterBasedEnhancement(3, 2).fit(outliers)
    assert enhancement.n_clusters_ == 2
    before = enhancement.transform(outliers)
    enhancement.set_params(n_clusters=2)
    assert np.array_equal(enhancement.transform(outliers), before)


def blas_threads() -> list[int]:
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "blas"]


def run_in_thread(work: Callable[[], object]) -> None:
    thread = Thread(target=work)
    thread.start()
    thread.join()


def test_concurrent_calls_restore_the_number_of_threads() -> None:
    """The number of BLAS threads is a setting of the whole process."""
    enhancement = ClusterBasedEnhancement(4, 2).fit(X)
    expected = enhancement.transform(X)
    initial = blas_threads()
    try:
        # Set the limit in a thread that ends, because OpenBLAS ties a limit to the thread
        run_in_thread(lambda: threadpool_limits(3, user_api="blas"))
        before = blas_threads()
        with ThreadPoolExecutor(3) as pool:
            results = list(pool.map(enhancement.transform, [X] * 60))
        after = blas_threads()
    finally:
        run_in_thread(lambda: threadpool_limits(max(initial), user_api="blas"))
    assert after == before
    assert all(np.array_equal(result, expected) for result in results)


def test_dissolved_mixture_component_moves_only_its_points() -> None:
    """They move to the most probable other component; no other points move, even if another mean
    is nearer."""
    generator = np.random.default_rng(0)
    wide = generator.standard_normal((300, 3)) * 9
    narrow = [14, 0, 0] + generator.standard_normal((300, 3)) / 2
    cloud = np.vstack([wide, narrow, [[60, 60, 60], [60, 61, 60], [61, 60, 60]]])
    common: dict[str, Any] = {"clusterer": "gmm", "init": "k-means++"}
    three_components = ClusterBasedEnhancement(3, 1, **common).fit(cloud)
    assert np.bincount(three_components.labels_)[three_components.labels_[-1]] == 3
    dissolved = ClusterBasedEnhancement(3, 2, **common).fit(cloud)
    assert dissolved.n_clusters_ == 2
    names = np.delete(np.arange(3), three_components.labels_[-1])  # the two remaining components
    assert np.array_equal(names[dissolved.labels_][:600], three_components.labels_[:600])
    assert (pairwise_distances_argmin(cloud, dissolved.centers_) != dissolved.labels_)[:600].any()
    assert np.array_equal(dissolved.transform(cloud), dissolved.fit(cloud).transform(cloud))


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_empty_clusters_give_finite_results() -> None:
    """Fewer distinct points than clusters, and mixture components without points."""
    same = np.repeat(RNG.standard_normal((4, 6)), 10, axis=0)
    near = same + 1e-9 * RNG.standard_normal((40, 6))
    assert np.isfinite(ClusterBasedEnhancement(8, 1).fit_transform(same)).all()
    assert np.isfinite(ClusterBasedEnhancement(8, 1).fit_transform(near)).all()
    assert np.isfinite(ClusterBasedEnhancement(8, 1, clusterer="gmm").fit_transform(near)).all()


def test_results_depend_on_the_seed_only() -> None:
    """Few iterations from random points make the result depend on the seed."""

    def fit(seed: int) -> np.ndarray:
        settings = {"init": "random", "max_iter": 9, "tol": 0, "random_state": seed}
        return ClusterBasedEnhancement(12, 2, **settings).fit_transform(X)

    assert fit(1).tobytes() == fit(1).tobytes()
    assert not np.array_equal(fit(1), fit(2))
    assert ClusterBasedEnhancement(5, 1, init="random", max_iter=9, tol=0).fit(X).n_iter_ <= 9


def test_nine_iterations_equal_ten_of_scipy() -> None:
    """The authors call `kmeans2(X, k)`, which makes one iteration fewer from the same starts."""
    cloud = RNG.standard_normal((2000, 16))
    starts = cloud[RNG.choice(2000, 12, replace=False)]
    _, theirs = kmeans2(cloud, starts, minit="matrix")
    nine, ten = (lloyd(cloud, [starts.copy()], max_iter=i, tol=0)[0] for i in (9, 10))
    assert np.array_equal(nine.labels, theirs)
    assert not np.array_equal(ten.labels, theirs)


@pytest.mark.parametrize("shape", [(40, 7), (7, 40)])
def test_memory_layout_does_not_change_components(shape: tuple[int, int]) -> None:
    """Negative strides, Fortran order, read-only arrays."""
    cloud = np.random.default_rng(0).standard_normal(shape)
    cloud -= cloud.mean(0)
    read_only = cloud.copy()
    read_only.flags.writeable = False
    expected = principal_components(cloud, 3).tobytes()
    for same in (np.asfortranarray(cloud), cloud[::-1].copy()[::-1], read_only):
        assert principal_components(same, 3).tobytes() == expected
    assert np.array_equal(read_only, cloud)


@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), n=st.integers(8, 60), d=st.integers(2, 10), k=st.integers(1, 6))
def test_properties(seed: int, n: int, d: int, k: int) -> None:
    """Components are orthonormal, the result is orthogonal to them, and has mean zero in each
    cluster."""
    rng = np.random.default_rng(seed)
    cloud = rng.standard_normal((n, d)) + 3
    removed = min(k, n - 2, d - 1)
    pcs = principal_components(cloud - cloud.mean(0), removed)
    assert pcs @ pcs.T == pytest.approx(np.eye(removed), abs=1e-7)
    transform = AllButTheTop(removed).fit(cloud)
    result = transform.transform(cloud)
    assert result @ transform.components_.T == pytest.approx(0, abs=1e-8)
    enhancement = ClusterBasedEnhancement(min(k, n), removed).fit(cloud)
    for c in range(enhancement.n_clusters_):
        mean = enhancement.transform(cloud)[enhancement.labels_ == c].mean(0)
        assert mean == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize(
    ("estimator", "cloud", "message"),
    [
        (AllButTheTop(24), X, "between 0 and 23"),
        (AllButTheTop(-1), X, "n_components"),
        (AllButTheTop(11), X[:12], "between 0 and 10"),
        (ClusterBasedEnhancement(5, 24), X, "n_components"),
        (ClusterBasedEnhancement(0), X, "n_clusters"),
        (ClusterBasedEnhancement(1201), X, "n_clusters"),
        (ClusterBasedEnhancement(clusterer="ward"), X, "clusterer"),
        (ClusterBasedEnhancement(remove="all"), X, "remove"),
    ],
)
def test_invalid_input_is_rejected(estimator: Center, cloud: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        estimator.fit(cloud)


def test_cluster_with_one_point_more_than_components_is_dissolved() -> None:
    """m centred points have rank m - 1, so nothing would remain."""
    few = np.vstack([X, 1e3 + RNG.standard_normal((5, 24))])
    enhancement = ClusterBasedEnhancement(2, 4, max_iter=300).fit(few)
    assert enhancement.n_clusters_ == 1
    assert np.linalg.norm(enhancement.transform(few), axis=1).min() > 1e-6


@pytest.mark.parametrize("spread", [1.0, 1e3, 1e5])
def test_components_of_few_points_in_float32_are_orthonormal(spread: float) -> None:
    cloud = RNG.standard_normal((300, 768)).astype(np.float32)
    cloud[:, 0] *= spread
    pcs = principal_components(cloud - cloud.mean(0), 20)
    assert pcs @ pcs.T == pytest.approx(np.eye(20), abs=1e-9)


SAVED = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32) + 2
NEW = np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32) + 2


@pytest.mark.parametrize(
    "transform",
    [
        Center(),
        AllButTheTop(),
        AllButTheTop(np.int64(3)),
        Whitening(0.1),
        ClusterBasedEnhancement(4, 2),
        ClusterBasedEnhancement(40, 5),  # too small clusters are dissolved
        ClusterBasedEnhancement(4, remove="mean"),
    ],
    ids=repr,
)
def test_loaded_transform_gives_the_same_results(transform: Any, tmp_path: Path) -> None:
    transform.fit(SAVED)
    save_transform(transform, tmp_path / "t.safetensors")
    loaded = load_transform(tmp_path / "t.safetensors")
    assert loaded.get_params() == transform.get_params()
    for cloud in (SAVED, NEW, NEW.astype(np.float64)):
        assert np.array_equal(loaded.transform(cloud), transform.transform(cloud))
    save_transform(loaded, tmp_path / "again.safetensors")
    same = (tmp_path / "again.safetensors").read_bytes()
    assert same == (tmp_path / "t.safetensors").read_bytes()


def test_other_estimators_cannot_be_saved(tmp_path: Path) -> None:
    path = tmp_path / "t.safetensors"
    with pytest.raises(ValueError, match="StandardScaler"):
        save_transform(StandardScaler().fit(SAVED), path)
    with pytest.raises(ValueError, match="mixture"):
        save_transform(ClusterBasedEnhancement(2, clusterer="gmm").fit(SAVED), path)
    with pytest.raises(NotFittedError):
        save_transform(Center(), path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "metadata",
    [
        None,
        "{",
        "[]",
        '{"transform": "Center"}',
        '{"transform": "os.system", "parameters": {}}',
        '{"transform": "Center", "parameters": {"a": 1}}',
        '{"transform": "AllButTheTop", "parameters": {}}',
    ],
)
def test_other_files_are_rejected(metadata: str | None, tmp_path: Path) -> None:
    file_metadata = None if metadata is None else {"isotropy_transform": metadata}
    save_file({"x": SAVED}, tmp_path / "t.safetensors", metadata=file_metadata)
    with pytest.raises(ValueError, match="not a saved"):
        load_transform(tmp_path / "t.safetensors")


def test_files_of_another_format_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "t.safetensors").write_bytes(b"pickle")
    with pytest.raises(ValueError, match="not a saved"):
        load_transform(tmp_path / "t.safetensors")


@pytest.mark.parametrize("unit", [1e-30, 1e-20, 1e15, 1e18])
@pytest.mark.parametrize(
    "transform", [Center(), AllButTheTop(2), ClusterBasedEnhancement(3, 2)], ids=repr
)
@pytest.mark.filterwarnings("error")
def test_transforms_at_any_scale(transform: Center, unit: float) -> None:
    """In float32, also for new points, results are as in float64 at scale 1, without warnings."""
    rng = np.random.default_rng(0)
    cloud = rng.normal(size=(300, 20)) * np.r_[5, 3, np.ones(18)] + rng.normal(size=20)
    expected = transform.fit(cloud).transform(cloud[:50])
    scaled = (cloud * unit).astype(np.float32)
    obtained = transform.fit(scaled).transform(scaled[:50])
    assert np.abs(obtained / unit - expected).max() < 1e-5 * np.abs(expected).max()
