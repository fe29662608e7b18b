"""A user's Parquet files: named columns of texts and label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row, parse_label
from replication.sources.spec import Content


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per record. A label is a class name where the content lists classes, else a score."""
    import pyarrow.parquet

    label = [] if content.label_field is None else [content.label_field]
    for path in sorted(folder.glob("*.parquet")):
        columns = list(dict.fromkeys([*content.text_fields, *label]))
        for number, row in enumerate(
            pyarrow.parquet.read_table(path, columns=columns).to_pylist(), start=1
        ):
            texts = tuple(row[field] for field in content.text_fields)
            yield Row(texts, parse_label(content, row, f"{path.name}, row {number}"))
