"""Embed texts with a model: one point cloud per hidden layer, stored in files on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from isotropy.errors import IsotropyError, format_value
from isotropy.measure.clouds import PointCloud, StoredArray, cloud_from_file
from isotropy.sources.encoder import Encoder
from isotropy.sources.model_folder import DEFAULT_MAX_LENGTH, Layout, read_layout

if TYPE_CHECKING:
    from isotropy.embed.sentence_encoder import SentenceEncoder

Pooling = Literal["mean", "cls", "last", "tokens"]
TOKENS_PER_BATCH = 2048
BATCHES_AT_ONCE = 16
"""Batches whose states are in memory together, for one layer; fewer for several layers."""


class Embedded(NamedTuple):
    """Texts that a model has embedded.

    Attributes:
        clouds: a point cloud per layer.
        texts: for each row, the number of its text.
        types: for each row, its word piece; None where rows are whole texts.
        notes: sentences for the user.
    """

    clouds: list[PointCloud]
    texts: np.ndarray
    types: np.ndarray | None
    notes: list[str]


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
        pooling: how token vectors become the row of a text; "tokens": no pooling, a row per token
            without special ones; None: as the model's folder says, else mean.
        device: auto, cpu or cuda.
        work: folder for the files of the layers.
    """
    layout = read_layout(folder)
    mode, normalize = _resolve_pooling(title, layout, pooling)
    encoder = _load(title, layout, device)
    numbers = _parse_layers(title, layers, encoder.n_layers)
    pieces = encoder.tokenize_pieces(texts)
    kept = [np.flatnonzero(np.array(special) == 0) for special in pieces.special]
    counts = np.array([len(k) if mode == "tokens" else 1 for k in kept])
    starts = np.concatenate([[0], np.cumsum(counts)])
    shape = (int(starts[-1]), encoder.dim)
    if shape[0] < 2:
        raise IsotropyError(f"{title}: the texts have {shape[0]} tokens besides special ones")
    name, single = f"{len(list(work.iterdir()))}.layer", np.dtype(np.float32)
    stored = [StoredArray(work / f"{name}{layer}", single, 0, shape) for layer in numbers]
    for i, rows in _encode(encoder, pieces.ids, numbers):
        for array, states in zip(stored, rows, strict=True):
            vectors = states[kept[i]] if mode == "tokens" else _pool(states, mode)
            norms = np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else np.float32(1)
            array.write(int(starts[i]), vectors / np.where(norms == 0, 1, norms))
    types = None
    if mode == "tokens":
        ids = np.concatenate([np.array(r)[k] for r, k in zip(pieces.ids, kept, strict=True)])
        types = np.array(encoder.tokenizer.convert_ids_to_tokens(ids.tolist()))
    return Embedded(
        [cloud_from_file(title, n, array) for n, array in zip(numbers, stored, strict=True)],
        np.repeat(np.arange(len(texts)), counts),
        types,
        _notes(layout, encoder, mode, normalize, pieces.ids),
    )


def _resolve_pooling(title: str, layout: Layout, requested: Pooling | None) -> tuple[str, bool]:
    """How to pool, and whether to normalize: as requested, else as the model does."""
    if requested is not None:
        return requested, False
    declared = layout.pooling or "mean"
    if declared not in get_args(Pooling):
        raise IsotropyError(
            f"{title}: the model pools by {format_value(declared)}, which is not supported: "
            "choose with --pooling mean, cls, last or tokens"
        )
    return declared, layout.normalize


def _load(title: str, layout: Layout, device: str) -> SentenceEncoder:
    import torch  # noqa: F401  heavy: only where a model is read

    from isotropy.device import pick_device
    from isotropy.embed.sentence_encoder import SentenceEncoder

    settings = Encoder(pooling="mean", normalize=False, max_length=3)
    try:
        encoder = SentenceEncoder(layout.transformer, settings, pick_device(device))
        has_positions = hasattr(encoder.config, "max_position_embeddings")
        length = layout.max_length or (encoder.longest if has_positions else DEFAULT_MAX_LENGTH)
        max_length = min(length, encoder.longest)
        encoder.encoder = settings.model_copy(update={"max_length": max_length})
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


def _parse_layers(title: str, requested: list[str] | None, n: int) -> list[int]:
    """Parse the option --layers into numbers of hidden layers."""
    if requested is None:
        return [n]
    if requested == ["all"]:
        return list(range(n + 1))
    layers = []
    for text in requested:
        try:
            layer = int(text)
        except ValueError:
            raise IsotropyError(
                f"{title}: --layers: expected numbers or all, got {text!r}"
            ) from None
        if not -n - 1 <= layer <= n:
            raise IsotropyError(f"{title}: --layers: expected 0 to {n}, got {layer}")
        layers.append(layer % (n + 1))
    return layers


def _encode(encoder: SentenceEncoder, ids: list[list[int]], layers: list[int]) -> Any:
    """Yield the number of each text and, per layer, its token vectors, shape (tokens, d)."""
    from tqdm import tqdm

    from isotropy.embed.batches import batches
    from isotropy.embed.sentence_encoder import map_batches

    workers = os.cpu_count() or 1
    batch_list = batches([len(row) for row in ids], TOKENS_PER_BATCH)
    step = max(workers, BATCHES_AT_ONCE // len(layers))
    with tqdm(total=len(ids), unit="text", disable=not sys.stderr.isatty(), desc="embed") as bar:
        for first in range(0, len(batch_list), step):
            chunk = batch_list[first : first + step]
            encoded = map_batches(
                lambda batch: encoder.encode_tokens([ids[i] for i in batch], layers),
                chunk,
                workers,
                encoder.device,
            )
            for batch, states in zip(chunk, encoded, strict=True):
                token_ends = np.cumsum([len(ids[i]) for i in batch])
                for k, i in enumerate(batch):
                    rows = slice(int(token_ends[k]) - len(ids[i]), int(token_ends[k]))
                    yield i, [layer[rows].numpy() for layer in states]
            bar.update(sum(map(len, chunk)))


def _pool(states: np.ndarray, mode: str) -> np.ndarray:
    """Pool the token vectors of a text into one vector, shape (1, d)."""
    if mode == "cls":
        return states[:1]
    if mode == "last":
        return states[-1:]
    mean: np.ndarray = states.mean(axis=0, keepdims=True)
    return mean


def _notes(
    layout: Layout,
    encoder: SentenceEncoder,
    mode: str,
    normalize: bool,
    ids: list[list[int]],
) -> list[str]:
    unit = ", normalized to length 1" if normalize else ""
    row_note = "one row per token" if mode == "tokens" else f"pooled by {mode}{unit}"
    longest = encoder.encoder.max_length
    n_cut = sum(len(row) >= longest for row in ids)
    notes = [f"{row_note}; texts of at most {longest} tokens"]
    if n_cut:
        notes[0] += f", {n_cut} of {len(ids)} reach that or are cut"
    if unused := encoder.weights.get("unused"):
        notes.append(f"not used: {len(unused)} weights of the file, the first is {unused[0]}")
    if layout.left_out:
        notes.append(f"not applied to hidden layers: {', '.join(layout.left_out)}")
    return notes
