"""Models of many architectures with a few thousand random weights and one tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel

from tests.unit.tiny_models import write_tiny_tokenizer

ENCODER = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 40,
}
ENCODER_DECODER = {
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 40,
    "decoder_start_token_id": 2,
    "eos_token_id": 3,
}
T5 = {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_decoder_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
    "eos_token_id": 3,
}
DECODER = ENCODER | {"num_key_value_heads": 1, "head_dim": 8, "eos_token_id": 3, "bos_token_id": 2}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "albert": ENCODER | {"embedding_size": 8},
    "bart": ENCODER_DECODER,
    "bert": ENCODER,
    "distilbert": {
        "dim": 16,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 32,
        "max_position_embeddings": 40,
    },
    "electra": ENCODER | {"embedding_size": 8},
    "fnet": ENCODER,
    "funnel": {
        "architectures": ["FunnelModel"],
        "block_sizes": [1, 1],
        "block_repeats": [1, 1],
        "num_decoder_layers": 1,
        "d_model": 16,
        "n_head": 2,
        "d_head": 8,
        "d_inner": 32,
    },
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "llama": DECODER,
    "modernbert": ENCODER | {"global_attn_every_n_layers": 1},
    "mpnet": ENCODER,
    "qwen3": DECODER,
    "roberta": ENCODER,
    "t5": T5,
    "xlnet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32},
}
"""The type of each model, and what makes it small."""


def write_tiny_model(kind: str, folder: Path, **fields: Any) -> Path:
    """Write a model of random weights; return its folder.

    Args:
        kind: a key of ARCHITECTURES.
        folder: where to write it.
        fields: further fields of its configuration.
    """
    vocabulary = write_tiny_tokenizer(folder)
    common = {"vocab_size": len(vocabulary), "pad_token_id": vocabulary["[PAD]"]}
    settings = common | ARCHITECTURES[kind] | fields
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(kind, **settings)).save_pretrained(folder)
    return folder
