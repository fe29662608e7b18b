"""From the rows of sources to the canonical tables of a data set (`isotropy.prepare.table`), checked against schemas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pandera.pandas as pa

from isotropy.errors import IsotropyError
from isotropy.prepare.spec import SentencesSpec, WordsSpec
from isotropy.prepare.table import Dataset
from isotropy.sources.readers import Row, StaticVectors

TEXTS = pa.DataFrameSchema(
    {"text": pa.Column(str, pa.Check.str_length(min_value=1), unique=True)}, strict=True, index=pa.Index(int)
)
ITEMS = pa.DataFrameSchema(
    {
        "texts": pa.Column(object, pa.Check(lambda texts: texts.map(len).nunique() == 1, error="items of different lengths")),
        "labels": pa.Column(object, pa.Check(lambda labels: labels.map(len) > 0, error="an item without a label")),
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
    """Sentences or pairs with one label each, in the source's order; a sentence that occurs again shares its row of texts.

    Raises:
        IsotropyError: an empty source, a label without a name, or a sample larger than the source.
    """
    if spec.sample is not None:
        if spec.sample.n_items > len(rows):
            raise IsotropyError(f"{spec.source}: a sample of {spec.sample.n_items} of {len(rows)} items")
        chosen = np.random.default_rng(spec.sample.seed).choice(len(rows), spec.sample.n_items, replace=False)
        rows = [rows[i] for i in np.sort(chosen)]
    unnamed = {row.label for row in rows} - set(range(len(spec.label_names)))
    if unnamed:
        raise IsotropyError(f"{spec.source}: labels {sorted(unnamed)} have no name in label_names")
    dataset = Dataset(task="single-label", label_names=spec.label_names, sampled=spec.sample is not None)
    return _checked(spec.source, [row.texts for row in rows], [[row.label] for row in rows], dataset)


def prepare_words(
    spec: WordsSpec, lexicon: Sequence[Row], names: list[str], vectors: StaticVectors, word_list: Sequence[Row] | None
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
        raise IsotropyError(f"{spec.vectors}: none of its words ({shown}, …) has a label in {spec.lexicon}")
    words = words[: spec.n_items]
    dataset = Dataset(task="multi-label", label_names=names, sampled=False)
    return _checked(spec.lexicon, [(word,) for word in words], [labels[word] for word in words], dataset)


def _checked(name: str, texts: Sequence[tuple[str, ...]], labels: list[list[int]], dataset: Dataset) -> Prepared:
    if not texts:
        raise IsotropyError(f"{name}: no items")
    row_of = {text: row for row, text in enumerate(dict.fromkeys(text for item in texts for text in item))}
    distinct = pd.DataFrame({"text": list(row_of)})
    items = pd.DataFrame({"texts": [[row_of[text] for text in item] for item in texts], "labels": labels})
    try:
        return Prepared(TEXTS.validate(distinct), ITEMS.validate(items), dataset)
    except pa.errors.SchemaError as error:
        raise IsotropyError(f"{name}: " + " ".join(str(error).split())) from error
