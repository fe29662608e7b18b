"""Refuse model folders that cannot be read safely: pickled weights, code of a model's own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError, format_value
from isotropy.files import read_json

PICKLED = (
    "its weights are pickled (pytorch_model.bin), which is never read here: convert them once "
    "where you trust them, by save_pretrained, or take a revision with model.safetensors"
)


def read_valid_json(path: Path) -> Any:
    """Read a JSON file of a model.

    Raises:
        IsotropyError: it is not valid JSON.
    """
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise IsotropyError(f"{path}: expected JSON: {error}") from None


TOKENIZER_FILES = ("merges", "sentencepiece", "source.spm", "spiece", "tokenizer.", "vocab")
"""How the names of files begin that hold a tokenizer."""


def require_model(folder: Path, complete: Sequence[str] | None) -> None:
    """Refuse a folder that is no model, or whose model can be read only by running its code."""
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    suffixes = {Path(name).suffix for name in complete or names}
    if not (folder / "config.json").is_file() and not any(folder.glob("*.gguf")):
        raise IsotropyError(f"{folder}: expected a model, got a folder without config.json")
    if "adapter_config.json" in names:
        raise IsotropyError(
            f"{folder}: it has an adapter (adapter_config.json): merge it into the model by PEFT's "
            "merge_and_unload, and save that"
        )
    if ".gguf" not in suffixes and not any(name.startswith(TOKENIZER_FILES) for name in names):
        raise IsotropyError(f"{folder}: no tokenizer: save the model's own into the same folder")
    if (folder / "config.json").is_file():
        config = read_valid_json(folder / "config.json")
        if not isinstance(config, dict):
            raise IsotropyError(f"{folder / 'config.json'}: expected an object with fields")
        require_supported(folder, config)
    if suffixes & {".safetensors", ".gguf"}:
        _require_shards(folder, complete or names)
        return
    if suffixes & {".bin", ".pt"}:
        raise IsotropyError(f"{folder}: {PICKLED}")
    raise IsotropyError(f"{folder}: no weights (model.safetensors) in the folder")


def _require_shards(folder: Path, names: Sequence[str]) -> None:
    """Refuse a folder that lacks a file of weights which its index lists."""
    path = folder / "model.safetensors.index.json"
    if not path.is_file() or "model.safetensors" in names:
        return
    index = read_valid_json(path)
    listed = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(listed, dict):
        raise IsotropyError(f"{path}: expected a weight_map")
    held = {Path(name).name for name in names}
    if missing := sorted({str(name) for name in listed.values()} - held):
        raise IsotropyError(f"{folder}: no {missing[0]}, which {path.name} lists")


def require_supported(folder: Path, config: dict[str, Any]) -> None:
    """Refuse a model that is not one of transformers.

    Raises:
        IsotropyError: the configuration names code of the model's own, also where its type is known
            (the weights would fit, and mean something else), or its type is not in transformers.
    """
    from transformers import CONFIG_MAPPING

    kind = config.get("model_type")
    if "auto_map" in config:
        raise IsotropyError(
            f"{folder}: the model needs code of its own (auto_map), which is never run here: embed "
            "with it yourself and measure the vectors, saved by numpy.save"
        )
    if config.get("quantization_config") is not None:
        raise IsotropyError(
            f"{folder}: its weights are quantized (quantization_config): save the model in single "
            "or half precision"
        )
    if kind not in CONFIG_MAPPING:
        raise IsotropyError(
            f"{folder}: config.json: model_type {format_value(kind)} is not in transformers"
        )
