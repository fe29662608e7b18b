"""What defines a prepared data set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotropy.spec import Spec, Strict


class Sample(Strict):
    """A seeded part of a data set, for tests and quick looks; results from it are stand-ins."""

    n_items: Annotated[int, Field(ge=2)]
    """How many items."""
    seed: Annotated[int, Field(ge=0)]
    """Of the choice."""


class SentencesSpec(Spec):
    """A data set of labelled sentences, or pairs of sentences."""

    kind: Literal["sentences"]
    source: str
    """A data set of the source registry."""
    label_names: Annotated[list[str], Field(min_length=2)]
    """Names of labels 0, 1, …"""
    sample: Sample | None = None
    """A seeded part of it; null: all."""


class WordsSpec(Spec):
    """Words with all the labels that a lexicon gives them (Mickus et al. 2024, setups iii and iv)."""

    kind: Literal["words"]
    lexicon: str
    """A lexicon of the source registry."""
    vectors: str
    """Vectors of the source registry, whose words are taken in their order, the most frequent first."""
    word_list: str | None = None
    """A lexicon of the source registry to whose words the choice is restricted; null: all words."""
    n_items: Annotated[int, Field(ge=2)] | None
    """How many words; null: all that the lexicon labels."""
