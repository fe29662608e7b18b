"""Matrix products and work schedules that metrics are built on."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import combinations_with_replacement

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits

from isotropy.metrics import compiled, distances, matmul, silhouette


@pytest.mark.parametrize(("n", "d"), [(5000, 40), (9, 300), (300, 301), (2, 2)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_symmetric_products_equal_torch(
    n: int, d: int, dtype: torch.dtype, tolerance: float
) -> None:
    X = torch.randn(n, d, generator=torch.Generator().manual_seed(0)).to(dtype)
    for obtained, expected in (
        (matmul.scatter(X), X.double().T @ X.double()),
        (matmul.gram(X[:400]), None),
    ):
        expected = X[:400].double() @ X[:400].double().T if expected is None else expected
        assert (obtained - expected).abs().max() < tolerance * expected.abs().max()


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
import json
import numpy as np
from numba.core import caching
caching.CacheImpl._locator_classes = []
from isotropy.metrics import compiled, distances, silhouette
kernels = [distances.add_sums]
X = np.random.default_rng(0).standard_normal((50, 4))
print(json.dumps({
    "kept": compiled.CACHE_ON_DISK,
    "caches": [type(kernel._cache).__name__ for kernel in kernels],
    "value": silhouette(X, np.arange(50) % 5),
}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout)
    assert result["kept"] is False
    assert set(result["caches"]) == {"NullCache"}
    X = np.random.default_rng(0).standard_normal((50, 4))
    assert result["value"] == pytest.approx(silhouette(X, np.arange(50) % 5), abs=1e-12)
    if compiled.CACHE_ON_DISK:  # unless this installation is read-only itself
        assert type(distances.add_sums._cache).__name__ == "FunctionCache"


def test_ordered_threads_limits_openmp_to_two() -> None:
    """k-means adds its threads' sums in the order in which they end; two commute."""
    with threadpool_limits(4, user_api="openmp"):
        before = _openmp_threads()
        with matmul.two_openmp_threads():
            assert max(_openmp_threads()) == 2
        assert _openmp_threads() == before
    with threadpool_limits(1, user_api="openmp"), matmul.two_openmp_threads():
        assert set(_openmp_threads()) == {1}


def _openmp_threads() -> list[int]:
    return [p["num_threads"] for p in threadpool_info() if p["user_api"] == "openmp"]
