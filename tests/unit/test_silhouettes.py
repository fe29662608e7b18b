"""Silhouettes against scikit-learn in double precision, on numerically difficult clouds."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from sklearn.metrics import silhouette_samples as sklearn_samples

from isotropy.metrics import (
    compiled,
    distance_sums,
    distances,
    matmul,
    silhouette,
    silhouette_from_sums,
    silhouette_of_labelings,
    silhouette_samples,
)
from isotropy.metrics import silhouettes as module
from isotropy.metrics.distances import normalized
from isotropy.metrics.validation import as_codes, sample_rows

RNG = np.random.default_rng(0)
N, D = 1500, 48
BASE = RNG.standard_normal((N, D))
CENTRES = RNG.standard_normal((200, D))
TWO, MANY = RNG.integers(0, 2, N), RNG.integers(0, 200, N)
DUPLICATES = BASE.copy()
DUPLICATES[::4] = DUPLICATES[0]

CLOUDS = {
    "unit norm": (BASE / np.linalg.norm(BASE, axis=1, keepdims=True), TWO),
    "scaled up": (BASE * 1e4, TWO),
    "scaled down": (BASE * 1e-6, TWO),
    "offset": (BASE + 30, TWO),
    "outlier dimension": (BASE + 300 * np.eye(D)[0], TWO),
    "two collapsed clusters": (BASE * 1e-4 + CENTRES[TWO], TWO),
    "200 collapsed clusters": (BASE * 1e-4 + CENTRES[MANY], MANY),
    "collapsed clusters, labels across them": (BASE * 1e-4 + CENTRES[MANY], TWO),
    "duplicates": (DUPLICATES, MANY),
    "singletons and a large class": (BASE, np.r_[np.arange(60), np.full(N - 60, 99)]),
    "one large and many small classes": (BASE, np.where(np.arange(N) < 700, 500, MANY)),
    "several thousand classes": (
        np.tile(BASE, (3, 1)) + RNG.standard_normal((3 * N, D)),
        RNG.integers(0, 2000, 3 * N),
    ),
}


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)])
def test_each_point_equals_scikit_learn(name: str, dtype: type, tolerance: float) -> None:
    """By the largest difference of any point, not only of the mean."""
    X, labels = CLOUDS[name]
    X = X.astype(dtype)
    expected = sklearn_samples(X.astype(np.float64), labels)
    if "collapsed" in name:  # far from the origin scikit-learn loses digits
        tolerance = max(tolerance, 1e-7)
    assert np.abs(silhouette_samples(X, labels).numpy() - expected).max() < tolerance
    assert silhouette(X, labels) == pytest.approx(expected.mean(), abs=tolerance)


def test_bounded_memory_gives_the_same_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path for very many classes does not use the symmetry of distances."""
    X, labels = CLOUDS["several thousand classes"]
    unbounded = silhouette_samples(X, labels)
    monkeypatch.setattr(module, "MAX_SUMS_BYTES", 0)
    assert torch.allclose(silhouette_samples(X, labels), unbounded, atol=1e-12, rtol=0)


@pytest.mark.study  # ten seconds
def test_memory_is_not_quadratic() -> None:
    """30,000 points would need 3.6 GB for n x n in single precision."""
    program = """
import numpy as np
from isotropy.metrics import silhouette
from replication.provenance.environment import peak_memory_bytes
X = np.random.default_rng(0).standard_normal((30_000, 8), dtype=np.float32)
score = silhouette(X, np.arange(30_000) % 3)
print(score, peak_memory_bytes())
"""
    score, peak = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert abs(float(score)) < 1e-2
    assert int(peak) < 1.2e9


@pytest.mark.parametrize("name", CLOUDS)
def test_compiled_code_equals_the_gpu_path(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The GPU path is run on the CPU, in several tiles."""
    X, labels = CLOUDS[name]
    cloud, codes = normalized(torch.from_numpy(X)), as_codes(labels, len(X))
    order = torch.argsort(codes, stable=True)
    monkeypatch.setattr(module, "GPU_TILE", 600)
    sums: list[torch.Tensor] = []
    module._sums_by_torch(
        cloud[order], codes[order], torch.bincount(codes), lambda _, part: sums.append(part)
    )
    plain = module.silhouette_from_sums(torch.cat(sums), codes[order])
    tolerance = 1e-6 if "collapsed" in name else 1e-11
    assert torch.allclose(silhouette_samples(X, labels)[order], plain, atol=tolerance, rtol=0)


@pytest.mark.parametrize("name", CLOUDS)
def test_distance_sums_equal_scipy(name: str) -> None:
    """In double precision; silhouettes can be computed from them; any scale works."""
    X, labels = CLOUDS[name]
    sums = distance_sums(X, labels)
    codes = as_codes(labels, len(X)).numpy()
    expected = cdist(X.astype(np.float64), X.astype(np.float64)) @ np.eye(codes.max() + 1)[codes]
    assert np.allclose(sums, expected, rtol=1e-5, atol=1e-5 * expected.max())
    scores = silhouette_from_sums(sums, labels)
    assert torch.allclose(scores, silhouette_samples(X, labels), atol=1e-6, rtol=0)
    tiny = distance_sums(X * X.dtype.type(1e-15), labels)
    assert np.allclose(tiny * 1e15, sums, rtol=1e-4, atol=1e-4 * expected.max())
    with pytest.raises(ValueError, match="sums"):
        silhouette_from_sums(sums[:, 1:], labels)


def test_number_of_threads_does_not_change_a_bit() -> None:
    X, labels = CLOUDS["one large and many small classes"]
    result = set()
    for n in (1, 2, 3):
        torch.set_num_threads(n)
        result.add(silhouette_samples(X.astype(np.float32), labels).numpy().tobytes())
        assert torch.get_num_threads() == n
    assert len(result) == 1


def test_single_precision_sums_of_many_classes_are_accurate(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above MAX_EXACT_BYTES sums are float32; each has few summands then, and the error stays
    below 1e-6."""
    X, labels = CLOUDS["several thousand classes"]
    monkeypatch.setattr(module, "MAX_EXACT_BYTES", 0)
    result = silhouette_samples(X.astype(np.float32), labels).numpy()
    assert np.abs(result - sklearn_samples(X, labels)).max() < 1e-6


def test_several_labelings_equal_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """In double and single precision, and by the GPU path, run on the CPU in several tiles."""
    labelings = [RNG.integers(0, k, N) for k in (2, 5, 15)]
    expected = [sklearn_samples(BASE, labels).mean() for labels in labelings]
    double, single = (silhouette_of_labelings(BASE.astype(t), labelings) for t in ("f8", "f4"))
    assert double.numpy() == pytest.approx(expected, abs=1e-12)
    assert single.numpy() == pytest.approx(expected, abs=1e-7)
    monkeypatch.setattr(module, "GPU_TILE", 600)
    monkeypatch.setattr(module, "_sums_over_columns", module._sums_over_columns_by_torch)
    assert torch.allclose(silhouette_of_labelings(BASE, labelings), double, atol=1e-12)


def test_sampled_silhouette_is_that_of_the_drawn_points() -> None:
    """A sample as large as the cloud is the cloud."""
    X, labels = CLOUDS["outlier dimension"]
    rows = sample_rows(N, 500, 7).numpy()
    assert len(set(rows)) == 500
    drawn = silhouette(X, labels, sample_size=500, seed=7)
    assert drawn == silhouette(X[rows], labels[rows])
    assert drawn != silhouette(X, labels, sample_size=500, seed=8)
    assert silhouette(X, labels, sample_size=N + 1) == silhouette(X, labels)
    with pytest.raises(ValueError, match="sample_size"):
        silhouette(X, labels, sample_size=1)


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(4, 40),
    d=st.integers(1, 6),
    k=st.integers(2, 4),
    scale=st.floats(1e-6, 1e6),
)
def test_properties(seed: int, n: int, d: int, k: int, scale: float) -> None:
    """Within [-1, 1]; invariant to order, class names, scale and translation; equal to
    scikit-learn."""
    rng = np.random.default_rng(seed)
    X, labels = rng.standard_normal((n, d)), np.r_[np.arange(k), rng.integers(0, k, n - k)]
    if n == k:
        labels[-1] = 0
    scores = silhouette_samples(X, labels).numpy()
    assert (np.abs(scores) <= 1 + 1e-12).all()
    assert scores == pytest.approx(sklearn_samples(X, labels), abs=1e-9)
    order = rng.permutation(n)
    permuted = silhouette_samples(X[order], labels[order]).numpy()
    assert permuted == pytest.approx(scores[order], abs=1e-9)
    moved = silhouette_samples(X * scale + 1, np.array(list("dcba"))[labels]).numpy()
    assert moved == pytest.approx(scores, abs=1e-6)


def test_label_vectors_are_classes() -> None:
    """Distinct rows of a multi-label indicator matrix are distinct classes."""
    indicators = RNG.integers(0, 2, (N, 4))
    expected = silhouette(BASE, indicators @ (2 ** np.arange(4)))
    assert silhouette(BASE, indicators) == pytest.approx(expected, abs=1e-12)


def test_equal_points_have_silhouette_zero_as_in_scikit_learn() -> None:
    assert silhouette(np.zeros((4, 2)), [0, 0, 1, 1]) == 0


@pytest.mark.parametrize(
    ("labels", "message"), [(np.zeros(N), "2 classes"), (np.arange(N), "class of its own")]
)
def test_invalid_labels_are_rejected(labels: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        silhouette(BASE, labels)


def test_autocast_changes_nothing() -> None:
    X, labels = CLOUDS["unit norm"]
    X = X.astype(np.float32)
    score, scores = silhouette(X, labels), silhouette_of_labelings(X, [labels])
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert silhouette(X, labels) == score
        assert torch.equal(silhouette_of_labelings(X, [labels]), scores)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_rounds_meet_each_pair_once(n: int) -> None:
    all_pairs = []
    for pairs in matmul.round_robin(n):
        parts = [part for a, b in pairs for part in {a, b}]
        assert len(parts) == len(set(parts))
        all_pairs += pairs
    assert sorted(all_pairs) == list(combinations_with_replacement(range(n), 2))


def test_kernels_compile_without_a_writable_cache() -> None:
    """As in a read-only installation on a cluster: kernels are compiled in the process, without a
    cache, and give the same values up to rounding."""
    program = """
import numpy as np
from numba.core import caching
caching.CacheImpl._locator_classes = []
from isotropy.metrics import compiled, distances, silhouette
X = np.random.default_rng(0).standard_normal((50, 4))
print(compiled.CACHE_ON_DISK, type(distances.add_sums._cache).__name__)
print(silhouette(X, np.arange(50) % 5))
"""
    kept, cache, value = subprocess.check_output([sys.executable, "-c", program], text=True).split()
    assert (kept, cache) == ("False", "NullCache")
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert float(value) == pytest.approx(silhouette(X, np.arange(50) % 5), abs=1e-12)
    if compiled.CACHE_ON_DISK:  # unless this installation is read-only itself
        assert type(distances.add_sums._cache).__name__ == "FunctionCache"
