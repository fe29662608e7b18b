"""Estimate the memory that a job takes on a GPU, from the sizes of its model and of its batches.

Computed, not measured on a GPU. The bytes per value were counted on a CPU, as what autograd keeps
(docs/performance.md); `tests/unit/test_gpu_memory.py` counts them again on small models.
"""

from __future__ import annotations

from typing import Literal

from isotropy.models.batches import pick_token_budget
from replication.sources.sizes import ModelSize

Precision = Literal["float32", "bfloat16", "float16"]

CONTEXT = 0.5e9
"""Memory of a process that uses a GPU, before its first tensor: kernels and workspaces."""
BYTES_PER_WEIGHT = 16
"""In training: the weight, its gradient and Adam's two moments, in float32."""
ENCODER_BYTES, DECODER_BYTES = 68, 124
"""Bytes that training in float32 keeps for the backward pass, per token, layer and dimension:
counted 65 to 66 for BERT of 384 and 768 dimensions, and dropout adds masks of about 2; GPT-2
computes its activation function step by step and keeps 121. Attention by torch's fused kernels."""
HALF_PRECISION_SHARE = 0.65
"""The same in half precision: linear layers keep half, normalizations and residual sums do not."""
PENALTY_BYTES = 16
"""What a penalty adds per token, penalized layer and dimension: hidden states, which half precision
does not keep otherwise; these joined; these centred; and their gradient."""
LONGEST = 4
"""Longest text of a data set, as a multiple of the mean: 2 to 3 in classification tasks, up to 5 in
the Brown corpus."""


def n_parameters(model: ModelSize) -> float:
    """Parameters of a model, from its files in float32. Files of fewer bits state too few: at least
    those of its layers are counted, which is more than it has if layers share their weights.
    """
    return max(1e9 * model.gigabytes / 4, 1e6 * model.weights)


def kept_bytes(model: ModelSize) -> float:
    """Bytes that training in float32 keeps, per token, layer and dimension."""
    return model.kept_bytes or (DECODER_BYTES if model.causal else ENCODER_BYTES)


def training_memory(
    model: ModelSize, tokens: float, precision: Precision, penalized_layers: int
) -> float:
    """Memory of a training step, in bytes, without the context.

    Args:
        model: size of the model.
        tokens: tokens in the largest batch, padding included.
        precision: number format of the forward pass.
        penalized_layers: layers whose hidden states a penalty takes.
    """
    weights, kept = BYTES_PER_WEIGHT * n_parameters(model), kept_bytes(model)
    if precision != "float32":
        weights += 2e6 * model.weights  # the copies that linear layers multiply with
        kept *= HALF_PRECISION_SHARE
    per_token = model.width * (model.layers * kept + penalized_layers * PENALTY_BYTES)
    return weights + tokens * per_token


def encoding_memory(
    model: ModelSize, batch: int | Literal["auto"], dtype: Precision, n_states: int
) -> float:
    """Memory of encoding a batch without gradients, in bytes, without the context: what training
    keeps of one layer, which is up to twice as much, and the hidden states, with copies in float32.

    Args:
        model: size of the model.
        batch: tokens in a batch, padding included (`token_budget` of its spec).
        dtype: number format of the weights.
        n_states: hidden states that the model returns.
    """
    size = 4 if dtype == "float32" else 2
    tokens = pick_token_budget(batch, "cuda")
    per_token = model.width * (kept_bytes(model) * size / 4 + (size + 4) * n_states)
    return size * n_parameters(model) + tokens * per_token
