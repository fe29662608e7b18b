"""In what embeddings depart from every paper: why they, and all that is made from them, are stand-ins."""

from __future__ import annotations

from isotropy.embed.spec import EmbedSpec, TokensSpec


def departures(spec: EmbedSpec | TokensSpec) -> list[str]:
    """The papers compute in single precision."""
    return [] if spec.dtype == "float32" else [f"computed in {spec.dtype}"]
