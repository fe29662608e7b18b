"""Canonical data sets: one table per data set, whatever its home looked like.

Schema: `text` (the distinct item that gets a vector) and `labels` (list of class numbers: one for single-label tasks,
any number for multi-label tasks). Class names and the task are stored in the table's metadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pandera.pandas as pa
import pyarrow
import pyarrow.parquet

from isotropy.errors import IsotropyError
from isotropy.prepare.spec import SentencesSpec, SupersensesSpec
from isotropy.sources.readers import NOUN_LEXNAMES, Row, StaticVectors
from isotropy.spec import Strict, canonical_json

METADATA_KEY = b"isotropy"


class Dataset(Strict):
    """What a prepared table says of itself."""

    task: Literal["single-label", "multi-label"]
    label_names: list[str]
    sampled: bool


SCHEMA = pa.DataFrameSchema(
    {
        "text": pa.Column(str, pa.Check.str_length(min_value=1), unique=True),
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


def write_dataset(path: Path, table: pd.DataFrame, dataset: Dataset) -> None:
    """Write a prepared table with its description."""
    schema = pyarrow.schema([("text", pyarrow.string()), ("labels", pyarrow.list_(pyarrow.int16()))])
    arrow = pyarrow.Table.from_pandas(table, schema=schema, preserve_index=False)
    arrow = arrow.replace_schema_metadata({METADATA_KEY: canonical_json(dataset.model_dump())})
    pyarrow.parquet.write_table(arrow, path)


def read_dataset(path: Path) -> tuple[pd.DataFrame, Dataset]:
    """Read a prepared table and its description."""
    arrow = pyarrow.parquet.read_table(path)
    return arrow.to_pandas(), Dataset.model_validate_json(arrow.schema.metadata[METADATA_KEY])


def targets(table: pd.DataFrame, dataset: Dataset) -> np.ndarray:
    """Targets of a classifier: class numbers, shape (n,), int64; or indicators, shape (n, n_labels), float32."""
    if dataset.task == "single-label":
        return np.array([labels[0] for labels in table["labels"]], dtype=np.int64)
    indicators = np.zeros((len(table), len(dataset.label_names)), dtype=np.float32)
    for row, labels in enumerate(table["labels"]):
        indicators[row, labels] = 1
    return indicators


def _checked(name: str, table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        raise IsotropyError(f"{name}: no items")
    try:
        return SCHEMA.validate(table)
    except pa.errors.SchemaError as error:
        raise IsotropyError(f"{name}: {error}") from error
