"""From the rows of sources to canonical tables (`isotropy.prepare.table`), checked against a schema."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd
import pandera.pandas as pa

from isotropy.errors import IsotropyError
from isotropy.prepare.spec import SentencesSpec, SupersensesSpec
from isotropy.prepare.table import Dataset
from isotropy.sources.readers import NOUN_LEXNAMES, Row, StaticVectors

SCHEMA = pa.DataFrameSchema(
    {
        "text": pa.Column(str, pa.Check.str_length(min_value=1)),
        "labels": pa.Column(object, pa.Check(lambda labels: labels.map(len) > 0, error="an item without a label")),
    },
    strict=True,
    index=pa.Index(int),
)


def prepare_sentences(spec: SentencesSpec, rows: Sequence[Row]) -> tuple[pd.DataFrame, Dataset]:
    """Sentences with one label each, in the source's order.

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
    table = pd.DataFrame({"text": [row.texts[0] for row in rows], "labels": [[row.label] for row in rows]})
    sampled = spec.sample is not None
    return _checked(spec.source, table), Dataset(task="single-label", label_names=spec.label_names, sampled=sampled)


def prepare_supersenses(spec: SupersensesSpec, lexicon: Sequence[Row], vectors: StaticVectors) -> tuple[pd.DataFrame, Dataset]:
    """The `n_items` first words, in the vectors' order, that have a noun sense; labels: their lexicographer files.

    Raises:
        IsotropyError: fewer such words than `n_items`.
    """
    names = list(NOUN_LEXNAMES.values())
    senses = {row.texts[0]: sorted(names.index(lexname) for lexname in row.label) for row in lexicon}
    words = [word for word in dict.fromkeys(vectors.words) if word in senses]
    if len(words) < spec.n_items:
        raise IsotropyError(f"{spec.vectors}: {len(words)} words have a noun sense, n_items asks for {spec.n_items}")
    words = words[: spec.n_items]
    table = pd.DataFrame({"text": words, "labels": [senses[word] for word in words]})
    return _checked(spec.lexicon, table), Dataset(task="multi-label", label_names=names, sampled=False)


def _checked(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        raise IsotropyError(f"{name}: no items")
    repeated = table["text"][table["text"].duplicated()]
    if len(repeated):
        raise IsotropyError(
            f"{name}: {len(repeated)} texts occur more than once, {repeated.iloc[0]!r} first; items must differ"
        )
    try:
        return SCHEMA.validate(table)
    except pa.errors.SchemaError as error:
        raise IsotropyError(f"{name}: " + " ".join(str(error).split())) from error
