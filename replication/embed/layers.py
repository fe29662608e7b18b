"""Storage of token vectors: one file per layer and a table of tokens, readable without a model.

A folder holds, for each layer, a file such as `layer06.safetensors` with the array `vectors`
(n, d), float32, and `tokens.parquet`, which describes each row: `text` (row of the text in the
table of texts), `position` in the text (special tokens included), `word` (index of the
whitespace-separated word of the text that the token belongs to; -1 for none), `id` and `piece` (its
number and its string in the vocabulary), `special` (whether the tokenizer has added it, such as
[CLS]) and `symbol` (whether it has neither letter nor digit). Rows are ordered by text and
position; there is no padding.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from safetensors import safe_open

TOKENS = "tokens.parquet"


def layer_file(layer: int) -> str:
    """Return the name of the file with the vectors of a layer."""
    return f"layer{layer:02d}.safetensors"


def create_layer(
    path: Path, shape: tuple[int, int], mark: str
) -> np.memmap[Any, np.dtype[np.float32]]:
    """Create a safetensors file with one float32 array and map it into memory, to be filled in
    place; the safetensors library itself can only write arrays that fit in memory.

    Args:
        path: file to create.
        shape: shape of the array.
        mark: identifier of the job's record, stored in the metadata.
    """
    size = 4 * shape[0] * shape[1]
    header = {
        "__metadata__": {"record": mark},
        "vectors": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
    }
    header_bytes = json.dumps(header).encode()
    header_bytes += b" " * (-len(header_bytes) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(header_bytes)) + header_bytes)
        stream.truncate(8 + len(header_bytes) + size)
    return np.memmap(
        path, dtype=np.dtype("<f4"), mode="r+", offset=8 + len(header_bytes), shape=shape
    )


def read_tokens(folder: Path) -> pd.DataFrame:
    """Read the table of tokens."""
    return pd.read_parquet(folder / TOKENS)


def read_layer(folder: Path, layer: int) -> np.ndarray:
    """Read the token vectors of a layer, shape (n, d), float32."""
    with safe_open(folder / layer_file(layer), framework="np") as file:
        vectors: np.ndarray = file.get_tensor("vectors")
    return vectors


def token_rows(offsets: np.ndarray, texts: Sequence[int] | np.ndarray) -> np.ndarray:
    """Return the rows of the table of tokens that belong to the given texts, text by text.

    Args:
        offsets: first row of each text, followed by the total number of rows.
        texts: indices of texts, repetitions allowed.
    """
    indices = np.asarray(texts)
    lengths = offsets[indices + 1] - offsets[indices]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    rows: np.ndarray = np.arange(int(lengths.sum())) + np.repeat(offsets[indices] - starts, lengths)
    return rows
