"""Point clouds of a model: hidden layers of texts, embedded into files on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from isotropy.errors import IsotropyError, shown
from isotropy.files import read_json
from isotropy.measure.clouds import PointCloud, StoredArray, of_file
from isotropy.sources.encoder import Encoder

if TYPE_CHECKING:
    from isotropy.embed.sentence_encoder import SentenceEncoder

Pooling = Literal["mean", "cls", "last", "tokens"]
TOKENS_PER_BATCH = 2048
BATCHES_AT_ONCE = 16
"""Of one layer; their states are in memory."""
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


class Embedded(NamedTuple):
    """What a model makes of texts.

    Attributes:
        clouds: one per layer.
        texts: of each row, the number of its text.
        types: of each row, its word piece; None for rows that are whole texts.
        notes: sentences for the user.
    """

    clouds: list[PointCloud]
    texts: np.ndarray
    types: np.ndarray | None
    notes: list[str]


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


def embed_texts(
    title: str,
    folder: Path,
    texts: Sequence[str],
    *,
    layers: list[str] | None,
    pooling: Pooling | None,
    device: str,
    work: Path,
) -> Embedded:
    """Embed texts into one file per layer.

    Args:
        title: what the user calls the model.
        folder: its files.
        texts: n strings.
        layers: numbers of hidden layers, 0 is the embedding layer, -1 the last; None: the last.
        pooling: of the tokens of a text; tokens: a row for each, special ones left out; None: as
            the model does, else mean.
        device: auto, cpu or cuda.
        work: folder for the files.
    """
    layout = read_layout(folder)
    how, normalize = _own_pooling(title, layout, pooling)
    encoder = _load(title, layout, device)
    chosen = _layers(title, layers, encoder.n_layers)
    pieces = encoder.tokenize_marked(texts)
    kept = [np.flatnonzero(np.array(special) == 0) for special in pieces.special]
    counts = np.array([len(k) if how == "tokens" else 1 for k in kept])
    starts = np.concatenate([[0], np.cumsum(counts)])
    shape = (int(starts[-1]), encoder.dim)
    if shape[0] < 2:
        raise IsotropyError(f"{title}: the texts have {shape[0]} tokens besides special ones")
    name, single = f"{len(list(work.iterdir()))}.layer", np.dtype(np.float32)
    stored = [StoredArray(work / f"{name}{layer}", single, 0, shape) for layer in chosen]
    for i, rows in _encoded(encoder, pieces.ids, chosen):
        for array, states in zip(stored, rows, strict=True):
            own = states[kept[i]] if how == "tokens" else _pooled(states, how)
            norms = np.linalg.norm(own, axis=1, keepdims=True) if normalize else np.float32(1)
            array.write(int(starts[i]), own / np.where(norms == 0, 1, norms))
    types = None
    if how == "tokens":
        ids = np.concatenate([np.array(r)[k] for r, k in zip(pieces.ids, kept, strict=True)])
        types = np.array(encoder.tokenizer.convert_ids_to_tokens(ids.tolist()))
    return Embedded(
        [of_file(title, layer, array) for layer, array in zip(chosen, stored, strict=True)],
        np.repeat(np.arange(len(texts)), counts),
        types,
        _notes(layout, encoder, how, normalize, pieces.ids),
    )


def _own_pooling(title: str, layout: Layout, wanted: Pooling | None) -> tuple[str, bool]:
    """How to pool, and whether to normalize: as the model does, unless it is said."""
    if wanted is not None:
        return wanted, False
    own = layout.pooling or "mean"
    if own not in get_args(Pooling):
        raise IsotropyError(
            f"{title}: the model pools by {shown(own)}, which is not known here: choose with "
            "--pooling mean, cls, last or tokens"
        )
    return own, layout.normalize


def _load(title: str, layout: Layout, device: str) -> SentenceEncoder:
    import torch  # noqa: F401  heavy: only where a model is read

    from isotropy.device import pick_device
    from isotropy.embed.sentence_encoder import SentenceEncoder

    settings = Encoder(pooling="mean", normalize=False, max_length=3)
    try:
        encoder = SentenceEncoder(layout.transformer, settings, pick_device(device))
        known = hasattr(encoder.config, "max_position_embeddings")
        wanted = layout.max_length or (encoder.longest if known else LONGEST)
        most = min(wanted, encoder.longest)
        encoder.encoder = settings.model_copy(update={"max_length": most})
        encoder.model  # noqa: B018  loads the weights, here rather than in a thread
    except IsotropyError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, ImportError, TypeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise IsotropyError(f"{title}: transformers cannot load it: {reason}") from None
    except Exception as error:  # safetensors and tokenizers have errors of their own
        if type(error).__module__.split(".")[0] not in (
            "builtins",
            "safetensors",
            "safetensors_rust",
        ):
            raise
        raise IsotropyError(f"{title}: transformers cannot load it: {error}") from None
    if not encoder.tokenizer.is_fast:
        raise IsotropyError(f"{title}: needs a tokenizer.json (a fast tokenizer)")
    return encoder


def _layers(title: str, wanted: list[str] | None, n: int) -> list[int]:
    """Numbers of hidden layers."""
    if wanted is None:
        return [n]
    if wanted == ["all"]:
        return list(range(n + 1))
    found = []
    for text in wanted:
        try:
            layer = int(text)
        except ValueError:
            raise IsotropyError(
                f"{title}: --layers: expected numbers or all, got {text!r}"
            ) from None
        if not -n - 1 <= layer <= n:
            raise IsotropyError(f"{title}: --layers: expected 0 to {n}, got {layer}")
        found.append(layer % (n + 1))
    return found


def _encoded(encoder: SentenceEncoder, ids: list[list[int]], layers: list[int]) -> Any:
    """Number of each text and, per layer, the states of its tokens, shape (tokens, d)."""
    from tqdm import tqdm

    from isotropy.embed.sentence_encoder import batches, map_batches

    workers = os.cpu_count() or 1
    cut = batches([len(row) for row in ids], TOKENS_PER_BATCH)
    step = max(workers, BATCHES_AT_ONCE // len(layers))
    with tqdm(total=len(ids), unit="text", disable=not sys.stderr.isatty(), desc="embed") as bar:
        for first in range(0, len(cut), step):
            part = cut[first : first + step]
            found = map_batches(
                lambda batch: encoder.encode_tokens([ids[i] for i in batch], layers),
                part,
                workers,
                encoder.device,
            )
            for batch, states in zip(part, found, strict=True):
                ends = np.cumsum([len(ids[i]) for i in batch])
                for k, i in enumerate(batch):
                    rows = slice(int(ends[k]) - len(ids[i]), int(ends[k]))
                    yield i, [layer[rows].numpy() for layer in states]
            bar.update(sum(map(len, part)))


def _pooled(states: np.ndarray, how: str) -> np.ndarray:
    """One vector of the tokens of a text, shape (1, d)."""
    if how == "cls":
        return states[:1]
    if how == "last":
        return states[-1:]
    mean: np.ndarray = states.mean(axis=0, keepdims=True)
    return mean


def _notes(
    layout: Layout,
    encoder: SentenceEncoder,
    how: str,
    normalize: bool,
    ids: list[list[int]],
) -> list[str]:
    unit = ", normalized to length 1" if normalize else ""
    what = "one row per token" if how == "tokens" else f"pooled by {how}{unit}"
    longest = encoder.encoder.max_length
    cut = sum(len(row) >= longest for row in ids)
    notes = [f"{what}; texts of at most {longest} tokens"]
    if cut:
        notes[0] += f", {cut} of {len(ids)} reach that or are cut"
    if layout.left_out:
        notes.append(f"not applied to hidden layers: {', '.join(layout.left_out)}")
    return notes
