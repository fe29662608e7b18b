"""Conversion of the rows of sources into the canonical tables of a data set
(`replication.prepare.table`), validated against schemas.
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
from replication.prepare.spec import CorpusSpec, SentencesSpec, Split, WordsSpec
from replication.prepare.table import Dataset
from replication.sources.formats import Row, StaticVectors

TEXTS = pa.DataFrameSchema({"text": pa.Column(str, unique=True)}, strict=True, index=pa.Index(int))
LINES = pa.DataFrameSchema({"text": pa.Column(str)}, strict=True, index=pa.Index(int))
ITEMS = pa.DataFrameSchema(
    {
        "texts": pa.Column(
            object,
            pa.Check(
                lambda texts: texts.map(len).nunique() == 1,
                error="items with different numbers of texts",
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
    """The tables of a data set, and its metadata."""

    texts: pd.DataFrame
    items: pd.DataFrame
    dataset: Dataset


def prepare_sentences(spec: SentencesSpec, rows: Sequence[Row]) -> Prepared:
    """Prepare labelled sentences or pairs, in the source's order; equal sentences share one row of
    the table of texts.

    Raises:
        IsotropyError: the source is empty or smaller than the sample, or labels do not fit the
            task.
    """
    _require_texts(spec.source, rows)
    if spec.reading == "quoted":
        rows = reparse_with_quotes(rows)
    if spec.sample is not None:
        if spec.sample.n_items > len(rows):
            raise IsotropyError(
                f"{spec.source}: expected at least {spec.sample.n_items} items for the sample, got "
                f"{len(rows)}"
            )
        indices = np.random.default_rng(spec.sample.seed).choice(
            len(rows), spec.sample.n_items, replace=False
        )
        rows = [rows[i] for i in np.sort(indices)]
    if spec.split is not None:
        rows = _select_split_part(spec, spec.split, rows)
    sampled = spec.sample is not None or spec.split is not None
    dataset = Dataset(task=spec.task, label_names=spec.label_names, sampled=sampled)
    return _build_tables(
        spec.source,
        [row.texts for row in rows],
        [_convert_labels(spec, row, number) for number, row in enumerate(rows, start=1)],
        dataset,
    )


def reparse_with_quotes(rows: Sequence[Row]) -> list[Row]:
    """Parse pairs with scores like a reader of tab-separated files that interprets quotes as field
    delimiters.

    A field that begins with a quote extends to the next quote, across line ends; lines with too
    many fields or without a score are dropped. Rajaee & Pilehvar read STS-B in this way
    (`pandas.read_csv` with `delimiter` and `error_bad_lines=False`). Dzubur (2022), who reads it in
    the same way, has 1,444 of 1,500 dev pairs: some lines of that file have additional columns.
    """
    n_fields = len(rows[0].texts) + 1 if rows else 0
    lines = "".join("\t".join([*row.texts, repr(row.label)]) + "\n" for row in rows)
    parsed = []
    for line in csv.reader(io.StringIO(lines, newline=""), delimiter="\t"):
        try:
            parsed.append(Row(tuple(line[: n_fields - 1]), float(line[n_fields - 1])))
        except (IndexError, ValueError):
            continue
        if len(line) > n_fields:
            parsed.pop()
    return parsed


def prepare_corpus(spec: CorpusSpec, rows: Sequence[Row]) -> pd.DataFrame:
    """Prepare the lines of a corpus, in order and with repetitions.

    Raises:
        IsotropyError: the corpus is empty, or has fewer blocks than the specification asks for.
    """
    _require_texts(spec.source, rows, allow_empty=True)
    lines = [row.texts[0].removesuffix("\n") or spec.empty for row in rows]
    if spec.blocks is not None:
        n_lines, n_available = spec.blocks.n_lines, len(lines) // spec.blocks.n_lines
        if n_available < spec.blocks.n_blocks:
            raise IsotropyError(
                f"{spec.source}: expected at least {spec.blocks.n_blocks} blocks of {n_lines} "
                f"lines, got {n_available}"
            )
        block_indices = np.sort(
            np.random.default_rng(spec.blocks.seed).choice(
                n_available, spec.blocks.n_blocks, replace=False
            )
        )
        lines = [
            line
            for block in block_indices
            for line in lines[block * n_lines : (block + 1) * n_lines]
        ]
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
    """Prepare the first words, in the order of the vectors, that have labels in the lexicon.

    Args:
        spec: number of words, and the names of lexicon and vectors for messages.
        lexicon: words with the names of their labels.
        names: names of all labels, in the order of the classes.
        vectors: static vectors.
        word_list: words to choose from; None: all.

    Raises:
        IsotropyError: there are fewer such words than `n_items`, or none.
    """
    labels = {row.texts[0]: sorted(names.index(name) for name in row.label) for row in lexicon}
    allowed = labels if word_list is None else {row.texts[0] for row in word_list}
    words = [word for word in dict.fromkeys(vectors.words) if word in labels and word in allowed]
    if spec.n_items is not None and len(words) < spec.n_items:
        available = f"{len(words)} words have a label in {spec.lexicon}"
        raise IsotropyError(f"{spec.vectors}: {available}, n_items asks for {spec.n_items}")
    if not words:
        examples = ", ".join(repr(word) for word in vectors.words[:3])
        raise IsotropyError(
            f"{spec.vectors}: none of its words ({examples}, …) has a label in {spec.lexicon}"
        )
    words = words[: spec.n_items]
    dataset = Dataset(task="multi-label", label_names=names, sampled=False)
    return _build_tables(
        spec.lexicon, [(word,) for word in words], [labels[word] for word in words], dataset
    )


def _select_split_part(spec: SentencesSpec, split: Split, rows: Sequence[Row]) -> list[Row]:
    """Return the items of one part of a seeded split, in the source's order; all questions about a
    context are in the same part.
    """
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


def _convert_labels(spec: SentencesSpec, row: Row, number: int) -> list[Any]:
    """Return the labels of a row in the format of the table of items."""
    label, location = row.label, f"{spec.source}: item {number}"
    if spec.task == "single-label":
        if not isinstance(label, int) or not 0 <= label < len(spec.label_names):
            raise IsotropyError(f"{location}: label {label!r} has no name in label_names")
        return [label]
    if spec.task == "regression":
        if not isinstance(label, int | float) or not math.isfinite(label):
            raise IsotropyError(
                f"{location}: expected a score, got {label!r}; is the task regression?"
            )
        return [float(label)]
    if (
        not isinstance(label, dict)
        or not label.get("text")
        or len(label["text"]) != len(label.get("answer_start", []))
    ):
        raise IsotropyError(
            f"{location}: expected text and answer_start of answers, got {label!r}; is the task "
            "extractive?"
        )
    answers = [
        {"text": text, "start": start}
        for text, start in zip(label["text"], label["answer_start"], strict=True)
    ]
    for answer in answers:
        if not isinstance(answer["text"], str) or not isinstance(answer["start"], int):
            raise IsotropyError(
                f"{location}: expected an answer's text and start, got {format_value(answer)}"
            )
        if row.texts[0][answer["start"] : answer["start"] + len(answer["text"])] != answer["text"]:
            raise IsotropyError(
                f"{location}: the context does not contain the answer {answer['text']!r} at its "
                "answer_start"
            )
    return answers


def _build_tables(
    name: str, texts: Sequence[tuple[str, ...]], labels: list[list[Any]], dataset: Dataset
) -> Prepared:
    """Check items and build the tables; equal texts share one row."""
    _require_valid_items(name, texts, labels)
    row_by_text = {
        text: row for row, text in enumerate(dict.fromkeys(text for item in texts for text in item))
    }
    distinct = pd.DataFrame({"text": list(row_by_text)})
    items = pd.DataFrame(
        {"texts": [[row_by_text[text] for text in item] for item in texts], "labels": labels}
    )
    return Prepared(TEXTS.validate(distinct), ITEMS.validate(items), dataset)


def _require_texts(name: str, rows: Sequence[Row], *, allow_empty: bool = False) -> None:
    """Raise an IsotropyError that names the first row of a source, counted from 1, with a value
    that is not a string or, unless `allow_empty`, without a non-empty text; one text of a pair may
    be empty (as in Quora's data).
    """
    for number, row in enumerate(rows, start=1):
        all_empty = not allow_empty and not any(row.texts)
        for text in row.texts:
            if not isinstance(text, str) or all_empty:
                got = "an empty one" if text == "" else format_value(text)
                raise IsotropyError(f"{name}: row {number}: expected a text, got {got}")


def _require_valid_items(
    name: str, texts: Sequence[tuple[str, ...]], labels: list[list[Any]]
) -> None:
    """Raise an IsotropyError if there are no items; or name the first one, counted from 1, with
    another number of texts than item 1 or without labels.
    """
    if not texts:
        raise IsotropyError(f"{name}: no items")
    for number, (item, item_labels) in enumerate(zip(texts, labels, strict=True), start=1):
        if len(item) != len(texts[0]):
            raise IsotropyError(
                f"{name}: item {number}: expected {len(texts[0])} texts, as in item 1, got "
                f"{len(item)}"
            )
        if not item_labels:
            raise IsotropyError(f"{name}: item {number}: expected a label, got none")
