"""Models of many architectures with a few thousand random weights and one tokenizer, saved by
transformers; and what `isotropy measure` makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import AutoConfig, AutoModel, PreTrainedTokenizerFast

from isotropy.models.hidden_states import Embedded, ModelOptions, embed_texts

WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "ran", "far", "and", "not", "good", "film"]
POSITIONS = {"max_position_embeddings": 40}
HEADS = {"num_hidden_layers": 2, "num_attention_heads": 2}
ENCODER = {"hidden_size": 16, "intermediate_size": 32, **HEADS, **POSITIONS}
PARTS = {"encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 32, "decoder_ffn_dim": 32}
PARTS |= {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "decoder_start_token_id": 2}
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_decoder_layers": 1}
T5 |= {"num_heads": 2, "decoder_start_token_id": 0, "eos_token_id": 3}
DECODER = ENCODER | {"num_key_value_heads": 1, "head_dim": 8, "eos_token_id": 3, "bos_token_id": 2}
FUNNEL = {"architectures": ["FunnelModel"], "block_sizes": [1, 1], "block_repeats": [1, 1]}
INNER = {"d_model": 16, "n_head": 2, "d_inner": 32}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "albert": ENCODER | {"embedding_size": 8},
    "bart": {"d_model": 16, "eos_token_id": 3, **PARTS, **POSITIONS},
    "bert": ENCODER,
    "distilbert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, **POSITIONS},
    "electra": ENCODER | {"embedding_size": 8},
    "fnet": ENCODER,
    "funnel": {"num_decoder_layers": 1, "d_head": 8, **FUNNEL, **INNER},
    "gpt2": {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "llama": DECODER,
    "modernbert": ENCODER | {"global_attn_every_n_layers": 1},
    "mpnet": ENCODER,
    "qwen3": DECODER,
    "roberta": ENCODER,
    "t5": T5,
    "xlnet": {"n_layer": 2, **INNER},
}
"""The type of each model, and what makes it small."""


def write_tiny_tokenizer(folder: Path) -> dict[str, int]:
    """Write a tokenizer of whole words; return its vocabulary."""
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special_tokens = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep")}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special_tokens).save_pretrained(folder)
    return vocabulary


def write_tiny_model(kind: str, folder: Path, **fields: Any) -> Path:
    """Write a model of random weights, with further fields of its configuration; return its
    folder."""
    vocabulary = write_tiny_tokenizer(folder)
    common = {"vocab_size": len(vocabulary), "pad_token_id": vocabulary["[PAD]"]}
    settings = common | ARCHITECTURES[kind] | fields
    torch.manual_seed(0)
    AutoModel.from_config(AutoConfig.for_model(kind, **settings)).save_pretrained(folder)
    return folder


def write_tiny_bert(folder: Path) -> Path:
    """Write a BERT with random weights and two layers of 16 dimensions; return its folder."""
    return write_tiny_model("bert", folder, max_position_embeddings=32)


def sentences(n: int) -> list[str]:
    """Return texts of three to nine words of the tokenizer's vocabulary."""
    generator = torch.Generator().manual_seed(1)
    picks = torch.randint(len(WORDS), (n, 9), generator=generator).tolist()
    return [" ".join(WORDS[i] for i in row[: 3 + k % 7]) for k, row in enumerate(picks)]


def embedded(folder: Path, work: Path, texts: list[str], **options: Any) -> Embedded:
    """Return the vectors that a model gives for texts, on the CPU."""
    work.mkdir(exist_ok=True)
    chosen = ModelOptions(**({"device": "cpu"} | options))
    return embed_texts("m", folder, texts, chosen, work)


def vectors(result: Embedded) -> list[np.ndarray]:
    """Return all vectors of each layer."""
    return [cloud.rows(np.arange(cloud.n)) for cloud in result.clouds]


def change_json(path: Path, **fields: object) -> None:
    """Change fields of an object in a file of JSON."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def changed_config(**fields: object) -> Callable[[Path], object]:
    """Return the function that changes fields of a model folder's config.json."""
    return lambda folder: change_json(folder / "config.json", **fields)
