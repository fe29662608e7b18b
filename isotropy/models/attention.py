"""Attention that does not read its mask.

transformers drops an attention mask that hides nothing, since kernels without a mask are faster. To
find out, it reads the mask from the device in every forward pass, and a GPU is idle meanwhile. Here
a mask that is given is used; who has no padding passes none.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "sdpa_with_given_mask"


def avoid_reading_masks(model: Any) -> None:
    """Let a model of transformers that uses torch's attention take its mask as given.

    Args:
        model: changed in place; models with attention of their own stay as they are.
    """
    if model.config._attn_implementation == "sdpa":
        model.set_attn_implementation(NAME)


def _given_mask(*args: Any, attention_mask: torch.Tensor | None = None, **kwargs: Any) -> Any:
    if attention_mask is not None:
        kwargs |= {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    return sdpa_mask(*args, attention_mask=attention_mask, **kwargs)


AttentionInterface.register(NAME, sdpa_attention_forward)
AttentionMaskInterface.register(NAME, _given_mask)
