"""Linear layers that compute with oneDNN on AMD processors with AVX-512, where `torch.mm` uses at
most AVX2 (`isotropy.metrics.matmul`).

On other processors and GPUs, with other dtypes and under autocast, torch's own implementation runs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from transformers.pytorch_utils import Conv1D

from isotropy.metrics.matmul import onednn_is_faster, product


def use_onednn_where_faster(model: torch.nn.Module) -> None:
    """Replace the forward pass of a model's linear layers (`Linear`, and `Conv1D` of GPT and GPT-2)
    by oneDNN products on machines where these are faster.

    Args:
        model: changed in place: the class of its linear layers is replaced. Parameters are
            unchanged, and results differ only by rounding. Second derivatives raise a RuntimeError.
    """
    if onednn_is_faster():
        for module in model.modules():
            if type(module) in _ONEDNN_CLASSES:
                module.__class__ = _ONEDNN_CLASSES[type(module)]


class _Linear(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (
            _linear(x, self.weight, self.bias)
            if _onednn_applies(x, self.weight)
            else super().forward(x)
        )


class _Conv1D(Conv1D):  # type: ignore[misc]  # the linear layer of GPT: transposed weights
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _onednn_applies(x, self.weight):
            return _linear(x, self.weight.T, self.bias)
        y: torch.Tensor = super().forward(x)
        return y


_ONEDNN_CLASSES: dict[type, Any] = {torch.nn.Linear: _Linear, Conv1D: _Conv1D}


def _onednn_applies(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Return whether a layer computes in float32 on the CPU, without autocast."""
    float32 = x.dtype == weight.dtype == torch.float32
    return x.is_cpu and float32 and not torch.is_autocast_enabled("cpu")


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    y: torch.Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _Product(torch.autograd.Function):
    """Differentiable x w' + b for shapes (..., d), (k, d) and (k,)."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        y = product(x.reshape(-1, x.shape[-1]), weight)
        if bias is not None:
            y += bias
        return y.view(*x.shape[:-1], len(weight))

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None, torch.Tensor | None]:
        x, weight = ctx.saved_tensors
        rows = gradient.reshape(-1, len(weight))
        needs_x, needs_weight, needs_bias = ctx.needs_input_grad
        return (
            product(rows, weight.T).view_as(x) if needs_x else None,
            product(rows.T, x.reshape(-1, x.shape[-1]).T) if needs_weight else None,
            rows.sum(dim=0) if needs_bias else None,
        )
