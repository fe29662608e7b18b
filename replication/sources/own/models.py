"""Make the entry of a model in a folder or on a hub: pooling, width, layers, digests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, first_line, format_value, is_failure
from isotropy.files import sha256_file
from isotropy.models.folder import DEFAULT_MAX_LENGTH, Layout, read_layout
from replication.sources.own.hub import Repository

REQUIRED_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json")


class NewEntry(NamedTuple):
    """An entry for the registry, made from a model or from data.

    Attributes:
        entry: its fields, without the citation.
        about: sentences for the user.
    """

    entry: dict[str, Any]
    about: list[str]


def entry_from_folder(
    folder: Path, name: str, pooling: str | None, licence: str | None
) -> NewEntry:
    """Make the entry of a model in a folder.

    Raises:
        IsotropyError: no model, one that cannot be read safely, or one whose weights are not those
            of its configuration.
    """
    layout = read_layout(folder)
    transformer = _require_transformer(name, layout)
    names = sorted(p.name for p in transformer.iterdir() if p.is_file())
    files = _required_files(str(folder), names)
    digests = {file: sha256_file(transformer / file) for file in files}
    size = sum((transformer / file).stat().st_size for file in files)
    origin = {
        "type": "file",
        "content": "weights",
        "folder": str(transformer.resolve()),
        "files": {file: file for file in files},
    }
    new = _make_entry(name, layout, digests, size, origin, pooling, licence or "not stated")
    _run(name, transformer, new.entry)
    return new


def _require_transformer(name: str, layout: Layout) -> Path:
    if layout.transformer is None:
        raise IsotropyError(
            f"{name}: a model without a transformer ({', '.join(layout.modules or ())}): measure "
            "its output with `isotropy measure`"
        )
    return layout.transformer


def _run(name: str, folder: Path, entry: Mapping[str, Any]) -> None:
    """Load a model, and read two short texts with it.

    Raises:
        IsotropyError: its weights are not those of its configuration, it fails, or its hidden
            states are not what the workflow needs.
    """
    import torch

    from isotropy.models.encoder import Encoder
    from isotropy.models.sentence_encoder import SentenceEncoder

    encoder = Encoder.model_validate(entry["encoder"])
    try:
        hidden = SentenceEncoder(folder, encoder, torch.device("cpu")).inspect()
    except IsotropyError:
        raise
    except BaseException as error:  # transformers and tokenizers have errors of many classes
        if not is_failure(error):
            raise
        raise IsotropyError(f"{name}: the model cannot read a text: {first_line(error)}") from None
    size = entry["size"]
    if hidden.widths != [size["width"]] * (size["layers"] + 1):
        raise IsotropyError(
            f"{name}: the workflow needs {size['layers'] + 1} hidden layers with a vector of "
            f"{size['width']} dimensions per token; `isotropy measure` reads single layers"
        )
    if hidden.depend_on_padding:
        raise IsotropyError(
            f"{name}: its hidden states depend on the padding of texts, which the workflow adds; "
            "`isotropy measure` reads it without"
        )


def entry_from_hub(
    repository: Repository, name: str, pooling: str | None, licence: str | None
) -> NewEntry:
    """Make the entry of a model on a hub. Its weights are downloaded only if the hub does not state
    their digests.

    Raises:
        IsotropyError: no model, or one that cannot be read safely.
    """
    small = [f for f in repository.files if f.endswith((".json", ".txt", ".model", ".jinja"))]
    folder = repository.folder(small)
    layout = read_layout(folder, weights=list(repository.files))
    transformer = _require_transformer(name, layout)
    prefix = Path(os.path.relpath(transformer, folder)).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    names = [f.removeprefix(prefix) for f in repository.files if f.startswith(prefix)]
    files = _required_files(repository.id, names)
    digests = {file: repository.sha256(prefix + file) for file in files}
    size = sum(repository.files[prefix + file].size for file in files)
    origin = {
        "type": "hub",
        "content": "weights",
        "repo": repository.id,
        "repo_type": "model",
        "revision": repository.revision,
        "files": {file: prefix + file for file in files},
    }
    stated_licence = licence or repository.licence or "not stated"
    return _make_entry(name, layout, digests, size, origin, pooling, stated_licence)


def _required_files(title: str, available: Iterable[str]) -> list[str]:
    """Select those of a model's files that must be fetched."""
    names = sorted(available)
    if missing := [name for name in REQUIRED_FILES if name not in names]:
        hint = " (a fast tokenizer: load it by transformers' AutoTokenizer and save it again)"
        raise IsotropyError(
            f"{title}: no {missing[0]}{hint if missing[0] == 'tokenizer.json' else ''}"
        )
    shards = [n for n in names if n.startswith("model") and n.endswith(".safetensors")]
    if "model.safetensors" in shards:
        return [*REQUIRED_FILES, "model.safetensors"]
    index = "model.safetensors.index.json"
    if not shards or index not in names:
        raise IsotropyError(f"{title}: no weights (model.safetensors)")
    return [*REQUIRED_FILES, index, *shards]


def _make_entry(
    name: str,
    layout: Layout,
    digests: Mapping[str, str],
    size: int,
    origin: dict[str, Any],
    pooling: str | None,
    licence: str,
) -> NewEntry:
    """Make the entry from the model's configuration."""
    config, model = _architecture(_require_transformer(name, layout))
    encoder = {
        "pooling": _pooling(name, layout, pooling),
        "normalize": layout.normalize,
        "max_length": min(layout.max_length or DEFAULT_MAX_LENGTH, _positions(config)),
    }
    sizes = {
        "weights": _weights(model),
        "width": int(config.hidden_size),
        "layers": int(config.num_hidden_layers),
        "gigabytes": max(0.01, round(size / 1e9, 2)),
    }
    if causal := _is_decoder(config):
        sizes["causal"] = True
    if (positions := _positions(config)) < DEFAULT_MAX_LENGTH:
        sizes["positions"] = positions
    content = {"status": "stand-in", "title": name, "files": dict(digests)}
    entry = {
        "kind": "model",
        "licence": licence,
        "size": sizes,
        "encoder": encoder,
        "contents": {"weights": content},
        "origins": [origin],
    }
    kind = "decoder" if causal else "encoder"
    sentences = [
        f"{kind} {format_value(config.model_type)}, {sizes['layers']} layers of {sizes['width']}, "
        f"{sizes['weights']} M weights in them, {sizes['gigabytes']} GB",
        f"pooled by {encoder['pooling']}{', normalized' if layout.normalize else ''}, texts of at "
        f"most {encoder['max_length']} tokens",
    ]
    if layout.extras:
        sentences.append(f"not applied: {', '.join(layout.extras)}")
    return NewEntry(entry, sentences)


def _architecture(folder: Path) -> tuple[Any, Any]:
    """Load a model's configuration, and build the model that it describes, without weights.

    Raises:
        IsotropyError: transformers cannot use the configuration, or it is not one of a text model.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        _require_text_model(folder, config)
        with torch.device("meta"):
            model = AutoModel.from_config(config)
        _positions(config)
    except IsotropyError:
        raise
    except Exception as error:  # transformers has errors of its own, of many classes
        raise IsotropyError(
            f"{folder}: transformers cannot use config.json: {first_line(error)}"
        ) from None
    for field in ("hidden_size", "num_hidden_layers"):
        if not isinstance(getattr(config, field, None), int):
            raise IsotropyError(f"{folder}: config.json has no {field}: expected a text model")
    return config, model


def _require_text_model(folder: Path, config: Any) -> None:
    if config.is_encoder_decoder or config.get_text_config() is not config:
        raise IsotropyError(
            f"{folder}: {format_value(config.model_type)} has several parts: the workflow reads "
            "only encoders and decoders of texts"
        )


def _pooling(name: str, layout: Layout, requested: str | None) -> str:
    extras = [*layout.extras, *(["lower case"] if layout.lower else [])]
    if extras and requested is None:
        raise IsotropyError(
            f"{name}: the workflow does not apply {', '.join(extras)}, which belongs to the "
            "model's sentence vectors: measure them with `isotropy measure`, or choose --pooling "
            "mean or cls of the transformer alone"
        )
    pooling = requested or layout.pooling or "mean"
    if pooling not in ("mean", "cls"):
        raise IsotropyError(
            f"{name}: pools by {format_value(pooling)}, which the workflow does not support: "
            "choose with --pooling mean or cls"
        )
    return pooling


def _positions(config: Any) -> int:
    """Longest input of a model in tokens, at most DEFAULT_MAX_LENGTH."""
    from isotropy.models.sentence_encoder import max_input_tokens  # imports torch

    return min(DEFAULT_MAX_LENGTH, max_input_tokens(config))


def _weights(model: Any) -> float:
    """Multiplications that a token takes in the layers, in millions: weights besides embeddings,
    shared ones as often as they are used.
    """
    import torch

    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    count = sum(p.numel() for p in model.parameters() if id(p) not in tables)
    if model.config.model_type == "albert":
        count *= model.config.num_hidden_layers
    millions: float = round(count / 1e6, 3 if count < 1e6 else 1)
    return max(0.001, millions)


def _is_decoder(config: Any) -> bool:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
