"""Compile kernels by Numba where it is installed (the extra `fast`), and find out whether it can
cache them on disk. Without it the same numbers come from torch and NumPy, up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch

njit: Any
try:
    from numba import njit
except ModuleNotFoundError:
    njit = None
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles a function; without Numba it leaves the function as it is,
    which is then not called: see `has_kernels`.
    """
    return (lambda function: function) if njit is None else njit(cache=CACHE_ON_DISK, **options)


def has_kernels(points: torch.Tensor) -> bool:
    """Return whether compiled kernels can process a tensor: on the CPU, if Numba is installed."""
    return points.is_cpu and njit is not None


def _cache_is_writable() -> bool:
    """Return whether compiled code can be written beside the source or to the user's cache folder;
    if not, every process compiles it again.
    """
    if njit is None:
        return False
    try:
        njit(cache=True)(_cache_is_writable)  # looks for a writable folder; compiles nothing
    except RuntimeError:
        return False
    return True


CACHE_ON_DISK = _cache_is_writable()
