"""Models with the architecture of another model and random weights: a control for pre-training."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModel, AutoTokenizer

from isotropy.models.sentence_encoder import find_gguf


def initialize(reference: Path, seed: int, folder: Path) -> None:
    """Write a model that differs from a reference model in its weights alone, which transformers
    initializes randomly, as before pre-training.

    Args:
        reference: folder of the reference model: safetensors, or GGUF.
        seed: random seed of the weights.
        folder: output folder, empty.
    """
    gguf = find_gguf(reference)
    load_options: dict[str, Any] = {"local_files_only": True}
    if gguf is not None:
        load_options["gguf_file"] = gguf.name
        AutoTokenizer.from_pretrained(reference, **load_options).save_pretrained(folder)
    else:
        for file in sorted(reference.glob("tokenizer*.json")):
            shutil.copyfile(file, folder / file.name)
    config = AutoConfig.from_pretrained(reference, **load_options)
    torch.manual_seed(seed)
    AutoModel.from_config(config, dtype=torch.float32).save_pretrained(folder)
