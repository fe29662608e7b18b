"""Point clouds of a model: hidden layers of texts, embedded into files on disk."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from isotropy.errors import IsotropyError, shown
from isotropy.measure.clouds import PointCloud, StoredArray, of_file
from isotropy.sources.encoder import Encoder
from isotropy.sources.model_folder import LONGEST, Layout, read_layout

if TYPE_CHECKING:
    from isotropy.embed.sentence_encoder import SentenceEncoder

Pooling = Literal["mean", "cls", "last", "tokens"]
TOKENS_PER_BATCH = 2048
BATCHES_AT_ONCE = 16
"""Of one layer; their states are in memory."""


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
