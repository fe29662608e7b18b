"""Read the layout of model folders of transformers and sentence-transformers; refuse those that
cannot be read safely: pickled weights, code of a model's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, first_line, format_value
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
    if "adapter_config.json" in names:
        raise IsotropyError(
            f"{folder}: it has an adapter (adapter_config.json): merge it into the model by PEFT's "
            "merge_and_unload, and save that"
        )
    if not (folder / "config.json").is_file():
        raise IsotropyError(f"{folder}: expected a model, got a folder without config.json")
    if not any(name.startswith(TOKENIZER_FILES) for name in names):
        raise IsotropyError(f"{folder}: no tokenizer: save the model's own into the same folder")
    config = read_valid_json(folder / "config.json")
    if not isinstance(config, dict):
        raise IsotropyError(f"{folder / 'config.json'}: expected an object with fields")
    from isotropy.models.loading import require_supported  # imports torch

    require_supported(folder, config)
    if ".safetensors" in suffixes:
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


DEFAULT_MAX_LENGTH = 512
"""Longest text in tokens, where neither the model nor its tokenizer states one."""

TRANSFORMER_SETTINGS = (
    *("config_args", "config_kwargs", "model_args", "model_kwargs"),
    *("processing_kwargs", "processor_kwargs", "tokenizer_args"),
)
"""Settings of a transformer in sentence-transformers that change what it gives."""


PLAIN_MODULES = ("Transformer", "Pooling", "Normalize", "Dropout")
"""Modules of sentence-transformers whose effect on hidden layers is applied, or none."""


class Layout(NamedTuple):
    """The layout of a model folder of transformers or sentence-transformers.

    Attributes:
        transformer: the folder with config.json and weights; None: a model of sentence-transformers
            without a transformer.
        modules: names of the modules of sentence-transformers, in order; None: not a model of it.
        pooling: how sentence-transformers pools token vectors, "mean+max" if it concatenates
            several; None: the folder does not say.
        normalize: whether sentence-transformers divides the pooled vector by its norm.
        max_length: longest text in tokens; None: the folder does not say.
        lower: whether sentence-transformers makes texts lower case.
        extras: what else sentence-transformers does to texts or vectors, for messages.
    """

    transformer: Path | None
    modules: tuple[str, ...] | None
    pooling: str | None
    normalize: bool
    max_length: int | None
    lower: bool
    extras: tuple[str, ...]


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
    if not (folder / "modules.json").is_file():
        require_model(folder, weights)
        return Layout(folder, None, None, False, _max_length(folder, {}), False, ())
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    modules = read_modules(folder)
    if weights is None:
        _require_no_pickle(folder)
    extras, pooling, transformer = _settings(folder), None, None
    config: dict[str, Any] = {}
    for kind, path in modules:
        if kind == "Transformer":
            require_model(transformer := folder / path, weights)
            config = _load_config(Transformer, folder, path)
        elif kind == "Pooling":
            pooling = join_modes(_load_config(Pooling, folder, path))
        elif kind not in PLAIN_MODULES:
            extras.append(f"module {kind}")
        extras += _name_settings(config) if kind == "Transformer" else []
    return Layout(
        transformer,
        tuple(kind for kind, _ in modules),
        pooling,
        any(kind == "Normalize" for kind, _ in modules),
        None if transformer is None else _max_length(transformer, config),
        bool(config.get("do_lower_case")),
        tuple(extras),
    )


def _load_config(module_class: Any, folder: Path, path: str) -> dict[str, Any]:
    """Read the configuration of a module of sentence-transformers, of any version, by itself."""
    try:
        config = module_class.load_config(str(folder), subfolder=path, local_files_only=True)
    except Exception as error:  # files that hold anything
        raise IsotropyError(
            f"{folder / path}: no configuration of a module: {first_line(error)}"
        ) from None
    return dict(config)


def read_modules(folder: Path) -> list[tuple[str, str]]:
    """Read the kinds and folders of the modules of a model of sentence-transformers.

    Raises:
        IsotropyError: not a list of modules, or one with a class of another package.
    """
    path = folder / "modules.json"
    modules = read_valid_json(path)
    if not isinstance(modules, list) or not all(isinstance(m, dict) for m in modules):
        raise IsotropyError(f"{path}: expected a list of modules")
    result = []
    for module in modules:
        kind = _kind(path, module.get("type"))
        if ".." in Path(inner := str(module.get("path", ""))).parts or Path(inner).is_absolute():
            raise IsotropyError(f"{path}: expected a path in the folder, got {format_value(inner)}")
        result.append((kind, inner))
    if not result:
        raise IsotropyError(f"{path}: expected a list of modules, got an empty one")
    return result


def _kind(path: Path, class_name: Any) -> str:
    """Return the name of a class of sentence-transformers without its package."""
    package, _, kind = str(class_name or "").rpartition(".")
    if package.split(".")[0] != "sentence_transformers":
        raise IsotropyError(
            f"{path}: module {format_value(class_name)} needs code of its own, which is never run "
            "here: embed with it yourself and measure the vectors, saved by numpy.save"
        )
    return kind


def _name_settings(config: dict[str, Any]) -> list[str]:
    """Name the settings of a transformer that change what it gives, for messages."""
    text = (config.get("modality_config") or {}).get("text") or {}
    usual = ("last_hidden_state", ["last_hidden_state"], None)
    names = [name for name in TRANSFORMER_SETTINGS if config.get(name)]
    if text.get("method_output_name") not in usual or text.get("method", "forward") != "forward":
        names.append("modality_config")
    return names


def _settings(folder: Path) -> list[str]:
    """Name what the settings of sentence-transformers do to texts and vectors.

    Raises:
        IsotropyError: the model gives scores of pairs or sparse vectors, not embeddings.
    """
    path = folder / "config_sentence_transformers.json"
    settings = read_valid_json(path) if path.is_file() else {}
    if not isinstance(settings, dict):
        raise IsotropyError(f"{path}: expected an object with fields")
    kind = settings.get("model_type", "SentenceTransformer")
    if kind != "SentenceTransformer":
        raise IsotropyError(
            f"{folder}: expected a SentenceTransformer, which gives a vector for a text, got "
            f"{format_value(kind)}"
        )
    result = []
    if (name := settings.get("default_prompt_name")) is not None:
        result.append(f"default prompt {format_value(name)}")
    if (d := settings.get("truncate_dim")) is not None:
        result.append(f"truncate_dim {d}")
    return result


def join_modes(config: dict[str, Any]) -> str:
    """Name the modes of pooling in a configuration of sentence-transformers."""
    modes = config.get("pooling_mode") or "mean"
    names = [modes] if isinstance(modes, str) else [str(mode) for mode in modes]
    return "+".join({"lasttoken": "last"}.get(name, name) for name in names)


def _require_no_pickle(folder: Path) -> None:
    """Refuse modules whose weights are a pickle only; sentence-transformers would read it."""
    for pickle in folder.rglob("pytorch_model.bin"):
        if not any(pickle.parent.glob("*.safetensors")):
            raise IsotropyError(f"{pickle.parent}: {PICKLED}")


def _max_length(folder: Path, config: dict[str, Any]) -> int | None:
    """Longest text in tokens, as the configuration of sentence-transformers or of the tokenizer
    declares it.
    """
    path = folder / "tokenizer_config.json"
    tokenizer = read_valid_json(path) if path.is_file() else {}
    for fields, key in ((config, "max_seq_length"), (tokenizer, "model_max_length")):
        value = fields.get(key) if isinstance(fields, dict) else None
        if (length := valid_length(value)) is not None:
            return length
    return None


def valid_length(value: Any) -> int | None:
    """Return the longest text in tokens that is declared; None: nothing, or a number that stands
    for no limit.
    """
    return value if isinstance(value, int) and 3 <= value < 10**6 else None
