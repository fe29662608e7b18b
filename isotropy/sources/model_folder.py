"""Folders of models, as transformers and sentence-transformers lay them out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, shown
from isotropy.files import read_json

LONGEST = 512
"""Tokens of a text, where neither the model nor its tokenizer says how many it reads."""


class Layout(NamedTuple):
    """A model's folder as transformers or sentence-transformers lay it out.

    Attributes:
        transformer: the folder with config.json and weights.
        pooling: how sentence-transformers makes a vector of a text; None: the folder does not say.
        normalize: whether it then divides by the norm.
        max_length: of a text, in tokens; None: the folder does not say.
        left_out: modules that follow and are not applied to hidden layers.
    """

    transformer: Path
    pooling: str | None
    normalize: bool
    max_length: int | None
    left_out: tuple[str, ...]


def read_layout(folder: Path, weights: Sequence[str] | None = None) -> Layout:
    """How a model's folder is laid out.

    Args:
        folder: the folder.
        weights: files that it would have if it were complete; None: those that are there.

    Raises:
        IsotropyError: no configuration, no weights that can be read safely, code of its own, or
            JSON that is none.
    """
    modules = _json(folder / "modules.json") if (folder / "modules.json").is_file() else []
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


def _json(path: Path) -> Any:
    try:
        return read_json(path)
    except (ValueError, RecursionError) as error:
        raise IsotropyError(f"{path}: expected JSON: {error}") from None


def _require_model(folder: Path, complete: Sequence[str] | None) -> None:
    """Stop for a folder that is no model, or one that could be read only by running its code."""
    names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
    suffixes = {Path(name).suffix for name in complete or names}
    if not (folder / "config.json").is_file() and not any(folder.glob("*.gguf")):
        raise IsotropyError(f"{folder}: expected a model, got a folder without config.json")
    if (folder / "config.json").is_file():
        config = _json(folder / "config.json")
        if not isinstance(config, dict):
            raise IsotropyError(f"{folder / 'config.json'}: expected an object with fields")
        _require_known(folder, config)
    if suffixes & {".safetensors", ".gguf"}:
        return
    if suffixes & {".bin", ".pt"}:
        raise IsotropyError(
            f"{folder}: its weights are pickled (pytorch_model.bin), which is never read here: "
            "convert them once where you trust them, by transformers' "
            "save_pretrained(…, safe_serialization=True), or take a revision with model.safetensors"
        )
    raise IsotropyError(f"{folder}: no weights (model.safetensors) in the folder")


def _require_known(folder: Path, config: dict[str, Any]) -> None:
    from transformers import CONFIG_MAPPING

    kind = config.get("model_type")
    if kind in CONFIG_MAPPING:
        return
    if "auto_map" in config:
        raise IsotropyError(
            f"{folder}: the model needs code of its own (auto_map), which is never run here: embed "
            "with it yourself and measure the vectors, saved by numpy.save"
        )
    raise IsotropyError(f"{folder}: config.json: model_type {shown(kind)} is not in transformers")


def _pooling(folder: Path) -> str:
    """How sentence-transformers pools: by the name that newer versions write, or by flags."""
    config = _json(folder / "config.json") if (folder / "config.json").is_file() else {}
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
    """Longest text that the folder declares, in tokens."""
    for name, key in (
        ("sentence_bert_config.json", "max_seq_length"),
        ("tokenizer_config.json", "model_max_length"),
    ):
        found = _json(folder / name) if (folder / name).is_file() else {}
        value = found.get(key) if isinstance(found, dict) else None
        if isinstance(value, int) and 3 <= value < 10**6:
            return value
    return None
