"""The canonical tables of a data set: its distinct texts, and its items as rows of them.

Texts: `text`, each distinct string once, in the order of first occurrence; it gets one vector. Items: `texts` (list of row
numbers in the table of texts: one for a sentence or word, two for a pair) and `labels` (list of class numbers: one for
single-label tasks, any number for multi-label tasks). Class names and the task are stored in the items' metadata.
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
ITEMS = pyarrow.schema([("texts", pyarrow.list_(pyarrow.int32())), ("labels", pyarrow.list_(pyarrow.int16()))])


class Dataset(Strict):
    """What the prepared items say of themselves."""

    task: Literal["single-label", "multi-label"]
    label_names: list[str]
    sampled: bool


def write_items(path: Path, items: pd.DataFrame, dataset: Dataset, mark: str) -> None:
    """Write the items of a data set with its description and the mark of its record."""
    arrow = pyarrow.Table.from_pandas(items, schema=ITEMS, preserve_index=False)
    arrow = arrow.replace_schema_metadata({METADATA_KEY: canonical_json(dataset.model_dump()), "record": mark})
    pyarrow.parquet.write_table(arrow, path)


def read_items(path: Path) -> tuple[pd.DataFrame, Dataset]:
    """Read the items of a data set and its description."""
    arrow = pyarrow.parquet.read_table(path)
    return arrow.to_pandas(), Dataset.model_validate_json(arrow.schema.metadata[METADATA_KEY])


def text_rows(items: pd.DataFrame) -> np.ndarray:
    """Rows of the table of texts that make each item, shape (n, 1) or, for pairs, (n, 2), int64."""
    return np.array(items["texts"].to_list(), dtype=np.int64)


def targets(items: pd.DataFrame, dataset: Dataset) -> np.ndarray:
    """Targets of a classifier: class numbers, shape (n,), int64; or indicators, shape (n, n_labels), float32."""
    if dataset.task == "single-label":
        return np.array([labels[0] for labels in items["labels"]], dtype=np.int64)
    indicators = np.zeros((len(items), len(dataset.label_names)), dtype=np.float32)
    for row, labels in enumerate(items["labels"]):
        indicators[row, labels] = 1
    return indicators
