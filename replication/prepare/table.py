"""The canonical tables of a data set: its distinct texts, and its items.

The table of texts has the column `text`: each distinct string once, in the order of first
occurrence; it gets one vector. The table of items has the columns `texts` (a list of row numbers in
the table of texts: one for a sentence or word, two for a pair) and `labels` (a list of class
numbers, one for single-label tasks and any number for multi-label tasks; of one score for
regression; or, for extractive tasks, of answers in the first text, each with its text and its start
in characters). The task and the class names are stored in the metadata of the items.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from replication.prepare.spec import SentenceTask
from replication.spec import Strict, canonical_json

METADATA_KEY = b"isotropy"
_LABELS = {
    "single-label": pyarrow.int16(),
    "multi-label": pyarrow.int16(),
    "regression": pyarrow.float64(),
    "extractive": pyarrow.struct([("text", pyarrow.string()), ("start", pyarrow.int32())]),
}


class Dataset(Strict):
    """Metadata of the items of a prepared data set."""

    task: SentenceTask | Literal["multi-label"]
    label_names: list[str]
    sampled: bool
    """Whether the items are only a part of the source."""


def write_items(path: Path, items: pd.DataFrame, dataset: Dataset, mark: str) -> None:
    """Write the items of a data set, with its metadata and the identifier of the job's record."""
    schema = pyarrow.schema(
        [
            ("texts", pyarrow.list_(pyarrow.int32())),
            ("labels", pyarrow.list_(_LABELS[dataset.task])),
        ]
    )
    arrow = pyarrow.Table.from_pandas(items, schema=schema, preserve_index=False)
    arrow = arrow.replace_schema_metadata(
        {METADATA_KEY: canonical_json(dataset.model_dump()), "record": mark}
    )
    pyarrow.parquet.write_table(arrow, path)


def read_items(path: Path) -> tuple[pd.DataFrame, Dataset]:
    """Read the items of a data set and its metadata."""
    arrow = pyarrow.parquet.read_table(path)
    return arrow.to_pandas(), Dataset.model_validate_json(arrow.schema.metadata[METADATA_KEY])


def text_rows(items: pd.DataFrame) -> np.ndarray:
    """Return the rows of each item in the table of texts: (n, 1) or, for pairs, (n, 2), int64."""
    return np.array(items["texts"].to_list(), dtype=np.int64)


def targets(items: pd.DataFrame, dataset: Dataset) -> np.ndarray:
    """Return the targets of a classifier or regression: class numbers, shape (n,), int64; scores,
    shape (n,), float32; or label indicators, shape (n, n_labels), float32.

    Raises:
        ValueError: the task is extractive; its targets are answers.
    """
    if dataset.task == "extractive":
        raise ValueError("an extractive task has no targets of a classifier")
    if dataset.task != "multi-label":
        kind = np.int64 if dataset.task == "single-label" else np.float32
        return np.array([labels[0] for labels in items["labels"]], dtype=kind)
    indicators = np.zeros((len(items), len(dataset.label_names)), dtype=np.float32)
    for row, labels in enumerate(items["labels"]):
        indicators[row, labels] = 1
    return indicators
