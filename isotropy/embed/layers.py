"""Files of token vectors: one per layer, and a table of tokens. Read without loading any model.

A folder holds `layer06.safetensors` with the array `vectors` (n, d), float32, for each layer, and
`tokens.parquet`, which says of each row: `text` (row of the table of texts), `position` in it
(special tokens included), `word` (which of the words between blanks of its text it is a piece of;
-1 for none), `id` and `piece` of the vocabulary, `special`: whether the tokenizer has added it,
such as [CLS], and `symbol`: whether it has neither letter nor digit. Rows are in the order of texts
and positions; there is no padding.
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
    """Name of the file of a layer."""
    return f"layer{layer:02d}.safetensors"


def create_layer(
    path: Path, shape: tuple[int, int], mark: str
) -> np.memmap[Any, np.dtype[np.float32]]:
    """A safetensors file of one float32 array, to be filled in place: the library itself writes
    only what memory holds.
    """
    size = 4 * shape[0] * shape[1]
    header = {
        "__metadata__": {"record": mark},
        "vectors": {"dtype": "F32", "shape": shape, "data_offsets": [0, size]},
    }
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        stream.truncate(8 + len(text) + size)
    return np.memmap(path, dtype=np.dtype("<f4"), mode="r+", offset=8 + len(text), shape=shape)


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
