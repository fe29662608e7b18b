"""Linear layers of encoders on the fastest library that the machine has for their products.

`torch.nn.Linear` computes as `torch.mm` does, which stops at AVX2 on AMD processors with AVX-512
(`isotropy.metrics.matmul`). Elsewhere, on GPUs and in other precisions nothing changes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable

from isotropy.metrics.matmul import onednn_is_faster, product


def use_fastest_products(model: torch.nn.Module) -> None:
    """Let the linear layers of a model compute by `product`, where that is faster."""
    if onednn_is_faster():
        for module in model.modules():
            if type(module) is torch.nn.Linear:
                module.__class__ = _FastLinear


class _FastLinear(torch.nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w, b = self.weight, self.bias
        plain = x.is_cpu and x.dtype == w.dtype == torch.float32
        if plain and not torch.is_autocast_enabled("cpu"):
            y: torch.Tensor = _Linear.apply(x, w, b)  # type: ignore[no-untyped-call]
            return y
        return super().forward(x)


class _Linear(torch.autograd.Function):
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
