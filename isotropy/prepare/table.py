"""The canonical table of a data set, and the targets in it.

Schema: `text` (the distinct item that gets a vector) and `labels` (list of class numbers: one for single-label tasks,
any number for multi-label tasks). Class names and the task are stored in the table's metadata.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet

from isotropy.spec import Strict, canonical_json

METADATA_KEY = b"isotropy"


class Dataset(Strict):
    """What a prepared table says of itself."""

    task: Literal["single-label", "multi-label"]
    label_names: list[str]
    sampled: bool


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
