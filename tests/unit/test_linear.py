"""Linear layers on oneDNN, as used on AMD with AVX-512, give torch's values."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from transformers.pytorch_utils import Conv1D

from isotropy.metrics import matmul
from isotropy.models import linear
from isotropy.models.linear import use_onednn_where_faster

if not torch.backends.mkldnn.is_available():
    pytest.skip("this build of torch has no oneDNN", allow_module_level=True)


@pytest.fixture(autouse=True)
def on_onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (linear, matmul):
        monkeypatch.setattr(module, "onednn_is_faster", lambda: True)


def model(*, bias: bool) -> torch.nn.Module:
    torch.manual_seed(0)
    layers = (torch.nn.Linear(48, 96, bias=bias), torch.nn.GELU(), torch.nn.Linear(96, 3, bias))
    return torch.nn.Sequential(*layers)


def gpt_model() -> torch.nn.Module:
    """Return a model with Conv1D, the linear layer of GPT and GPT-2."""
    torch.manual_seed(0)
    return torch.nn.Sequential(Conv1D(96, 48), torch.nn.GELU(), Conv1D(3, 96))


def run(layers: torch.nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the output of layers, and the gradients of the sum of its squares with respect to the
    input and the parameters."""
    x = x.detach().requires_grad_()
    y = layers(x)
    return [y.detach(), *torch.autograd.grad((y**2).sum(), [x, *layers.parameters()])]


MODELS = {
    "linear": partial(model, bias=True),
    "without bias": partial(model, bias=False),
    "GPT": gpt_model,
}


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("shape", [(48,), (7, 48), (4, 9, 48)])
def test_values_and_gradients_equal_torch(
    make: Callable[[], torch.nn.Module], shape: tuple[int, ...]
) -> None:
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    fast, exact = make(), make().double()
    use_onednn_where_faster(fast)
    assert {type(layer) for layer in fast} != {type(layer) for layer in exact}
    for obtained, expected in zip(run(fast, x), run(exact, x.double()), strict=True):
        assert obtained.shape == expected.shape
        assert torch.allclose(obtained.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_values_do_not_depend_on_alignment_and_threads(make: Callable[[], torch.nn.Module]) -> None:
    fast, x = make(), torch.randn(60, 48)
    use_onednn_where_faster(fast)
    first = run(fast, x)
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for offset in range(16):
            moved = torch.empty(x.numel() + 16)[offset : offset + x.numel()].view_as(x).copy_(x)
            assert all(map(torch.equal, run(fast, moved), first))


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_other_dtypes_use_torch(make: Callable[[], torch.nn.Module]) -> None:
    x, plain = torch.randn(5, 48), make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        expected = plain(x)
    wide = plain(x).detach()
    use_onednn_where_faster(plain)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(plain(x), expected)
    assert torch.allclose(plain.double()(x.double()).float(), wide, atol=1e-5)


def test_layers_are_unchanged_where_onednn_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "onednn_is_faster", lambda: False)
    layers = model(bias=True)
    use_onednn_where_faster(layers)
    assert type(layers[0]) is torch.nn.Linear  # type: ignore[index]
