"""How large a source is, for the costs of a study. No job's result depends on it: it stands beside
the source, not in it.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from isotropy.spec import Strict

Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(gt=0)]


class ModelSize(Strict):
    """Size of a model."""

    weights: Positive
    """Multiplications that a token takes in the layers, in millions."""
    width: Count
    """Numbers per token and layer."""
    layers: Count
    gigabytes: Positive
    """Of its files."""
    causal: bool = False
    """Whether it is a decoder: no token sees those after it."""
    positions: Count = 512
    """Tokens that it has positions for, as far as papers' settings ask for them."""


class VectorsSize(Strict):
    """Size of static word vectors."""

    points: Count
    """Words."""
    width: Count
    """Numbers per word."""
    gigabytes: Positive
    """Of its files."""


class TextsSize(Strict):
    """Size of a data set, corpus or lexicon, as far as its contents do not say it."""

    rows: Count | None = None
    tokens: Count | None = None
    """Tokens of all texts, special ones included."""
    tokens_per_text: Positive | None = None
    """Tokens of a text, special ones included."""


Size = ModelSize | VectorsSize | TextsSize
