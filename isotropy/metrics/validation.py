"""Checks and conversions of the input of all metrics.

Metrics accept numpy arrays, pandas frames and torch tensors on any device; they compute in torch.
"""

from __future__ import annotations

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

    Half precision is widened to float32, integers to float64 (a metric of truncated integers would
    be silently wrong).

    Raises:
        ValueError: not two-dimensional, too few points or dimensions, or a value that is NaN or
            infinite.
        TypeError: not numeric, or a masked array.
    """
    if isinstance(X, torch.Tensor):
        points = X
    else:
        _require_unmasked(X, "points")
        array = np.asarray(X)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"a point cloud must be numeric, got dtype {array.dtype}")
        # torch supports neither foreign byte orders nor negative strides nor read-only memory, and
        # may read numbers at unaligned addresses wrongly.
        array = np.require(array, array.dtype.newbyteorder("="), ["C", "W", "A"])
        points = torch.from_numpy(array)
    if points.ndim != 2:
        raise ValueError(f"a point cloud must have shape (n, d), got {tuple(points.shape)}")
    n, d = points.shape
    if n < min_points or d < min_dims:
        raise ValueError(
            f"need at least {min_points} points and {min_dims} dimensions, got n = {n}, d = {d}"
        )
    if points.dtype in (torch.float16, torch.bfloat16):
        points = points.float()
    elif not points.dtype.is_floating_point:
        if points.dtype.is_complex:
            raise TypeError("a point cloud must be real, got complex numbers")
        points = points.double()
    if finite:
        require_finite(points)
    # The same values give the same score, whatever their layout and address in memory.
    return points.contiguous() if in_place else aligned(points)


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


def require_finite(points: torch.Tensor) -> None:
    """Raise a ValueError that counts the points with NaN or infinity, if there are any."""
    # NaN if any value is; one pass, 15 times faster than isfinite
    smallest, largest = torch.aminmax(points.detach())
    if not bool(torch.isfinite(smallest) & torch.isfinite(largest)):
        n_bad = int((~torch.isfinite(points)).any(dim=1).sum())
        raise ValueError(
            f"{n_bad} of {len(points)} points hold NaN or infinity: a metric of them has no meaning"
        )


def as_codes(labels: Any, n: int, *, name: str = "labels", min_classes: int = 2) -> torch.Tensor:
    """Return class codes 0..K-1, shape (n,), on the CPU.

    A two-dimensional input is a multi-label indicator matrix: each distinct row is one class
    (Mickus et al. 2024, 3.1).

    Raises:
        ValueError: wrong length, NaN or None among the labels, or fewer than `min_classes` classes.
        TypeError: a masked array, or labels that cannot be compared, such as numbers and strings.
    """
    _require_unmasked(labels, name)
    if isinstance(labels, torch.Tensor):
        array = labels.detach().cpu().numpy()
    else:
        # In an array of strings, NaN would become the string "nan".
        holds_strings = isinstance(labels, list | tuple) and any(isinstance(x, str) for x in labels)
        array = np.asarray(labels, dtype=object if holds_strings else None)
    if array.ndim not in (1, 2) or array.shape[0] != n:
        raise ValueError(f"{name} must have shape ({n},) or ({n}, n_labels), got {array.shape}")
    if array.dtype.kind == "f" and np.isnan(array).any():
        raise ValueError(f"{name} hold NaN")
    # None, and values not equal to themselves: NaN and NaT
    missing = array.dtype.kind in "OmM" and sum(x is None or x != x for x in array.flat)
    if missing:
        raise ValueError(f"{missing} of {array.size} {name} are missing (None or NaN)")
    try:
        _, codes = np.unique(array, axis=0 if array.ndim == 2 else None, return_inverse=True)
    except TypeError as error:
        if array.ndim == 2:
            raise TypeError(f"an indicator matrix must be numeric, got {array.dtype}") from error
        raise TypeError(f"{name} must be of one type: {error}") from error
    codes = codes.reshape(-1)
    if codes.max() + 1 < min_classes:
        raise ValueError(f"at least {min_classes} classes are needed, but all {name} are equal")
    return torch.from_numpy(codes.astype(np.int64))


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
