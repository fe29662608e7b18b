"""Find out whether Numba can cache compiled kernels on disk."""

from __future__ import annotations

from numba import njit


def _cache_is_writable() -> bool:
    """Return whether compiled code can be written beside the source or to the user's cache folder;
    if not, every process compiles it again.
    """
    try:
        njit(cache=True)(_cache_is_writable)  # looks for a writable folder; compiles nothing
    except RuntimeError:
        return False
    return True


CACHE_ON_DISK = _cache_is_writable()
