"""A BERT of a few thousand weights with its tokenizer, saved by transformers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WORDS = ["the", "a", "cat", "dog", "sat", "on", "mat", "ran", "far", "and", "not", "good", "film"]


def write_tiny_tokenizer(folder: Path) -> dict[str, int]:
    """Write a tokenizer of whole words; return its vocabulary."""
    vocabulary = {token: i for i, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special_tokens = {
        "pad_token": "[PAD]",
        "unk_token": "[UNK]",
        "cls_token": "[CLS]",
        "sep_token": "[SEP]",
    }
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special_tokens).save_pretrained(folder)
    return vocabulary


def write_tiny_bert(folder: Path, *, safe: bool = True) -> Path:
    """Write a BERT with random weights and two layers of 16 dimensions; return its folder.

    Args:
        folder: where to write it.
        safe: save weights as safetensors; otherwise as a pickle.
    """
    vocabulary = write_tiny_tokenizer(folder)
    torch.manual_seed(0)
    model = BertModel(
        BertConfig(
            vocab_size=len(vocabulary),
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
        )
    )
    model.save_pretrained(folder)
    if not safe:
        (folder / "model.safetensors").unlink()
        torch.save(model.state_dict(), folder / "pytorch_model.bin")
    return folder


def sentences(n: int) -> list[str]:
    """Return texts of three to nine words of the tokenizer's vocabulary."""
    generator = torch.Generator().manual_seed(1)
    picks = torch.randint(len(WORDS), (n, 9), generator=generator).tolist()
    return [" ".join(WORDS[i] for i in row[: 3 + k % 7]) for k, row in enumerate(picks)]


def changed_config(**fields: object) -> Callable[[Path], object]:
    """Return the function that changes fields of a model folder's config.json."""

    def change(folder: Path) -> object:
        path = folder / "config.json"
        return path.write_text(json.dumps(json.loads(path.read_text()) | fields))

    return change
