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
    "big_bird": ENCODER | {"attention_type": "original_full"},
    "bloom": {"hidden_size": 16, "n_layer": 2, "n_head": 2},
    "camembert": ENCODER,
    "clip": {
        "text_config": ENCODER | {"eos_token_id": 3},
        "vision_config": ENCODER | {"image_size": 8, "patch_size": 4},
        "projection_dim": 8,
    },
    "convbert": ENCODER | {"embedding_size": 16},
    "data2vec-text": ENCODER,
    "deberta": ENCODER,
    "deberta-v2": ENCODER,
    "distilbert": {
        "dim": 16,
        "n_layers": 2,
        "n_heads": 2,
        "hidden_dim": 32,
        "max_position_embeddings": 40,
    },
    "electra": ENCODER | {"embedding_size": 8},
    "ernie": ENCODER,
    "esm": ENCODER | {"mask_token_id": 1, "position_embedding_type": "absolute"},
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
    "gemma": DECODER,
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "gpt_neo": {
        "hidden_size": 16,
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": 2,
        "max_position_embeddings": 40,
    },
    "gpt_neox": ENCODER,
    "ibert": ENCODER,
    "layoutlm": ENCODER,
    "led": ENCODER_DECODER
    | {
        "max_encoder_position_embeddings": 40,
        "max_decoder_position_embeddings": 40,
        "attention_window": 4,
    },
    "llama": DECODER,
    "longformer": ENCODER | {"attention_window": 4},
    "longt5": T5,
    "luke": ENCODER | {"entity_vocab_size": 4, "entity_emb_size": 8},
    "m2m_100": ENCODER_DECODER,
    "marian": ENCODER_DECODER,
    "mbart": ENCODER_DECODER,
    "megatron-bert": ENCODER,
    "mistral": DECODER,
    "mobilebert": ENCODER
    | {"embedding_size": 16, "intra_bottleneck_size": 16, "true_hidden_size": 16},
    "modernbert": ENCODER | {"global_attn_every_n_layers": 1},
    "mpnet": ENCODER,
    "mt5": T5,
    "nystromformer": ENCODER | {"num_landmarks": 4, "segment_means_seq_len": 4},
    "opt": {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "ffn_dim": 32,
        "max_position_embeddings": 40,
        "word_embed_proj_dim": 16,
    },
    "pegasus": ENCODER_DECODER,
    "prophetnet": {
        "hidden_size": 16,
        "num_encoder_layers": 2,
        "num_decoder_layers": 1,
        "num_encoder_attention_heads": 2,
        "num_decoder_attention_heads": 2,
        "encoder_ffn_dim": 32,
        "decoder_ffn_dim": 32,
        "max_position_embeddings": 40,
    },
    "qwen2": DECODER,
    "qwen3": DECODER,
    "rembert": ENCODER | {"input_embedding_size": 8, "output_embedding_size": 8},
    "roberta": ENCODER,
    "roberta-prelayernorm": ENCODER,
    "roformer": ENCODER | {"embedding_size": 16},
    "siglip": {
        "text_config": ENCODER,
        "vision_config": ENCODER | {"image_size": 8, "patch_size": 4},
    },
    "squeezebert": ENCODER | {"embedding_size": 16},
    "t5": T5,
    "umt5": T5,
    "xlm": {"emb_dim": 16, "n_layers": 2, "n_heads": 2, "max_position_embeddings": 40},
    "xlm-roberta": ENCODER,
    "xlm-roberta-xl": ENCODER,
    "xlnet": {"d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 32},
    "xmod": ENCODER | {"languages": ["en"], "default_language": "en"},
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
    settings = ARCHITECTURES[kind] | fields
    if "text_config" in settings:
        settings = settings | {"text_config": settings["text_config"] | common}
    else:
        settings = common | settings
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(kind, **settings)).save_pretrained(folder)
    return folder
