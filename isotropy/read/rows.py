"""One value per row: texts, and the classes that rows belong to, from a file or from Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from datetime import date, time
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any

import numpy as np
import torch

from isotropy.errors import IsotropyError, first_line, format_value
from isotropy.metrics.validation import require_dense


def list_values(values: Any, name: str) -> list[Any]:
    """Return values of rows as objects of Python.

    Args:
        values: a list or tuple, or a column of NumPy, torch, pandas, polars or Arrow, shape (n,) or
            (n, 1).
        name: name of the values in messages.

    Raises:
        IsotropyError: not one value per row, in an order.
    """
    if len(getattr(values, "column_names", ())) == 1:  # of Arrow
        values = values.column(0)
    is_single = isinstance(values, str | bytes | Mapping | Set)
    if is_single or not isinstance(values, Iterable) or getattr(values, "shape", None) == ():
        raise IsotropyError(f"{name}: expected one per row, got {format_value(values)}")
    shape: Sequence[int] = getattr(values, "shape", ())
    if len(shape) > 1 and shape[1:] != (1,):
        raise IsotropyError(
            f"{name}: expected one per row, got an array of the shape {tuple(shape)}"
        )
    try:
        if len(shape) > 1:
            values = np.asarray(values)[:, 0]
        if isinstance(values, torch.Tensor):
            values = require_dense(values, name).detach().cpu()
    except ValueError as error:
        raise IsotropyError(first_line(error)) from None
    for method in ("to_pylist", "to_list", "tolist"):  # of Arrow, frames, arrays
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    return [value.item() if getattr(value, "shape", None) == () else value for value in values]


def require_texts(title: str, values: Sequence[object]) -> list[str]:
    """Return texts, at least two.

    Raises:
        IsotropyError: a value that is not a string, an empty text, or fewer than two.
    """
    for number, text in enumerate(values, start=1):
        if not isinstance(text, str):
            raise IsotropyError(
                f"{title}: text {number}: expected a text, got {format_value(text)}"
            )
        if not text.strip():
            raise IsotropyError(f"{title}: text {number} is empty: leave it out")
    if len(values) < 2:
        raise IsotropyError(f"{title}: expected at least 2 texts, got {len(values)}")
    return [str.__str__(text) for text in values]


def class_keys(title: str, name: str, values: Sequence[object]) -> np.ndarray:
    """Return the classes of rows as texts, which are equal where the values are: those of 1, 1.0
    and True, but not that of "1".

    Args:
        title: what the values are called in messages.
        name: what one of them is called.
        values: shape (n,).

    Raises:
        IsotropyError: a missing value, or one that is not a class, as a list.
    """
    keys: dict[object, str] = {}
    result = []
    for number, value in enumerate(values, start=1):
        try:
            key = keys.get(value)
            is_missing = _is_missing(value)
        except (TypeError, ValueError, RuntimeError):  # a list, an array, a tensor
            raise IsotropyError(
                f"{title}: {name} {number}: expected a number or a text, got {format_value(value)}"
            ) from None
        if is_missing:
            raise IsotropyError(f"{title}: {name} {number} is missing")
        if key is None:
            key = keys[value] = _class_key(value)
        result.append(key)
    return np.array(result)


def _is_missing(value: object) -> bool:
    """Return whether a value is None, empty, or one of the kinds of NaN."""
    if value is None or type(value).__name__ == "NAType":  # of pandas, which has no truth value
        return True
    return (isinstance(value, str) and not value) or bool(value != value)


def _class_key(value: object) -> str:
    if isinstance(value, str):
        return f"text {str.__str__(value)}"
    if isinstance(value, Real | Decimal):
        try:
            return f"number {Fraction(value)}"  # type: ignore[arg-type]
        except (OverflowError, ValueError, TypeError):
            return f"number {value}"  # infinite, or of more than double precision
    if isinstance(value, date | time):
        return f"time {value.isoformat()}"
    return f"{type(value).__name__} {value!r}"
