"""What of embeddings deviates from every paper."""

from __future__ import annotations


def precision_deviations(dtype: str) -> list[str]:
    """The papers compute in single precision."""
    return [] if dtype == "float32" else [f"computed in {dtype}"]
