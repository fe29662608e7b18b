"""The vector table of a spaCy pipeline: `vectors`, `key2row` and `strings.json`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from replication.sources.spec import Content
from replication.sources.vectors import StaticVectors


def read(_: Content, folder: Path) -> StaticVectors:
    """Rows in the order of frequency, each with the first word that maps to it."""
    import msgpack

    vectors = np.load(folder / "vectors", allow_pickle=False)
    strings = {
        murmur64(s.encode("utf8")): s
        for s in json.loads((folder / "strings.json").read_text("utf8"))
    }
    key2row = msgpack.unpackb((folder / "key2row").read_bytes(), strict_map_key=False)
    words: dict[int, str] = {}
    for key, row in key2row.items():
        # Later keys of a row are words that were pruned onto it: they have no vector of their own.
        if row not in words and key in strings:
            words[row] = strings[key]
    rows = sorted(words)
    return StaticVectors(
        [words[r] for r in rows], np.ascontiguousarray(vectors[rows], dtype=np.float32)
    )


def murmur64(data: bytes, seed: int = 1) -> int:
    """MurmurHash64A, which spaCy uses to key its strings."""
    m, mask = 0xC6A4A7935BD1E995, 0xFFFFFFFFFFFFFFFF
    h = (seed ^ (len(data) * m)) & mask
    whole = len(data) & ~7
    for i in range(0, whole, 8):
        k = int.from_bytes(data[i : i + 8], "little") * m & mask
        k = (k ^ (k >> 47)) * m & mask
        h = (h ^ k) * m & mask
    if len(data) > whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * m & mask
    h = (h ^ (h >> 47)) * m & mask
    return h ^ (h >> 47)
