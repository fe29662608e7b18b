"""Read the layout of model folders of transformers and sentence-transformers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, format_value
from isotropy.files import read_json

DEFAULT_MAX_LENGTH = 512
"""Longest text in tokens, where neither the model nor its tokenizer states one."""


class Layout(NamedTuple):
    """The layout of a model folder of transformers or sentence-transformers.

    Attributes:
        transformer: the folder with config.json and weights.
        pooling: how sentence-transformers pools token vectors; None: the folder does not say.
        normalize: whether sentence-transformers divides the pooled vector by its norm.
        max_length: longest text in tokens; None: the folder does not say.
        left_out: further modules of sentence-transformers, which are not applied to hidden layers.
    """

    transformer: Path
    pooling: str | None
    normalize: bool
    max_length: int | None
    left_out: tuple[str, ...]


def read_layout(folder: Path, weights: Sequence[str] | None = None) -> Layout:
    """Read the layout of a model's folder.

    Args:
        folder: the folder.
        weights: names of the complete model's files, where the folder lacks some; None: the files
            in the folder.

    Raises:
        IsotropyError: no configuration, no weights that can be read safely, a model that needs
            custom code, or invalid JSON.
    """
    modules = _read_json(folder / "modules.json") if (folder / "modules.json").is_file() else []
    if not isinstance(modules, list) or not all(isinstance(m, dict) for m in modules):
        raise IsotropyError(f"{folder / 'modules.json'}: expected a list of modules")
    kinds = {str(m.get("type", "")).rpartition(".")[2]: str(m.get("path", "")) for m in modules}
    transformer = folder / kinds.get("Transformer", "")
    _require_model(transformer, weights)
    pooling = _pooling(folder / kinds["Pooling"]) if "Pooling" in kinds else None
    return Layout(
        transformer,
        pooling,
        "Normalize" in kinds,
        _max_length(transformer),
        tuple(kind for kind in kinds if kind not in ("Transformer", "Pooling", "Normalize")),
    )


def _read_json(path: Path) -> Any:
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise IsotropyError(f"{path}: expected JSON: {error}") from None


def _require_model(folder: Path, complete: Sequence[str] | None) -> None:
    """Refuse a folder that is no model, or whose model can be read only by running its code."""
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    suffixes = {Path(name).suffix for name in complete or names}
    if not (folder / "config.json").is_file() and not any(folder.glob("*.gguf")):
        raise IsotropyError(f"{folder}: expected a model, got a folder without config.json")
    if (folder / "config.json").is_file():
        config = _read_json(folder / "config.json")
        if not isinstance(config, dict):
            raise IsotropyError(f"{folder / 'config.json'}: expected an object with fields")
        require_supported(folder, config)
    if suffixes & {".safetensors", ".gguf"}:
        return
    if suffixes & {".bin", ".pt"}:
        raise IsotropyError(
            f"{folder}: its weights are pickled (pytorch_model.bin), which is never read here: "
            "convert them once where you trust them, by transformers' "
            "save_pretrained(…, safe_serialization=True), or take a revision with model.safetensors"
        )
    raise IsotropyError(f"{folder}: no weights (model.safetensors) in the folder")


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
    if kind not in CONFIG_MAPPING:
        raise IsotropyError(
            f"{folder}: config.json: model_type {format_value(kind)} is not in transformers"
        )


def _pooling(folder: Path) -> str:
    """How sentence-transformers pools: newer versions write a name, older ones flags."""
    config = _read_json(folder / "config.json") if (folder / "config.json").is_file() else {}
    name = str(config.get("pooling_mode", ""))
    flags = {
        "pooling_mode_mean_tokens": "mean",
        "pooling_mode_cls_token": "cls",
        "pooling_mode_lasttoken": "last",
    }
    on = [key for key, value in config.items() if key.startswith("pooling_mode_") and value]
    if not name and len(on) == 1:
        name = flags.get(on[0], on[0].removeprefix("pooling_mode_"))
    return {"lasttoken": "last"}.get(name, name or "mean")


def _max_length(folder: Path) -> int | None:
    """Longest text in tokens, as declared in the folder."""
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        config = _read_json(folder / name) if (folder / name).is_file() else {}
        value = config.get(key) if isinstance(config, dict) else None
        if isinstance(value, int) and 3 <= value < 10**6:
            return value
    return None
