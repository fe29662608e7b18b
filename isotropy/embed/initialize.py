"""A model of the same architecture as another, with fresh weights: a control for training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer


def initialize(like: Path, seed: int, folder: Path) -> None:
    """Write a model that differs from another in its weights alone, which transformers draws as it
    does before pre-training.

    Args:
        like: folder of the other model: safetensors, or GGUF.
        seed: of the weights.
        folder: where the model goes, empty.
    """
    gguf = next(like.glob("*.gguf"), None)
    packed: dict[str, Any] = {"local_files_only": True}
    if gguf is not None:
        packed["gguf_file"] = gguf.name
        AutoTokenizer.from_pretrained(like, **packed).save_pretrained(folder)
    else:
        for file in sorted(like.glob("tokenizer*.json")):
            shutil.copyfile(file, folder / file.name)
    config = AutoConfig.from_pretrained(like, **packed)
    torch.manual_seed(seed)
    AutoModel.from_config(config, dtype=torch.float32).save_pretrained(folder)
