"""Products and rounds that the metrics stand on."""

from __future__ import annotations

from itertools import combinations_with_replacement

import pytest
import torch

from isotropy.metrics import matrix


@pytest.mark.parametrize(("n", "d"), [(5000, 40), (9, 300), (300, 301), (2, 2)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_symmetric_products(n: int, d: int, dtype: torch.dtype, tolerance: float) -> None:
    X = torch.randn(n, d, generator=torch.Generator().manual_seed(0)).to(dtype)
    for found, expected in ((matrix.scatter(X), X.double().T @ X.double()), (matrix.gram(X[:400]), None)):
        expected = X[:400].double() @ X[:400].double().T if expected is None else expected
        assert (found - expected).abs().max() < tolerance * expected.abs().max()


def test_both_libraries_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of AMD processors with AVX-512, run here; with and without `out`, and with strides."""
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this build of torch has no oneDNN")
    x, y = torch.randn(30, 48), torch.randn(48, 20).T
    monkeypatch.setattr(matrix, "onednn_is_faster", lambda: True)
    out = torch.empty(30, 20)
    assert torch.allclose(matrix.product(x, y, out=out), x @ y.T, atol=1e-5)
    assert torch.allclose(out, x @ y.T, atol=1e-5)
    assert torch.allclose(matrix.product(x, y), x @ y.T, atol=1e-5)
    assert torch.equal(matrix.product(x.double(), y.double()), x.double() @ y.double().T)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_rounds_meet_each_pair_once(n: int) -> None:
    seen = []
    for pairs in matrix.rounds(n):
        parts = [part for a, b in pairs for part in {a, b}]
        assert len(parts) == len(set(parts))
        seen += pairs
    assert sorted(seen) == list(combinations_with_replacement(range(n), 2))
