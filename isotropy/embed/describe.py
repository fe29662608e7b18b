"""In what embeddings depart from every paper: why they, and all that is made from them, are
stand-ins.
"""

from __future__ import annotations


def deviations(dtype: str) -> list[str]:
    """The papers compute in single precision."""
    return [] if dtype == "float32" else [f"computed in {dtype}"]
