"""Deviations: how far the numbers in two files of one kind lie apart."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOLERANCE = 1e-4
"""Largest deviation within tolerance: of an element, relative to the larger of its own magnitude
and the array's root mean square. Float32 on another device or with other kernels loses a few units
of the seventh digit per operation, and an encoder has thousands in a row."""
LEVEL = 0.01
"""Level of the two-sample test by which statistically equal results may differ, over all arrays
together (Bonferroni)."""
FEWEST = 20
"""Values that an array needs for the test to tell anything; smaller ones must be within
STATISTICAL_RANGE."""
STATISTICAL_RANGE = 0.1


class Deviation(NamedTuple):
    """The largest deviation in a file."""

    where: str
    """File and array or column."""
    relative: float
    """Largest |a - b| / max(|a|, root mean square of a); infinite where shapes, texts or infinities
    differ."""
    p_values: list[float]
    """Of Kolmogorov and Smirnov's test, per array that has enough values; 0 or 1 for the others."""


def largest_deviation(before: Path, after: Path) -> Deviation | None:
    """Compare the numbers of two Parquet, safetensors or JSON files; None: not files of numbers, or
    one is not there.
    """
    if not (before.is_file() and after.is_file()):
        return None
    x, y = _arrays(before), _arrays(after)
    if x is None or y is None:
        return None
    worst, where, p_values = 0.0, "", []
    for name in sorted(x.keys() | y.keys()):
        deviation, p = _compare(x.get(name), y.get(name))
        p_values.append(p)
        if deviation >= worst:
            worst, where = deviation, f"{before.name}, {name}"
    return Deviation(where, worst, p_values)


def agree(determinism: str, deviations: Sequence[Deviation]) -> bool:
    """Whether deviations are what a job of a determinism class may have."""
    if determinism == "statistical":
        p_values = [p for d in deviations for p in d.p_values]
        return all(p * len(p_values) >= LEVEL for p in p_values)
    return all(d.relative <= TOLERANCE for d in deviations)


def _compare(x: np.ndarray | None, y: np.ndarray | None) -> tuple[float, float]:
    """Relative deviation and p-value. Texts are equal or infinitely far."""
    from scipy.stats import ks_2samp

    if x is None or y is None or x.shape != y.shape:
        return np.inf, 0.0
    if not (np.issubdtype(x.dtype, np.number) and np.issubdtype(y.dtype, np.number)):
        same = bool((x.astype(str) == y.astype(str)).all())
        return (0.0, 1.0) if same else (np.inf, 0.0)
    a, b = x.astype(np.float64).ravel(), y.astype(np.float64).ravel()
    finite = np.isfinite(a)
    if (
        not np.array_equal(a[~finite], b[~finite], equal_nan=True)
        or not np.isfinite(b[finite]).all()
    ):
        return np.inf, 0.0
    a, b = a[finite], b[finite]
    if np.array_equal(a, b):
        return 0.0, 1.0
    scale = np.maximum(np.abs(a), np.sqrt(np.mean(a**2)))
    apart = float((np.abs(a - b) / np.where(scale > 0, scale, 1.0)).max())
    if len(a) < FEWEST:
        return apart, float(apart <= STATISTICAL_RANGE)
    return apart, float(ks_2samp(a, b).pvalue)


def _arrays(path: Path) -> dict[str, np.ndarray] | None:
    """Arrays or columns of a file, by name; None if it is of another kind."""
    if path.suffix == ".parquet":
        import pandas as pd

        table = pd.read_parquet(path)
        return {str(name): column.to_numpy() for name, column in table.items()}
    if path.suffix == ".safetensors":
        from safetensors.numpy import load_file

        return dict(load_file(path))
    if path.suffix == ".json":
        return {
            name: np.array(value) for name, value in _leaves(json.loads(path.read_text("utf8")))
        }
    return None


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
