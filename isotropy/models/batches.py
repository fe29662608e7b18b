"""Batches of texts of similar length, and their padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

TOKEN_BUDGETS = {"cpu": 2048, "cuda": 16384}
"""Tokens in a batch, padding included: what stays in the cache of a processor, and what keeps a GPU
busy."""


def pick_token_budget(requested: int | Literal["auto"], device_type: str) -> int:
    """Return the maximum number of tokens in a batch on a device of a type, `cpu` or `cuda`."""
    return TOKEN_BUDGETS[device_type] if requested == "auto" else requested


def batches(
    lengths: Sequence[int], token_budget: int, *, same_length: bool = False
) -> list[list[int]]:
    """Group texts, shortest first, into batches of at most `token_budget` tokens, padding included
    (but at least one text); return the indices of the texts in each batch.

    Args:
        lengths: number of tokens of each text.
        token_budget: maximum number of tokens in a batch.
        same_length: put only texts of the same length into a batch, which needs no padding.
    """
    result: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: (lengths[i], i)):
        full = not result or lengths[i] * (len(result[-1]) + 1) > token_budget
        if full or (same_length and lengths[i] != lengths[result[-1][0]]):
            result.append([])
        result[-1].append(i)
    return result


def pad_rows(
    rows: Sequence[Sequence[int]], pad: int, length: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Pad rows of ids on the right, to `length` or to the longest row.

    Returns:
        The padded rows, and the attention mask, 1 for ids and 0 for padding; shape (rows, length)
        each, int64.
    """
    lengths = np.array([len(row) for row in rows])
    mask = np.arange(length or lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, pad, dtype=np.int64)
    padded[mask] = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    return padded, mask.astype(np.int64)
