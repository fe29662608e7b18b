"""Settings of a sentence encoder: part of a model's entry in the registry, and of the spec of each
job that embeds with the model.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field


class Encoder(BaseModel):
    """How a sentence encoder turns token vectors into one vector."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, use_attribute_docstrings=True
    )

    pooling: Literal["mean", "cls"]
    normalize: bool
    """Divide by the Euclidean norm at the end."""
    max_length: Annotated[int, Field(ge=3)]
    """Longest input in word pieces, special tokens included; the rest is cut."""


UNPOOLED = Encoder(pooling="mean", normalize=False, max_length=3)
"""For reading hidden states, which are pooled elsewhere."""
