"""Linear layers on oneDNN, on AMD processors with AVX-512, where `torch.mm` stops at AVX2
(`isotropy.metrics.matmul`).

Elsewhere, on GPUs, in other dtypes and under autocast the layers compute as torch has them.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from transformers.pytorch_utils import Conv1D

from isotropy.metrics.matmul import onednn_is_faster, product


def use_onednn_where_faster(model: torch.nn.Module) -> None:
    """Let the linear layers of a model, also those of GPT and GPT-2, compute by `product` where
    oneDNN is faster.

    Args:
        model: changed in place: its layers get another class. Parameters stay what they are, and
            results differ by rounding. A gradient of a gradient raises a RuntimeError.
    """
    if onednn_is_faster():
        for module in model.modules():
            if type(module) in _ON_ONEDNN:
                module.__class__ = _ON_ONEDNN[type(module)]


class _Linear(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return _linear(x, self.weight, self.bias) if _plain(x, self.weight) else super().forward(x)


class _Conv1D(Conv1D):  # type: ignore[misc]  # the linear layer of GPT: weights as columns
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _plain(x, self.weight):
            return _linear(x, self.weight.T, self.bias)
        y: torch.Tensor = super().forward(x)
        return y


_ON_ONEDNN: dict[type, Any] = {torch.nn.Linear: _Linear, Conv1D: _Conv1D}


def _plain(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a layer is to be computed in float32 on the CPU."""
    float32 = x.dtype == weight.dtype == torch.float32
    return x.is_cpu and float32 and not torch.is_autocast_enabled("cpu")


def _linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    y: torch.Tensor = _Product.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return y


class _Product(torch.autograd.Function):
    """x w' + b for shapes (..., d), (k, d) and (k,), and its gradients."""

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
        for_x, for_weight, for_bias = ctx.needs_input_grad
        return (
            product(rows, weight.T).view_as(x) if for_x else None,
            product(rows.T, x.reshape(-1, x.shape[-1]).T) if for_weight else None,
            rows.sum(dim=0) if for_bias else None,
        )
