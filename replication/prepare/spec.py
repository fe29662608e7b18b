"""Specifications of prepared data sets."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from replication.spec import Spec, Strict

SentenceTask = Literal["single-label", "regression", "extractive"]


class Sample(Strict):
    """A random sample of a data set, for tests and quick looks; results from it are stand-ins."""

    n_items: Annotated[int, Field(ge=2)]
    """Number of items."""
    seed: Annotated[int, Field(ge=0)]
    """Random seed of the sample."""


class Split(Strict):
    """One part of our own random split, where the source has no split; results from it are
    stand-ins.
    """

    part: Literal["train", "validation"]
    """Part of the split."""
    held_out: Annotated[float, Field(gt=0, lt=1)]
    """Fraction of the items in `validation`."""
    seed: Annotated[int, Field(ge=0)]
    """Random seed of the split; must be the same for both parts."""


class SentencesSpec(Spec):
    """Specification of a data set of sentences or pairs, each with a label, a score or answers."""

    kind: Literal["sentences"]
    source: str
    """Name of a data set in the source registry."""
    task: SentenceTask = "single-label"
    """Type of the source's labels: a class number (single-label), a score (regression), or answers
    in the first text (extractive)."""
    label_names: list[str] = []
    """Names of labels 0, 1, …; empty unless the task is single-label."""
    reading: Literal["rows", "quoted"] = "rows"
    """`quoted`: interpret quotes in tab-separated files like the code of Rajaee & Pilehvar, where
    quoted fields join lines and lines with too many fields are dropped; only for pairs with scores,
    of which some are lost."""
    sample: Sample | None = None
    """Random sample of the items; null: all."""
    split: Split | None = None
    """Part of a random split of the items, or of the sample if there is one; null: no split."""

    @model_validator(mode="after")
    def _check_label_names(self) -> SentencesSpec:
        if (self.task == "single-label") != (len(self.label_names) >= 2) or len(
            self.label_names
        ) == 1:
            raise ValueError(
                "a single-label task needs at least two label_names, other tasks must not have any"
            )
        if self.reading == "quoted" and self.task != "regression":
            raise ValueError("reading: quoted is for task: regression")
        return self


class Blocks(Strict):
    """A random sample of blocks of consecutive lines of a corpus; results from it are stand-ins."""

    n_blocks: Annotated[int, Field(ge=1)]
    """Number of blocks."""
    n_lines: Annotated[int, Field(ge=1)]
    """Lines in a block."""
    seed: Annotated[int, Field(ge=0)]
    """Random seed of the sample."""


class CorpusSpec(Spec):
    """Specification of a corpus: lines of running text (Cai et al. 2021)."""

    kind: Literal["corpus"]
    source: str
    """Name of a corpus in the source registry."""
    empty: str = ""
    """Replacement for empty lines: in the official file of WikiText these consist of a blank, which
    is missing in the hub's version."""
    blocks: Blocks | None = None
    """Random sample of blocks of lines; null: all lines."""


class WordsSpec(Spec):
    """Specification of a data set of words with all their labels in a lexicon (Mickus et al. 2024,
    setups iii and iv).
    """

    kind: Literal["words"]
    lexicon: str
    """Name of a lexicon in the source registry."""
    vectors: str
    """Name of static vectors in the source registry; words are taken in their order, the most
    frequent ones first."""
    word_list: str | None = None
    """Name of a lexicon in the source registry that lists the allowed words; null: all words."""
    n_items: Annotated[int, Field(ge=2)] | None
    """Number of words; null: all that have labels in the lexicon."""
