"""Deviations between the numbers in two files of the same format."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOLERANCE = 1e-4
"""Maximum deviation of an element within tolerance, relative to the larger of its own magnitude and
the array's root mean square. Float32 on another device or with other kernels differs by a few units
of the seventh digit per operation, and an encoder has thousands of operations in sequence."""
SIGNIFICANCE_LEVEL = 0.01
"""Significance level of the two-sample tests by which results count as statistically equal, for all
arrays together (Bonferroni)."""
MIN_TEST_SIZE = 20
"""Minimum size of an array for the test to have any power; smaller arrays must agree within
SMALL_ARRAY_TOLERANCE."""
SMALL_ARRAY_TOLERANCE = 0.1


class Deviation(NamedTuple):
    """The largest deviation in a file."""

    where: str
    """Name of the file, and of the array or column."""
    relative: float
    """Largest |a - b| / max(|a|, root mean square of a); infinite where shapes, texts or infinities
    differ."""
    p_values: list[float]
    """p-value of the Kolmogorov-Smirnov test for each array; 0 or 1 where it cannot be applied."""


def largest_deviation(before: Path, after: Path) -> Deviation | None:
    """Compare the numbers of two Parquet, safetensors or JSON files. None if they have another
    format, or one does not exist.
    """
    arrays = _pairs(before, after)
    if arrays is None:
        return None
    worst, where, p_values = 0.0, "", []
    for name, (x, y) in arrays.items():
        deviation = _relative_deviation(x, y)
        p_values.append(_p_value(x, y, deviation))
        if deviation >= worst:
            worst, where = deviation, f"{before.name}, {name}"
    return Deviation(where, worst, p_values)


def deviations(before: Path, after: Path) -> dict[str, float] | None:
    """Compare each array or column of two files: name -> relative deviation, as in `Deviation`;
    infinite where only one file has it. None as in `largest_deviation`.
    """
    arrays = _pairs(before, after)
    if arrays is None:
        return None
    return {name: _relative_deviation(x, y) for name, (x, y) in arrays.items()}


def agree(determinism: str, deviations: Sequence[Deviation]) -> bool:
    """Return whether deviations are within what a class of determinism allows."""
    if determinism == "statistical":
        p_values = [p for d in deviations for p in d.p_values]
        return all(p * len(p_values) >= SIGNIFICANCE_LEVEL for p in p_values)
    return all(d.relative <= TOLERANCE for d in deviations)


def _pairs(
    before: Path, after: Path
) -> dict[str, tuple[np.ndarray | None, np.ndarray | None]] | None:
    """Read the arrays of two files, by name in alphabetical order; None as in
    `largest_deviation`.
    """
    if not (before.is_file() and after.is_file()):
        return None
    x, y = _arrays(before), _arrays(after)
    if x is None or y is None:
        return None
    return {name: (x.get(name), y.get(name)) for name in sorted(x.keys() | y.keys())}


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


def _p_value(x: np.ndarray | None, y: np.ndarray | None, deviation: float) -> float:
    """Return the p-value of two arrays that deviate by so much, as in `Deviation`."""
    from scipy.stats import ks_2samp

    if x is None or y is None or deviation in (0, np.inf):
        return float(deviation == 0)
    a, b = (v[np.isfinite(v)] for v in (x.astype(np.float64), y.astype(np.float64)))
    if len(a) < MIN_TEST_SIZE:
        return float(deviation <= SMALL_ARRAY_TOLERANCE)
    return float(ks_2samp(a, b).pvalue)


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
