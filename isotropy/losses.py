"""Penalties on the geometry of hidden states, to be added to a task's loss.

Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR: I-STAR, and the CosReg that
they compare it with. And I-STAR by IsoScore without bias, which needs no Sigma_S.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Literal

import torch
from torch import nn

from isotropy.metrics.isoscores import (
    ShrinkageCovariance,
    StreamingCovariance,
    isoscore_star,
    require_share,
)
from isotropy.metrics.unbiased import isoscore_unbiased
from isotropy.metrics.validation import require_dense, scaled

# As returned by transformers: embedding layer first, each of shape (B, T, d)
HiddenStates = torch.Tensor | Sequence[torch.Tensor]


class _HiddenStatePenalty(nn.Module):
    """Base class of the penalties: selects layers and tokens from hidden states."""

    def __init__(
        self,
        strength: float,
        layers: Literal["all"] | Sequence[int],
        keep_padding: bool,
        validate: bool,
    ) -> None:
        super().__init__()
        if layers != "all" and not _are_layers(layers):
            raise ValueError(
                f'layers must be "all" or a list of layer numbers, got {reprlib.repr(layers)}'
            )
        _require_strength(strength)
        self.strength = strength
        self.layers, self.keep_padding, self.validate = layers, keep_padding, validate

    def forward(
        self,
        hidden_states: HiddenStates,
        attention_mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the penalty, a scalar in the dtype of hidden states; float32 for half precision.

        Raises:
            ValueError: as in `tokens` and `penalty`.
        """
        return self.penalty(self.tokens(hidden_states, attention_mask, positions))

    def penalty(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the penalty of token vectors, shape (n, d)."""
        raise NotImplementedError

    def tokens(
        self,
        hidden_states: HiddenStates,
        attention_mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Return the token vectors of the chosen layers as one cloud, shape (layers * tokens, d).

        Args:
            hidden_states: all layers, embedding layer first: a sequence of tensors (B, T, d), or
                one tensor (L, B, T, d).
            attention_mask: shape (B, T), 1 for tokens and 0 for padding. Must be given unless
                padding is kept, or positions are given.
            positions: indices of the tokens in the flattened mask, shape (tokens,), int64, on the
                device of the hidden states: to select by a mask, a GPU must be waited for.

        Raises:
            ValueError: no mask although padding is left out, a mask with values other than 0 and 1,
                positions that do not exist, incompatible shapes or devices, or a layer that does
                not exist.
            TypeError: not tensors, or hidden states that are not floating-point numbers.
        """
        n_layers = _count_layers(hidden_states)
        layers = range(1, n_layers) if self.layers == "all" else self.layers
        if not layers or any(not -n_layers <= i < n_layers for i in layers):
            raise ValueError(
                f"layers {list(layers)} of {n_layers} hidden states: there is no such layer (0 is "
                "the embeddings)"
            )
        chosen_states = [hidden_states[i] for i in layers]
        _require_states(chosen_states)
        if self.keep_padding:
            return torch.cat([h.flatten(0, 1) for h in chosen_states])
        if positions is not None:
            self._require_positions(positions, chosen_states[0])
            return torch.cat([h.flatten(0, 1).index_select(0, positions) for h in chosen_states])
        is_token = self._token_mask(attention_mask, chosen_states[0].shape[:2])
        return torch.cat([h[is_token.to(h.device)] for h in chosen_states])

    def _require_positions(self, positions: torch.Tensor, states: torch.Tensor) -> None:
        """Check positions of tokens; with `validate` also their values."""
        _require_tensor(positions, "positions")
        if positions.dtype not in (torch.int32, torch.int64) or positions.ndim != 1:
            raise ValueError(
                "positions must be integers (int64) of shape (tokens,), got "
                f"{positions.dtype} of shape {tuple(positions.shape)}"
            )
        if positions.device != states.device:
            raise ValueError(
                f"positions are on {positions.device}, the hidden states on {states.device}: move "
                "one of them"
            )
        n = states.shape[0] * states.shape[1]
        if self.validate and not bool(((positions >= 0) & (positions < n)).all()):
            raise ValueError(f"positions must lie between 0 and {n - 1}, for {n} tokens")

    @staticmethod
    def _token_mask(attention_mask: torch.Tensor | None, expected: torch.Size) -> torch.Tensor:
        """Check an attention mask, and return it as a mask of type bool."""
        if attention_mask is None:
            raise ValueError(
                "pass attention_mask, or keep_padding=True to count padding as tokens, as the "
                "authors do"
            )
        _require_tensor(attention_mask, "attention_mask")
        if attention_mask.shape != expected:
            shape = tuple(attention_mask.shape)
            raise ValueError(f"attention_mask must have shape {tuple(expected)}, got {shape}")
        is_token = attention_mask.bool()
        if not bool((attention_mask == is_token).all()):
            lowest, highest = attention_mask.min().item(), attention_mask.max().item()
            raise ValueError(
                "attention_mask must be 1 for tokens and 0 for padding, got values from "
                f"{lowest:g} to {highest:g}; for an additive mask, pass attention_mask == 0"
            )
        return is_token


def _are_layers(layers: object) -> bool:
    """Return whether an argument is a sequence of layer numbers, at least one."""
    if isinstance(layers, str) or not isinstance(layers, Sequence) or not layers:
        return False
    return all(isinstance(i, Integral) and not isinstance(i, bool) for i in layers)


def _require_tensor(values: object, name: str) -> None:
    """Raise a TypeError for what is not a tensor: converted, it would have no gradient."""
    if not isinstance(values, torch.Tensor):
        raise TypeError(f"{name} must be a torch tensor, got {type(values).__name__}")
    require_dense(values, name)


def _count_layers(hidden_states: object) -> int:
    """Return the number of layers of hidden states."""
    is_stack = isinstance(hidden_states, torch.Tensor) and hidden_states.ndim > 0
    if is_stack or isinstance(hidden_states, list | tuple):
        return len(hidden_states)  # type: ignore[arg-type]
    raise TypeError(
        "hidden_states must be a sequence of tensors (B, T, d), or one tensor (L, B, T, d), got "
        f"{type(hidden_states).__name__}; of a model's output, pass output.hidden_states"
    )


def _require_states(states: list[torch.Tensor]) -> None:
    """Check the hidden states of the chosen layers: tensors of one shape on one device."""
    first = states[0]
    for h in states:
        _require_tensor(h, "hidden states")
        if h.ndim != 3:
            raise ValueError(f"hidden states must have shape (B, T, d), got {tuple(h.shape)}")
        if not h.is_floating_point():
            raise TypeError(f"hidden states must be floating-point numbers, got {h.dtype}")
        if h.shape != first.shape or h.device != first.device:
            raise ValueError(
                "hidden states must have one shape and device, got "
                f"{tuple(first.shape)} on {first.device} and {tuple(h.shape)} on {h.device}"
            )


def _require_strength(strength: float) -> None:
    """Raise a ValueError if the factor of a penalty is not a finite number."""
    if not isinstance(strength, Real) or not math.isfinite(strength):
        raise ValueError(f"strength must be a finite number, got {reprlib.repr(strength)}")


class IStarLoss(_HiddenStatePenalty):
    """I-STAR: strength * (1 - IsoScore*(tokens, zeta, Sigma_S)), equation of section 3.

    A positive strength (lambda in the paper) raises isotropy, a negative one lowers it.

    Sigma_S is estimated from token vectors of training data: call `reset_shrinkage()`, then
    `update_shrinkage(...)` batch by batch. The authors do so at the start of every epoch, in eval
    mode, with 250,000 token vectors. The estimate is saved with the module's state.

    Args:
        d: dimension of the hidden states.
        strength: factor of the penalty, lambda in the paper.
        zeta: weight of Sigma_S, in [0, 1].
        layers: "all" for all layers except the embedding layer, as the authors do, or layer numbers
            (0 is the embedding layer).
        keep_padding: count padding positions as tokens, as the authors do.
        validate: as in `isotropy.metrics.isoscore_star`: False for a loop on a GPU that checks the
            penalty itself, now and then.

    Examples:
        >>> loss = IStarLoss(d=4, strength=1.0, zeta=0.2)
        >>> hidden_states = tuple(torch.randn(8, 16, 4) for _ in range(3))
        >>> mask = torch.ones(8, 16)
        >>> loss.reset_shrinkage()
        >>> loss.update_shrinkage(hidden_states, mask)
        256
        >>> 0 <= loss(hidden_states, mask).item() <= 1
        True
    """

    def __init__(
        self,
        d: int,
        *,
        strength: float,
        zeta: float = 0.2,
        layers: Literal["all"] | Sequence[int] = "all",
        keep_padding: bool = False,
        validate: bool = True,
    ) -> None:
        super().__init__(strength, layers, keep_padding, validate)
        require_share(zeta)
        self.zeta = zeta
        self.shrinkage = StreamingCovariance(d)
        self._cached_shrinkage: tuple[object, ShrinkageCovariance] | None = None

    def reset_shrinkage(self) -> None:
        """Discard the estimate of Sigma_S."""
        self.shrinkage.reset()

    @torch.no_grad()
    def update_shrinkage(
        self,
        hidden_states: HiddenStates,
        attention_mask: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
    ) -> int:
        """Add a batch to the estimate of Sigma_S; returns the number of token vectors in the
        estimate.
        """
        self.shrinkage.update(self.tokens(hidden_states, attention_mask, positions))
        return int(self.shrinkage.n)

    def penalty(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the penalty of token vectors, shape (n, d).

        Raises:
            ValueError: Sigma_S not estimated yet for zeta > 0; token vectors all equal, NaN or
                infinite.
        """
        shrinkage = None
        if self.zeta > 0:
            buffer = self.shrinkage.scatter
            # Identifies the estimate: torch counts in-place changes of a tensor in `_version`.
            estimate_key = (id(buffer), buffer._version, tokens.device)
            if self._cached_shrinkage is None or self._cached_shrinkage[0] != estimate_key:
                if int(self.shrinkage.n) < 2:
                    raise ValueError(
                        "zeta > 0 needs a shrinkage covariance: call update_shrinkage on training "
                        "batches first"
                    )
                # Cached beyond an evaluation: it must also be usable in training.
                with torch.inference_mode(False), torch.no_grad():
                    covariance = self.shrinkage.covariance().to(tokens.device)
                    self._cached_shrinkage = (estimate_key, ShrinkageCovariance(covariance))
            shrinkage = self._cached_shrinkage[1]
        score = isoscore_star(tokens, self.zeta, shrinkage, validate=self.validate)
        return _isotropy_penalty(self.strength, score, tokens)


def _isotropy_penalty(
    strength: float, score: float | torch.Tensor, tokens: torch.Tensor
) -> torch.Tensor:
    """strength * (1 - score), in the dtype of the tokens; float32 for half precision."""
    penalty: torch.Tensor = strength * (1 - score)  # type: ignore[assignment]
    return penalty.to(
        tokens.dtype if tokens.dtype in (torch.float32, torch.float64) else torch.float32
    )


class UnbiasedIsoScoreLoss(_HiddenStatePenalty):
    """strength * (1 - IsoScore without bias), of the same tokens as I-STAR.

    I-STAR needs Sigma_S because IsoScore of the tokens of a batch is too low. The score without
    bias is not, so there is nothing to estimate from other batches.

    Args:
        strength: factor of the penalty: positive raises isotropy, negative lowers it.
        layers: as in `IStarLoss`.
        keep_padding: count padding positions as tokens. Equal points are not independent, and lower
            the score.
        validate: as in `isotropy.metrics.isoscore_unbiased`.
    """

    def __init__(
        self,
        *,
        strength: float,
        layers: Literal["all"] | Sequence[int] = "all",
        keep_padding: bool = False,
        validate: bool = True,
    ) -> None:
        super().__init__(strength, layers, keep_padding, validate)

    def penalty(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the penalty of token vectors, shape (n, d).

        Raises:
            ValueError: fewer than four token vectors, all equal, NaN or infinite.
        """
        score = isoscore_unbiased(tokens, validate=self.validate)
        return _isotropy_penalty(self.strength, score, tokens)


class CosRegLoss(_HiddenStatePenalty):
    """CosReg: strength * (sum over i != j of cos(x_i, x_j)) / N^2 over the N tokens of the batch
    (Rudman & Eickhoff 2024).

    The division is by N^2, not by the N (N - 1) pairs, as in the authors' code.

    Args:
        strength: factor of the penalty; 1 in the paper.
        layers: layer numbers, by default the last layer as in the paper, or "all" for all layers
            except the embedding layer.
        keep_padding: count padding positions as tokens, as the authors do.
        validate: look at the values of the tokens, for which a GPU must be waited for. Without it
            the penalty is NaN where it would be an error.

    Examples:
        >>> tokens = torch.tensor([[[1.0, 0.0], [1.0, 0.0]]])
        >>> CosRegLoss()((tokens,), torch.ones(1, 2)).item()
        0.5
    """

    def __init__(
        self,
        *,
        strength: float = 1.0,
        layers: Literal["all"] | Sequence[int] = (-1,),
        keep_padding: bool = False,
        validate: bool = True,
    ) -> None:
        super().__init__(strength, layers, keep_padding, validate)

    def penalty(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the penalty of token vectors, shape (n, d).

        Raises:
            ValueError: no token left; token vectors NaN or infinite.
        """
        if not len(tokens):
            raise ValueError("no token is left: the attention mask is 0 everywhere")
        tokens = tokens if tokens.dtype == torch.float64 else tokens.float()
        tokens = scaled(tokens) if self.validate else tokens
        norms = torch.linalg.vector_norm(tokens, dim=1, keepdim=True)
        # A zero vector has no direction: neither a cosine nor a gradient
        unit_vectors = tokens / torch.where(norms > 0, norms, torch.inf)
        n = len(unit_vectors)
        return (
            self.strength
            * (unit_vectors.sum(dim=0).square().sum() - unit_vectors.square().sum())
            / n**2
        )


Penalty = IStarLoss | UnbiasedIsoScoreLoss | CosRegLoss
"""Any of the penalties."""
