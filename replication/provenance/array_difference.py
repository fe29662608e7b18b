"""Deviations between the numbers in two files of the same format."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

TOLERANCE = 1e-4
"""Maximum deviation of an element within tolerance, relative to the larger of its own magnitude and
the array's root mean square. Float32 on another device or with other kernels differs by a few units
of the seventh digit per operation, and an encoder has thousands of operations in sequence."""


def largest_differences(before: Path, after: Path) -> dict[str, float] | None:
    """Compare each array or column of two Parquet, safetensors or JSON files: name -> largest
    |a - b| / max(|a|, root mean square of a); infinite where shapes, texts or infinities differ, or
    only one file has it. None if the files have another format, or one does not exist.
    """
    if not (before.is_file() and after.is_file()):
        return None
    x, y = _arrays(before), _arrays(after)
    if x is None or y is None:
        return None
    return {n: _relative_deviation(x.get(n), y.get(n)) for n in sorted(x.keys() | y.keys())}


def _relative_deviation(x: np.ndarray | None, y: np.ndarray | None) -> float:
    """Compute the largest relative deviation of two arrays. Unequal texts deviate infinitely."""
    if x is None or y is None or x.shape != y.shape:
        return np.inf
    if not (np.issubdtype(x.dtype, np.number) and np.issubdtype(y.dtype, np.number)):
        return 0.0 if bool((x.astype(str) == y.astype(str)).all()) else np.inf
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    finite = np.isfinite(a)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(b[finite]).all()
    ):
        return np.inf
    a, b = a[finite], b[finite]
    if np.array_equal(a, b):
        return 0.0
    scale = np.maximum(np.abs(a), np.sqrt(np.mean(a**2)))
    return float((np.abs(a - b) / np.where(scale > 0, scale, 1.0)).max())


def _arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Read the arrays or columns of a file, by name; None for other formats."""
    if path.suffix == ".parquet":
        import pandas as pd

        table = pd.read_parquet(path)
        return {str(name): _as_array(column) for name, column in table.items()}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return dict(load_file(path))
    if path.suffix == ".json":
        return {
            name: np.array(value) for name, value in _leaves(json.loads(path.read_text("utf8")))
        }
    return None


def _as_array(column: Any) -> np.ndarray:
    """Return the values of a column; of one with texts, lists or objects, all as text."""
    if column.dtype != object:
        return np.asarray(column)
    texts = [v if isinstance(v, str) else json.dumps(v, default=_plain) for v in column]
    return np.array(texts, dtype=object)


def _plain(value: Any) -> Any:
    """Return a value of numpy as one that JSON has; others as text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if isinstance(value, dict):
        return [
            leaf
            for key, item in value.items()
            for leaf in _leaves(item, f"{path}.{key}" if path else key)
        ]
    if isinstance(value, list):
        return [leaf for i, item in enumerate(value) for leaf in _leaves(item, f"{path}[{i}]")]
    return [(path, value if isinstance(value, int | float | str) else str(value))]
