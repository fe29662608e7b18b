"""Parquet files of a hub data set: named columns of texts and label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per labelled record (-1 is no label); without a label column, all records."""
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        labels = [] if content.label_field is None else [content.label_field]
        table = pyarrow.parquet.read_table(path, columns=[*content.text_fields, *labels])
        texts = zip(*(table[field].to_pylist() for field in content.text_fields), strict=True)
        if content.label_field is None:
            yield from (Row(tuple(row)) for row in texts)
            continue
        for row, label in zip(texts, table[content.label_field].to_pylist(), strict=True):
            if label is not None and label != -1:
                yield Row(tuple(row), label)
