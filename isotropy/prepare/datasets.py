"""From the rows of sources to the canonical tables of a data set (`isotropy.prepare.table`),
checked against schemas.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pandera.pandas as pa

from isotropy.errors import IsotropyError, format_value
from isotropy.prepare.spec import CorpusSpec, SentencesSpec, Split, WordsSpec
from isotropy.prepare.table import Dataset
from isotropy.sources.rows import Row
from isotropy.sources.vectors import StaticVectors

TEXTS = pa.DataFrameSchema(
    {"text": pa.Column(str, unique=True)},
    strict=True,
    index=pa.Index(int),
)
LINES = pa.DataFrameSchema({"text": pa.Column(str)}, strict=True, index=pa.Index(int))
ITEMS = pa.DataFrameSchema(
    {
        "texts": pa.Column(
            object,
            pa.Check(
                lambda texts: texts.map(len).nunique() == 1, error="items of different lengths"
            ),
        ),
        "labels": pa.Column(
            object, pa.Check(lambda labels: labels.map(len) > 0, error="an item without a label")
        ),
    },
    strict=True,
    index=pa.Index(int),
)


class Prepared(NamedTuple):
    """The tables of a data set, and its description."""

    texts: pd.DataFrame
    items: pd.DataFrame
    dataset: Dataset


def prepare_sentences(spec: SentencesSpec, rows: Sequence[Row]) -> Prepared:
    """Sentences or pairs with a label each, in the source's order; a sentence that occurs again
    shares its row of texts.

    Raises:
        IsotropyError: an empty source, labels that do not fit the task, or a sample larger than the
            source.
    """
    _require_texts(spec.source, rows)
    if spec.reading == "quoted":
        rows = quoted_parse(rows)
    if spec.sample is not None:
        if spec.sample.n_items > len(rows):
            raise IsotropyError(
                f"{spec.source}: a sample of {spec.sample.n_items} of {len(rows)} items"
            )
        chosen = np.random.default_rng(spec.sample.seed).choice(
            len(rows), spec.sample.n_items, replace=False
        )
        rows = [rows[i] for i in np.sort(chosen)]
    if spec.split is not None:
        rows = _side(spec, spec.split, rows)
    sampled = spec.sample is not None or spec.split is not None
    dataset = Dataset(task=spec.task, label_names=spec.label_names, sampled=sampled)
    return _checked(
        spec.source,
        [row.texts for row in rows],
        [_labels(spec, row, number) for number, row in enumerate(rows, start=1)],
        dataset,
    )


def quoted_parse(rows: Sequence[Row]) -> list[Row]:
    """Pairs with scores as a reader finds them that takes quotes in a tab-separated file for quotes
    of fields.

    A field that begins with a quote goes on to the next quote, over the ends of lines; lines whose
    fields are too many are dropped, and so are those whose score is lost. Rajaee & Pilehvar read
    STS-B so (`pandas.read_csv` with `delimiter` and `error_bad_lines=False`). Dzubur (2022), who
    reads it in the same way, has 1,444 of 1,500 dev pairs: that file has columns more in places.
    """
    fields = len(rows[0].texts) + 1 if rows else 0
    lines = "".join("\t".join([*row.texts, repr(row.label)]) + "\n" for row in rows)
    found = []
    for line in csv.reader(io.StringIO(lines, newline=""), delimiter="\t"):
        try:
            found.append(Row(tuple(line[: fields - 1]), float(line[fields - 1])))
        except (IndexError, ValueError):
            continue
        if len(line) > fields:
            found.pop()
    return found


def prepare_corpus(spec: CorpusSpec, rows: Sequence[Row]) -> pd.DataFrame:
    """The lines of a corpus, in its order; the same line may occur again.

    Raises:
        IsotropyError: an empty corpus, or more blocks than it has.
    """
    _require_texts(spec.source, rows, empty=True)
    lines = [row.texts[0].removesuffix("\n") or spec.empty for row in rows]
    if spec.blocks is not None:
        n, there = spec.blocks.n_lines, len(lines) // spec.blocks.n_lines
        if there < spec.blocks.n_blocks:
            raise IsotropyError(
                f"{spec.source}: {spec.blocks.n_blocks} blocks of {n} lines, and there are {there}"
            )
        chosen = np.sort(
            np.random.default_rng(spec.blocks.seed).choice(
                there, spec.blocks.n_blocks, replace=False
            )
        )
        lines = [line for block in chosen for line in lines[block * n : (block + 1) * n]]
    if not lines:
        raise IsotropyError(f"{spec.source}: no lines")
    return LINES.validate(pd.DataFrame({"text": lines}))


def prepare_words(
    spec: WordsSpec,
    lexicon: Sequence[Row],
    names: list[str],
    vectors: StaticVectors,
    word_list: Sequence[Row] | None,
) -> Prepared:
    """The first words, in the vectors' order, that the lexicon labels.

    Args:
        spec: how many words.
        lexicon: words with the names of their labels.
        names: all labels, in the order of the classes.
        vectors: static vectors.
        word_list: words to choose from; None: all.

    Raises:
        IsotropyError: fewer such words than `n_items`.
    """
    labels = {row.texts[0]: sorted(names.index(name) for name in row.label) for row in lexicon}
    allowed = labels if word_list is None else {row.texts[0] for row in word_list}
    words = [word for word in dict.fromkeys(vectors.words) if word in labels and word in allowed]
    if spec.n_items is not None and len(words) < spec.n_items:
        found = f"{len(words)} words have a label in {spec.lexicon}"
        raise IsotropyError(f"{spec.vectors}: {found}, n_items asks for {spec.n_items}")
    if not words:
        shown = ", ".join(repr(word) for word in vectors.words[:3])
        raise IsotropyError(
            f"{spec.vectors}: none of its words ({shown}, …) has a label in {spec.lexicon}"
        )
    words = words[: spec.n_items]
    dataset = Dataset(task="multi-label", label_names=names, sampled=False)
    return _checked(
        spec.lexicon, [(word,) for word in words], [labels[word] for word in words], dataset
    )


def _side(spec: SentencesSpec, split: Split, rows: Sequence[Row]) -> list[Row]:
    """One side of a split, in the source's order; questions about one context stay on one side."""
    units: list[Any] = (
        [row.texts[0] for row in rows] if spec.task == "extractive" else list(range(len(rows)))
    )
    distinct = list(dict.fromkeys(units))
    order = np.random.default_rng(split.seed).permutation(len(distinct))
    held_out = {distinct[i] for i in order[: round(split.held_out * len(distinct))]}
    return [
        row
        for row, unit in zip(rows, units, strict=True)
        if (unit in held_out) == (split.part == "validation")
    ]


def _labels(spec: SentencesSpec, row: Row, number: int) -> list[Any]:
    """The labels of a row as the table of items has them."""
    label, place = row.label, f"{spec.source}: item {number}"
    if spec.task == "single-label":
        if not isinstance(label, int) or not 0 <= label < len(spec.label_names):
            raise IsotropyError(f"{place}: label {label!r} has no name in label_names")
        return [label]
    if spec.task == "regression":
        if not isinstance(label, int | float) or not math.isfinite(label):
            raise IsotropyError(f"{place}: {label!r} is not a score; is it a regression task?")
        return [float(label)]
    if (
        not isinstance(label, dict)
        or not label.get("text")
        or len(label["text"]) != len(label.get("answer_start", []))
    ):
        raise IsotropyError(f"{place}: {label!r} are no answers; is it an extractive task?")
    answers = [
        {"text": text, "start": start}
        for text, start in zip(label["text"], label["answer_start"], strict=True)
    ]
    for answer in answers:
        if not isinstance(answer["text"], str) or not isinstance(answer["start"], int):
            raise IsotropyError(
                f"{place}: expected a text and its place, got {format_value(answer)}"
            )
        if row.texts[0][answer["start"] : answer["start"] + len(answer["text"])] != answer["text"]:
            raise IsotropyError(
                f"{place}: the answer {answer['text']!r} does not stand where it says"
            )
    return answers


def _checked(
    name: str, texts: Sequence[tuple[str, ...]], labels: list[list[Any]], dataset: Dataset
) -> Prepared:
    _require_sound(name, texts, labels)
    row_of = {
        text: row for row, text in enumerate(dict.fromkeys(text for item in texts for text in item))
    }
    distinct = pd.DataFrame({"text": list(row_of)})
    items = pd.DataFrame(
        {"texts": [[row_of[text] for text in item] for item in texts], "labels": labels}
    )
    return Prepared(TEXTS.validate(distinct), ITEMS.validate(items), dataset)


def _require_texts(name: str, rows: Sequence[Row], *, empty: bool = False) -> None:
    """Raise an IsotropyError that names the first row of a source, counted from 1, with something
    that is no text, or with empty ones alone: of a pair one may be empty (Quora's have such).
    """
    for number, row in enumerate(rows, start=1):
        nothing = not empty and not any(row.texts)
        for text in row.texts:
            if not isinstance(text, str) or nothing:
                got = "an empty one" if text == "" else format_value(text)
                raise IsotropyError(f"{name}: row {number}: expected a text, got {got}")


def _require_sound(name: str, texts: Sequence[tuple[str, ...]], labels: list[list[Any]]) -> None:
    """Raise an IsotropyError that names the first item, counted from 1, with which something is
    wrong.
    """
    if not texts:
        raise IsotropyError(f"{name}: no items")
    for number, (item, own) in enumerate(zip(texts, labels, strict=True), start=1):
        if len(item) != len(texts[0]):
            raise IsotropyError(
                f"{name}: item {number}: expected {len(texts[0])} texts, as in item 1, got "
                f"{len(item)}"
            )
        if not own:
            raise IsotropyError(f"{name}: item {number}: expected a label, got none")
