"""What defines a prepared data set."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.spec import Spec, Strict

SentenceTask = Literal["single-label", "regression", "extractive"]


class Sample(Strict):
    """A seeded part of a data set, for tests and quick looks; results from it are stand-ins."""

    n_items: Annotated[int, Field(ge=2)]
    """How many items."""
    seed: Annotated[int, Field(ge=0)]
    """Of the choice."""


class Split(Strict):
    """One side of a seeded split of our own, where the source has only one part; results from it
    are stand-ins.
    """

    part: Literal["train", "validation"]
    """Which side."""
    held_out: Annotated[float, Field(gt=0, lt=1)]
    """Share of the items in `validation`."""
    seed: Annotated[int, Field(ge=0)]
    """Of the choice; both sides must have the same."""


class SentencesSpec(Spec):
    """A data set of sentences or pairs, with a label, a score or answers each."""

    kind: Literal["sentences"]
    source: str
    """A data set of the source registry."""
    task: SentenceTask = "single-label"
    """What the source's label is: a class number, a score (regression), or answers in the first
    text (extractive)."""
    label_names: list[str] = []
    """Names of labels 0, 1, …; none unless the task is single-label."""
    reading: Literal["rows", "quoted"] = "rows"
    """`quoted`: as the code of Rajaee & Pilehvar reads tab-separated files, with quotes that join
    lines and with lines dropped whose fields are too many; a variant of pairs with scores, which
    loses some."""
    sample: Sample | None = None
    """A seeded part of it; null: all."""
    split: Split | None = None
    """One side of a split, of the sample if there is one; null: both."""

    @model_validator(mode="after")
    def _names_fit(self) -> SentencesSpec:
        if (self.task == "single-label") != (len(self.label_names) >= 2) or len(
            self.label_names
        ) == 1:
            raise ValueError(
                "a single-label task needs at least two label_names, and no other task has any"
            )
        if self.reading == "quoted" and self.task != "regression":
            raise ValueError("reading: quoted is for task: regression")
        return self


class Blocks(Strict):
    """A seeded part of a corpus: blocks of consecutive lines; results from it are stand-ins."""

    n_blocks: Annotated[int, Field(ge=1)]
    """How many blocks."""
    n_lines: Annotated[int, Field(ge=1)]
    """Lines of a block."""
    seed: Annotated[int, Field(ge=0)]
    """Of the choice."""


class CorpusSpec(Spec):
    """Lines of running text (Cai et al. 2021)."""

    kind: Literal["corpus"]
    source: str
    """A corpus of the source registry."""
    empty: str = ""
    """What an empty line reads: the hub's WikiText has lost the blank that the official file has in
    such lines."""
    blocks: Blocks | None = None
    """A seeded part of it; null: all."""


class WordsSpec(Spec):
    """Words with all the labels that a lexicon gives them (Mickus et al. 2024, setups iii and
    iv).
    """

    kind: Literal["words"]
    lexicon: str
    """A lexicon of the source registry."""
    vectors: str
    """Vectors of the source registry, whose words are taken in their order, the most frequent
    first."""
    word_list: str | None = None
    """A lexicon of the source registry to whose words the choice is restricted; null: all words."""
    n_items: Annotated[int, Field(ge=2)] | None
    """How many words; null: all that the lexicon labels."""
