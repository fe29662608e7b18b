"""The entry of a model, from its folder or from a hub: pooling, width, layers, digests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, shown
from isotropy.files import sha256_file
from isotropy.sources.model_folder import LONGEST, Layout, read_layout
from isotropy.sources.own.hub import Repository

NEEDED = ("config.json", "tokenizer.json", "tokenizer_config.json")


class Found(NamedTuple):
    """A model as it was found.

    Attributes:
        entry: for the registry, without its citation.
        about: sentences for the user.
    """

    entry: dict[str, Any]
    about: list[str]


def of_folder(folder: Path, name: str, pooling: str | None, licence: str | None) -> Found:
    """The entry of a model in a folder.

    Raises:
        IsotropyError: no model, or one that cannot be read safely.
    """
    layout = read_layout(folder)
    there = sorted(p.name for p in layout.transformer.iterdir() if p.is_file())
    files = _payload(str(folder), there)
    digests = {file: sha256_file(layout.transformer / file) for file in files}
    size = sum((layout.transformer / file).stat().st_size for file in files)
    origin = {"type": "file", "folder": str(layout.transformer.resolve()), "files": files}
    return _found(name, layout, digests, size, origin, pooling, licence or "not stated")


def of_hub(repository: Repository, name: str, pooling: str | None, licence: str | None) -> Found:
    """The entry of a model of a hub, whose weights are not downloaded where the hub says their
    digests.

    Raises:
        IsotropyError: no model, or one that cannot be read safely.
    """
    small = [f for f in repository.files if f.endswith((".json", ".txt", ".model", ".jinja"))]
    folder = repository.folder(small)
    layout = read_layout(folder, weights=list(repository.files))
    prefix = Path(os.path.relpath(layout.transformer, folder)).as_posix()
    prefix = "" if prefix == "." else f"{prefix}/"
    there = [f.removeprefix(prefix) for f in repository.files if f.startswith(prefix)]
    files = _payload(repository.id, there)
    digests = {file: repository.sha256(prefix + file) for file in files}
    size = sum(repository.files[prefix + file].size for file in files)
    origin = {
        "type": "hub",
        "repo": repository.id,
        "revision": repository.revision,
        "files": {file: prefix + file for file in files},
        "mirror": False,
    }
    own = licence or repository.licence or "not stated"
    return _found(name, layout, digests, size, origin, pooling, own)


def _payload(title: str, there: Iterable[str]) -> list[str]:
    """Files of a model that are needed, of those that it has."""
    names = sorted(there)
    if missing := [name for name in NEEDED if name not in names]:
        hint = " (a fast tokenizer: save it once more by transformers' AutoTokenizer)"
        raise IsotropyError(
            f"{title}: no {missing[0]}{hint if missing[0] == 'tokenizer.json' else ''}"
        )
    shards = [n for n in names if n.startswith("model") and n.endswith(".safetensors")]
    if "model.safetensors" in shards:
        return [*NEEDED, "model.safetensors"]
    index = "model.safetensors.index.json"
    if not shards or index not in names:
        raise IsotropyError(f"{title}: no weights (model.safetensors)")
    return [*NEEDED, index, *shards]


def _found(
    name: str,
    layout: Layout,
    digests: Mapping[str, str],
    size: int,
    origin: dict[str, Any],
    pooling: str | None,
    licence: str,
) -> Found:
    """The entry, from what the model's configuration says."""
    config, model = _architecture(layout.transformer)
    if config.is_encoder_decoder:
        raise IsotropyError(
            f"{name}: {shown(config.model_type)} is an encoder-decoder: the workflow "
            "reads encoders and decoders"
        )
    encoder = {
        "pooling": _pooling(name, layout, pooling),
        "normalize": layout.normalize,
        "max_length": min(layout.max_length or LONGEST, _positions(config)),
    }
    sizes = {
        "weights": _weights(model),
        "width": int(config.hidden_size),
        "layers": int(config.num_hidden_layers),
        "gigabytes": max(0.01, round(size / 1e9, 2)),
    }
    if causal := _is_decoder(config):
        sizes["causal"] = True
    if (positions := _positions(config)) < LONGEST:
        sizes["positions"] = positions
    content = {"status": "stand-in", "title": name, "expect": {"files": dict(digests)}}
    entry = {
        "kind": "model",
        "licence": licence,
        "size": sizes,
        "encoder": encoder,
        "contents": {"weights": content},
        "origins": [origin],
    }
    kind = "decoder" if causal else "encoder"
    about = [
        f"{kind} {shown(config.model_type)}, {sizes['layers']} layers of {sizes['width']}, "
        f"{sizes['weights']} M weights in them, {sizes['gigabytes']} GB",
        f"pooled by {encoder['pooling']}{', normalized' if layout.normalize else ''}, texts of at "
        f"most {encoder['max_length']} tokens",
    ]
    if layout.left_out:
        about.append(f"not applied to hidden layers: {', '.join(layout.left_out)}")
    return Found(entry, about)


def _architecture(folder: Path) -> tuple[Any, Any]:
    """The model's configuration, and the model that it describes, without weights.

    Raises:
        IsotropyError: it cannot, or it is none of a text model.
    """
    import torch
    from transformers import AutoConfig, AutoModel

    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            model = AutoModel.from_config(config)
        _positions(config)
    except Exception as error:  # transformers has errors of its own, of many classes
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise IsotropyError(f"{folder}: transformers cannot use config.json: {reason}") from None
    for field in ("hidden_size", "num_hidden_layers"):
        if not isinstance(getattr(config, field, None), int):
            raise IsotropyError(f"{folder}: config.json has no {field}: expected a text model")
    return config, model


def _pooling(name: str, layout: Layout, wanted: str | None) -> str:
    own = wanted or layout.pooling or "mean"
    if own not in ("mean", "cls"):
        raise IsotropyError(
            f"{name}: pools by {shown(own)}, which the workflow does not do: choose with --pooling "
            "mean or cls"
        )
    return own


def _positions(config: Any) -> int:
    """Tokens that a model has positions for, at most LONGEST."""
    from isotropy.embed.sentence_encoder import longest_text  # imports torch

    return min(LONGEST, longest_text(config))


def _weights(model: Any) -> float:
    """Multiplications that a token takes in the layers, in millions: weights besides embeddings,
    shared ones as often as they are used.
    """
    import torch

    tables = {id(m.weight) for m in model.modules() if isinstance(m, torch.nn.Embedding)}
    count = sum(p.numel() for p in model.parameters() if id(p) not in tables)
    if model.config.model_type == "albert":
        count *= model.config.num_hidden_layers
    found: float = round(count / 1e6, 3 if count < 1e6 else 1)
    return max(0.001, found)


def _is_decoder(config: Any) -> bool:
    from transformers import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_MASKED_LM_MAPPING

    kind = type(config)
    return kind in MODEL_FOR_CAUSAL_LM_MAPPING and kind not in MODEL_FOR_MASKED_LM_MAPPING
