"""Penalties on the geometry of hidden states, to be added to a task's loss.

Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR: I-STAR, and the CosReg that
they compare it with.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import nn

from isotropy.metrics.isoscores import ShrinkageCovariance, StreamingCovariance, isoscore_star
from isotropy.metrics.validation import require_finite

EPSILON = 1e-12  # torch's own, in cosines
# As transformers gives them: embedding layer first, each (B, T, d)
HiddenStates = torch.Tensor | Sequence[torch.Tensor]


class _HiddenStatePenalty(nn.Module):
    """What both penalties take: hidden states, of which layers and tokens are chosen."""

    def __init__(self, layers: Literal["all"] | Sequence[int], keep_padding: bool) -> None:
        super().__init__()
        if layers != "all" and (isinstance(layers, str) or not layers):
            raise ValueError(f'layers must be "all" or a list of layer numbers, got {layers!r}')
        self.layers, self.keep_padding = layers, keep_padding

    def tokens(
        self, hidden_states: HiddenStates, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The token vectors of the chosen layers in one cloud, shape (layers * tokens, d).

        Args:
            hidden_states: all layers, embedding layer first: a sequence of tensors (B, T, d), or
                one tensor (L, B, T, d).
            attention_mask: shape (B, T), 1 for tokens and 0 for padding. Must be given unless
                padding is kept.

        Raises:
            ValueError: no mask where padding is left out, a mask with other values, shapes that do
                not fit, or no such layer.
        """
        n_layers = len(hidden_states)
        chosen = range(1, n_layers) if self.layers == "all" else self.layers
        if not chosen or any(not -n_layers <= i < n_layers for i in chosen):
            raise ValueError(
                f"layers {list(chosen)} of {n_layers} hidden states: there is no such layer (0 is "
                "the embeddings)"
            )
        picked = [hidden_states[i] for i in chosen]
        if any(h.ndim != 3 for h in picked):
            raise ValueError(
                f"hidden states must have shape (B, T, d), got {tuple(picked[0].shape)}"
            )
        if self.keep_padding:
            return torch.cat([h.flatten(0, 1) for h in picked])
        if attention_mask is None:
            raise ValueError(
                "pass attention_mask, or keep_padding=True to count padding as tokens, as the "
                "authors do"
            )
        if attention_mask.shape != picked[0].shape[:2]:
            found, wanted = tuple(attention_mask.shape), tuple(picked[0].shape[:2])
            raise ValueError(f"attention_mask must have shape {wanted}, got {found}")
        keep = attention_mask.bool()
        if not bool((attention_mask == keep).all()):
            least, most = attention_mask.min().item(), attention_mask.max().item()
            raise ValueError(
                f"attention_mask must be 1 for tokens and 0 for padding, got values from {least:g} "
                f"to {most:g}; of an additive mask, pass attention_mask == 0"
            )
        return torch.cat([h[keep.to(h.device)] for h in picked])


class IStarLoss(_HiddenStatePenalty):
    """I-STAR: strength * (1 - IsoScore*(tokens, zeta, Sigma_S)), equation of section 3.

    A positive strength (lambda in the paper) raises isotropy, a negative one lowers it.

    Sigma_S is estimated from token vectors of training data, by the authors at the start of every
    epoch, in eval mode, from 250,000 of them: `reset_shrinkage()`, then `update_shrinkage(...)`
    batch by batch. The estimate is saved with the module's state.

    Args:
        d: dimensions of the hidden states.
        strength: lambda.
        zeta: share of Sigma_S, in [0, 1].
        layers: "all" but the embedding layer, as the authors do, or layer numbers (0 is the
            embedding layer).
        keep_padding: count padding positions as tokens, as the authors do.
    """

    def __init__(
        self,
        d: int,
        *,
        strength: float,
        zeta: float = 0.2,
        layers: Literal["all"] | Sequence[int] = "all",
        keep_padding: bool = False,
    ) -> None:
        super().__init__(layers, keep_padding)
        if not 0 <= zeta <= 1:
            raise ValueError(f"zeta must lie in [0, 1], got {zeta}")
        self.strength, self.zeta = strength, zeta
        self.shrinkage = StreamingCovariance(d)
        self._prepared: tuple[object, ShrinkageCovariance] | None = None

    def reset_shrinkage(self) -> None:
        """Forget Sigma_S."""
        self.shrinkage.reset()

    @torch.no_grad()
    def update_shrinkage(
        self, hidden_states: HiddenStates, attention_mask: torch.Tensor | None = None
    ) -> int:
        """Add a batch to the estimate of Sigma_S; returns the number of token vectors that it
        is made of.
        """
        self.shrinkage.update(self.tokens(hidden_states, attention_mask))
        return int(self.shrinkage.n)

    def forward(
        self, hidden_states: HiddenStates, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The penalty, a scalar in the dtype of the hidden states; float32 for half precision.

        Raises:
            ValueError: as in `tokens`; Sigma_S not estimated yet for zeta > 0; token vectors all
                equal, NaN or infinite.
        """
        tokens = self.tokens(hidden_states, attention_mask)
        shrinkage = None
        if self.zeta > 0:
            if int(self.shrinkage.n) < 2:
                raise ValueError(
                    "zeta > 0 needs a shrinkage covariance: call update_shrinkage on training "
                    "batches first"
                )
            buffer = self.shrinkage.scatter
            # Changes with whatever changes the estimate.
            state = (id(buffer), buffer._version, tokens.device)
            if self._prepared is None or self._prepared[0] != state:
                # It outlives an evaluation, for training to use.
                with torch.inference_mode(False), torch.no_grad():
                    covariance = self.shrinkage.covariance().to(tokens.device)
                    self._prepared = (state, ShrinkageCovariance(covariance))
            shrinkage = self._prepared[1]
        score = isoscore_star(tokens, self.zeta, shrinkage)
        penalty: torch.Tensor = self.strength * (1 - score)  # type: ignore[assignment]
        return penalty.to(
            tokens.dtype if tokens.dtype in (torch.float32, torch.float64) else torch.float32
        )


class CosRegLoss(_HiddenStatePenalty):
    """CosReg: strength * (sum over i != j of cos(x_i, x_j)) / N^2 over the N tokens of the batch
    (Rudman & Eickhoff 2024).

    The division is by N^2, not by the N (N - 1) pairs, as in the authors' code.

    Args:
        strength: 1 in the paper.
        layers: the last by default, as in the paper; "all" or layer numbers.
        keep_padding: count padding positions as tokens, as the authors do.
    """

    def __init__(
        self,
        *,
        strength: float = 1.0,
        layers: Literal["all"] | Sequence[int] = (-1,),
        keep_padding: bool = False,
    ) -> None:
        super().__init__(layers, keep_padding)
        self.strength = strength

    def forward(
        self, hidden_states: HiddenStates, attention_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The penalty, a scalar; float32 for half precision. Raises as `tokens`, and ValueError
        where no token is left or token vectors are NaN or infinite.
        """
        tokens = self.tokens(hidden_states, attention_mask)
        if not len(tokens):
            raise ValueError("no token is left: the attention mask is 0 everywhere")
        tokens = tokens if tokens.dtype == torch.float64 else tokens.float()
        norms = tokens.detach().norm(dim=1)
        if not bool((torch.isfinite(norms) & (norms > EPSILON)).all()):
            # Squares are beyond the range of floats: a row's largest value is its unit.
            require_finite(tokens)
            largest = tokens.detach().abs().amax(dim=1, keepdim=True)
            tokens = tokens / torch.where(largest > 0, largest, 1)
        units = nn.functional.normalize(tokens, dim=1, eps=EPSILON)
        n = len(units)
        return self.strength * (units.sum(dim=0).square().sum() - units.square().sum()) / n**2
