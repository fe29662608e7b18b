"""Token vectors: hidden states of chosen layers, streamed to disk.

A folder holds one file per layer, `layer06.safetensors` with the array `vectors` (n, d), float32, and `tokens.parquet`, which
says of each row: `text` (row of the table of texts), `position` in it (special tokens included), `id` and `piece` of the
vocabulary, and `special`: whether it is a special token such as [CLS]. Rows are in the order of texts and positions; there is
no padding. Memory holds one part, not the whole: texts are read in parts of PART_TOKENS tokens, each of which is kept until
all are there, so that a killed run goes on where it was.
"""

from __future__ import annotations

import json
import logging
import struct
import sys
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from tqdm import tqdm

from isotropy.embed.sentences import SentenceEncoder, batches, map_batches
from isotropy.errors import IsotropyError
from isotropy.files import atomic
from isotropy.parquet import write_parquet

log = logging.getLogger(__name__)

PART_TOKENS = 8192  # tokens between two saves; a killed job repeats at most this many
TOKENS = "tokens.parquet"


def extract(
    encoder: SentenceEncoder,
    texts: Sequence[str],
    *,
    layers: Sequence[int],
    token_budget: int,
    workers: int,
    work: Path,
    folder: Path,
    mark: str,
) -> dict[str, Any]:
    """Write the token vectors of texts.

    Args:
        encoder: the model.
        texts: n strings.
        layers: hidden layers.
        token_budget: most tokens in a batch.
        workers: threads on the CPU (a GPU is fed by one). Does not change the result.
        work: folder for finished parts.
        folder: where to write; it is there.
        mark: of the job's record, for the files.

    Returns:
        What was measured.

    Raises:
        IsotropyError: a layer that the model does not have, or a vector that is not finite.
    """
    started = perf_counter()
    if layers[-1] > encoder.n_layers:
        raise IsotropyError(f"layer {layers[-1]}: the model has hidden layers 0 to {encoder.n_layers}")
    ids, special = encoder.tokenize_marked(texts)
    lengths = np.array([len(row) for row in ids])
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    write_parquet(folder / TOKENS, _table(encoder, ids, special, lengths), mark)
    files = {
        f"layer{layer:02d}": _create(folder / layer_file(layer), (int(offsets[-1]), encoder.dim), mark) for layer in layers
    }
    parts = _parts([batch for batch in batches(lengths.tolist(), token_budget) if lengths[batch[0]]], lengths)
    work.mkdir(parents=True, exist_ok=True)
    fresh = 0
    with tqdm(total=int(offsets[-1]), unit="token", disable=not sys.stderr.isatty(), desc="tokens") as bar:
        for number, part in enumerate(parts):
            chosen = [i for batch in part for i in batch]
            file = work / f"part{number:06d}.safetensors"
            if not file.is_file():
                found = map_batches(
                    lambda batch: encoder.encode_tokens([ids[i] for i in batch], layers), part, workers, encoder.device
                )
                with atomic(file) as temporary:
                    columns = zip(*found, strict=True)
                    save_file({name: torch.cat(c) for name, c in zip(files, columns, strict=True)}, temporary)
                fresh += int(lengths[chosen].sum())
                if not sys.stderr.isatty() and number % 16 == 15:
                    log.info("part %d of %d", number + 1, len(parts))
            rows = token_rows(offsets, chosen)
            for name, vectors in load_file(file).items():
                if not bool(torch.isfinite(vectors).all()):
                    raise IsotropyError("the encoder gave vectors with NaN or infinity: check its weights and dtype")
                files[name][rows] = vectors.numpy()
            bar.update(len(rows))
    for array in files.values():
        array.flush()
    seconds = perf_counter() - started
    return {
        "device": str(encoder.device),
        "attention": str(encoder.model.config._attn_implementation),
        "texts": len(texts),
        "texts_as_long_as_the_encoder_reads": int((lengths >= encoder.encoder.max_length).sum()),
        "tokens": int(offsets[-1]),
        "tokens_taken_up_from_a_killed_run": int(offsets[-1]) - fresh,
        "tokens_per_second": round(fresh / seconds, 1),
    }


def layer_file(layer: int) -> str:
    """Name of the file of a layer."""
    return f"layer{layer:02d}.safetensors"


def read_tokens(folder: Path) -> pd.DataFrame:
    """The table of tokens."""
    return pd.read_parquet(folder / TOKENS)


def read_layer(folder: Path, layer: int) -> np.ndarray:
    """Token vectors of a layer, shape (n, d), float32."""
    with safe_open(folder / layer_file(layer), framework="np") as file:
        vectors: np.ndarray = file.get_tensor("vectors")
    return vectors


def token_rows(offsets: np.ndarray, texts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Rows of the tokens of some texts, one text after the other.

    Args:
        offsets: first row of each text, and the number of rows at the end.
        texts: which texts; one may occur again.
    """
    chosen = np.asarray(texts)
    lengths = offsets[chosen + 1] - offsets[chosen]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    rows: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(offsets[chosen] - starts, lengths)
    return rows


def _table(encoder: SentenceEncoder, ids: list[list[int]], special: list[list[int]], lengths: np.ndarray) -> pd.DataFrame:
    flat, marks = (np.fromiter(chain.from_iterable(x), dtype=np.int32, count=int(lengths.sum())) for x in (ids, special))
    seen, inverse = np.unique(flat, return_inverse=True)
    pieces: Any = encoder.tokenizer.convert_ids_to_tokens(seen.tolist())
    return pd.DataFrame(
        {
            "text": np.repeat(np.arange(len(ids), dtype=np.int32), lengths),
            "position": np.concatenate([np.arange(n, dtype=np.int32) for n in lengths]) if len(flat) else flat,
            "id": flat,
            "piece": pd.Categorical.from_codes(inverse.tolist(), categories=pd.Index(_distinct(pieces))),
            "special": marks.astype(bool),
        }
    )


def _distinct(pieces: list[str]) -> list[str]:
    """Names of vocabulary entries; one that two entries share gets a number."""
    seen: dict[str, int] = {}
    result = []
    for piece in pieces:
        seen[piece] = seen.get(piece, 0) + 1
        result.append(piece if seen[piece] == 1 else f"{piece}#{seen[piece]}")
    return result


def _parts(todo: list[list[int]], lengths: np.ndarray) -> list[list[list[int]]]:
    """Group consecutive batches into parts of about PART_TOKENS tokens."""
    parts: list[list[list[int]]] = []
    room = 0
    for batch in todo:
        if room <= 0:
            parts.append([])
            room = PART_TOKENS
        parts[-1].append(batch)
        room -= int(lengths[batch].sum())
    return parts


def _create(path: Path, shape: tuple[int, int], mark: str) -> np.memmap[Any, np.dtype[np.float32]]:
    """A safetensors file of one float32 array, to be filled in place: the library itself writes only what memory holds."""
    size = 4 * shape[0] * shape[1]
    header = {"__metadata__": {"record": mark}, "vectors": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + size)
    return np.memmap(path, dtype=np.dtype("<f4"), mode="r+", offset=8 + len(text), shape=shape)
