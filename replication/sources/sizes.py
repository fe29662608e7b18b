"""Sizes of sources, for estimating the cost of a study. No result depends on them, so they are kept
beside the sources, not in them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from replication.spec import Strict

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class ModelSize(Strict):
    """Size of a model."""

    weights: Positive
    """Multiplications that a token takes in the layers, in millions."""
    width: Count
    """Dimensions of a token vector in each layer."""
    layers: Count
    gigabytes: Positive
    """Size of the model's files."""
    causal: bool = False
    """Whether it is a decoder: no token sees those after it."""
    positions: Count = 512
    """Longest input in tokens; more than the papers' settings need is not counted."""


class VectorsSize(Strict):
    """Size of static word vectors."""

    points: Count
    """Words."""
    width: Count
    """Dimensions of a word vector."""
    gigabytes: Positive
    """Size of the vectors' files."""
    contents: dict[str, VectorsSize] = {}
    """Sizes of contents that differ, such as a smaller stand-in, by their name in the entry."""


class TextsSize(Strict):
    """Size of a data set, corpus or lexicon, as far as its contents do not state it."""

    rows: Count | None = None
    tokens: Count | None = None
    """Tokens of all texts, special ones included."""
    tokens_per_text: Positive | None = None
    """Tokens of a text, special ones included."""


Size = ModelSize | VectorsSize | TextsSize
