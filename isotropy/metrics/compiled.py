"""Whether compiled kernels can be kept on disk."""

from __future__ import annotations

from numba import njit


def _can_be_kept() -> bool:
    """Whether compiled code can be written beside the source or in the user's cache; without either
    it is compiled anew.
    """
    try:
        njit(cache=True)(_can_be_kept)  # finds the place to write; nothing is compiled
    except RuntimeError:
        return False
    return True


KEPT = _can_be_kept()
