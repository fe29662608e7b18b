"""Checks and conversions of the input of all metrics.

Metrics accept numpy arrays, pandas frames and torch tensors on any device; they compute in torch.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
import torch

Points = Any  # np.ndarray | pd.DataFrame | torch.Tensor, shape (n, d)
ALIGNMENT = 64  # bytes: that of torch's allocations, and of AVX-512 vectors


def as_points(
    X: Points,
    *,
    min_points: int = 2,
    min_dims: int = 2,
    finite: bool = True,
    in_place: bool = False,
) -> torch.Tensor:
    """Return a point cloud as a floating tensor of shape (n, d), on the device it came from.

    With `finite=False` the check for NaN and infinity, which costs a pass over the data, is left to
    the caller. With `in_place=True` the cloud is not copied to aligned memory: for callers that
    copy it themselves before they pass it to matrix products (see `aligned`).

    Numbers are converted as by `as_numbers`.

    Raises:
        ValueError: not two-dimensional, too few points or dimensions, a value that is missing, NaN
            or infinite, or a tensor that is sparse or without values.
        TypeError: not numeric, or a masked array.
    """
    points = as_numbers(X, "points")
    if points.ndim != 2:
        raise ValueError(f"a point cloud must have shape (n, d), got {tuple(points.shape)}")
    n, d = points.shape
    if n < min_points or d < min_dims:
        raise ValueError(
            f"need at least {min_points} points and {min_dims} dimensions, got n = {n}, d = {d}"
        )
    if finite:
        require_finite(points)
    # The same values give the same score, whatever their layout and address in memory.
    return points.contiguous() if in_place else aligned(points)


def as_numbers(values: Any, name: str) -> torch.Tensor:
    """Return real numbers as a tensor of float32 or float64, on the device they came from.

    Half precision and 8 bits are widened to float32; integers, truth values and numbers that may be
    missing to float64 (a metric of truncated integers would be silently wrong). More than double
    precision is rounded to float64. What is missing is NaN.

    Raises:
        ValueError: rows of different length, a sparse matrix, or a tensor without values.
        TypeError: not real numbers, or a masked array.
    """
    if isinstance(values, torch.Tensor):
        numbers = require_dense(values, name)
    else:
        array = as_array(values, name)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
        # torch supports neither foreign byte orders nor negative strides nor read-only memory, and
        # may read numbers at unaligned addresses wrongly.
        dtype = np.dtype(np.float64) if array.dtype.char == "g" else array.dtype.newbyteorder("=")
        numbers = torch.from_numpy(np.require(array, dtype, ["C", "W", "A"]))
    if numbers.is_complex():
        raise TypeError(f"{name} must be real numbers, got complex numbers")
    if not numbers.is_floating_point():
        return numbers.double()
    return numbers if numbers.dtype in (torch.float32, torch.float64) else numbers.float()


def require_dense(values: torch.Tensor, name: str) -> torch.Tensor:
    """Return a tensor; raise a ValueError if it does not hold one value per element in memory."""
    for found, message in (
        (values.is_nested, "a nested tensor: pass .to_padded_tensor() without the padding rows"),
        (values.layout != torch.strided, "a sparse tensor: pass .to_dense()"),
        (values.is_quantized, "a quantized tensor: pass .dequantize()"),
        (values.is_meta, "on the meta device, which holds no values"),
        (str(values.dtype).endswith("_x2"), "pairs of 4-bit numbers in a byte: unpack them"),
    ):
        if found:
            raise ValueError(f"{name} are {message}")
    return values


def as_array(values: Any, name: str, dtype: Any = None) -> np.ndarray:
    """Return an array of any dtype, from a tensor or whatever NumPy can read. Half precision and 8
    bits of a tensor, which NumPy lacks, are widened to float32.

    Raises:
        ValueError: rows of different length, a sparse matrix, or a tensor without values.
        TypeError: a masked array.
    """
    _require_unmasked(values, name)
    if isinstance(values, torch.Tensor):
        tensor = require_dense(values.detach(), name)
        if tensor.is_floating_point() and tensor.dtype != torch.float64:
            tensor = tensor.float()
        array: np.ndarray = tensor.cpu().resolve_conj().resolve_neg().numpy()
        return array
    if hasattr(values, "toarray"):  # of SciPy
        raise ValueError(f"{name} are a sparse matrix: pass .toarray()")
    try:
        array = np.asarray(values, dtype=dtype)
    except (ValueError, TypeError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name} must be an array or rows of one length: {reason}") from error
    is_frame = getattr(values, "ndim", 0) == 2 and hasattr(values, "dtypes")
    if is_frame and array.dtype == object and all(c.kind in "fiub" for c in values.dtypes):
        # Numeric columns that differ in type, or hold pandas' NA
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    return array


def as_symmetric(values: Points, name: str) -> torch.Tensor:
    """Return a covariance or second moment, shape (d, d), as `as_points` does.

    Raises:
        ValueError: not square, not symmetric, zero, or with a negative variance.
    """
    S = as_points(values)
    if S.shape[0] != S.shape[1]:
        raise ValueError(f"{name} must have shape (d, d), got {tuple(S.shape)}")
    largest = S.detach().abs().amax()
    if not bool(largest > 0):
        raise ValueError(f"{name} must not be zero: the variance is zero")
    if not bool((S - S.T).detach().abs().amax() <= 1e-5 * largest):
        raise ValueError(f"{name} must be symmetric")
    if bool(S.detach().diagonal().amin() < -1e-5 * largest):
        raise ValueError(f"{name} must not have negative variances")
    return S


def require_dimensions(points: torch.Tensor, d: int) -> None:
    """Raise a ValueError if a batch of points does not fit a stream of d dimensions."""
    if points.shape[1] != d:
        raise ValueError(f"a batch of {points.shape[1]} dimensions does not fit a stream of {d}")


def require_same_dimensions(d: int, other: int) -> None:
    """Raise a ValueError if a stream of other dimensions is to be merged into one of d."""
    if other != d:
        raise ValueError(f"a stream of {other} dimensions does not fit one of {d}")


def require_size(value: Any, name: str) -> None:
    """Raise a ValueError if a number of dimensions is not a positive integer."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a positive integer, got {reprlib.repr(value)}")


def aligned(values: torch.Tensor) -> torch.Tensor:
    """Return the values contiguous in memory that starts at a multiple of ALIGNMENT, copied if
    necessary. Differentiable.

    MKL, behind torch's products on the CPU, sums in an order that depends on the address of its
    operands: the same numbers at another address give other last digits. Memory allocated by torch
    is aligned; memory allocated by NumPy, and the start of a view, may not be.
    """
    values = values.contiguous()
    if not values.is_cpu or values.data_ptr() % ALIGNMENT == 0:
        return values
    return values.clone()


def without_conversion(
    fn: Callable[[torch.Tensor], torch.Tensor],
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return what to pass to `torch.nn.Module._apply` instead of `fn`: tensors are moved to the
    device that it moves them to, but keep their dtype.
    """
    return lambda values: values.to(fn(values.new_empty(0)).device)


def require_finite(points: torch.Tensor) -> None:
    """Raise a ValueError that counts the points with NaN or infinity, if there are any."""
    # NaN if any value is; one pass, 15 times faster than isfinite
    smallest, largest = torch.aminmax(points.detach())
    if not bool(torch.isfinite(smallest) & torch.isfinite(largest)):
        n_bad = int((~torch.isfinite(points)).any(dim=1).sum())
        raise ValueError(
            f"{n_bad} of {len(points)} points hold NaN or infinity: a metric of them has no meaning"
        )


def coordinate_scale(points: torch.Tensor) -> float:
    """Return the number to divide a cloud by so that squares of its coordinates stay in the float
    range: 1, or if they do not, the power of two that makes the largest coordinate 1 to 2, so that
    the division is exact. Raises a ValueError for NaN or infinity.
    """
    smallest, largest = torch.stack(torch.aminmax(points.detach())).tolist()
    extent = max(-smallest, largest)
    if 1e-9 < extent < 1e9:
        return 1.0
    require_finite(points)
    return math.ldexp(0.5, math.frexp(extent)[1]) if extent else 1.0


def scaled(points: torch.Tensor) -> torch.Tensor:
    """Divide a cloud by a number that keeps squares of its coordinates in the float range: scores
    do not depend on scale.
    """
    scale = coordinate_scale(points)
    return points if scale == 1 else points / scale


def as_codes(labels: Any, n: int, *, name: str = "labels", min_classes: int = 2) -> torch.Tensor:
    """Return class codes 0..K-1, shape (n,), on the CPU.

    A two-dimensional input is a multi-label indicator matrix: each distinct row is one class
    (Mickus et al. 2024, 3.1).

    Raises:
        ValueError: wrong length, none, None, NaN or NA among the labels, fewer than `min_classes`
            classes, a sparse matrix, or a tensor without values.
        TypeError: a masked array, or labels that cannot be compared, such as numbers and strings.
    """
    array = _label_array(labels, name)
    if array.ndim not in (1, 2) or array.shape[0] != n:
        raise ValueError(f"{name} must have shape ({n},) or ({n}, n_labels), got {array.shape}")
    if not array.size:
        raise ValueError(f"{name} are empty, expected one per point")
    missing = _count_missing(array)
    if missing:
        raise ValueError(f"{missing} of {array.size} {name} are missing (None, NaN or NA)")
    try:
        _, codes = np.unique(array, axis=0 if array.ndim == 2 else None, return_inverse=True)
    except (TypeError, ValueError) as error:
        if array.ndim == 2:
            raise TypeError(f"an indicator matrix must be numeric, got {array.dtype}") from error
        raise TypeError(f"{name} must be of one type: {error}") from error
    codes = codes.reshape(-1)
    if codes.max() + 1 < min_classes:
        raise ValueError(f"at least {min_classes} classes are needed, but all {name} are equal")
    return torch.from_numpy(codes.astype(np.int64))


def _label_array(labels: Any, name: str) -> np.ndarray:
    """Return labels as an array of any dtype."""
    # In an array of strings, NaN would become the string "nan".
    holds_strings = isinstance(labels, list | tuple) and any(isinstance(x, str) for x in labels)
    return as_array(labels, name, object if holds_strings else None)


def _count_missing(array: np.ndarray) -> int:
    """Count None, NaN, NaT and pandas' NA."""
    if array.dtype.kind in "fcmM":
        return int((array != array).sum())
    return sum(map(_is_missing, array.flat)) if array.dtype.kind == "O" else 0


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, differs from itself, or is NA, of which neither is known."""
    if value is None or type(value).__name__ == "NAType":
        return True
    differs = value != value
    return isinstance(differs, bool | np.bool_) and bool(differs)


def _require_unmasked(values: Any, name: str) -> None:
    """Raise a TypeError for a masked array, whose mask NumPy drops silently."""
    if isinstance(values, np.ma.MaskedArray):
        raise TypeError(
            f"{name} are a masked array, and a mask has no meaning here: leave the masked rows out "
            "(np.ma.compress_rows), or take .data"
        )


def sample_rows(n: int, size: int, seed: int) -> torch.Tensor:
    """Sample row indices, shape (min(n, size),), from n without replacement, by NumPy's generator,
    in ascending order.
    """
    if size < 2:
        raise ValueError(f"sample_size must be at least 2, got {size}")
    rows = np.random.default_rng(seed).choice(n, size=min(n, size), replace=False)
    return torch.from_numpy(np.sort(rows))
