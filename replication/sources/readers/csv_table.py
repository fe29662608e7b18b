"""A user's tables with a header, .csv or .tsv: named columns of texts and label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotropy.read.table_text import read_csv
from replication.sources.rows import Row, parse_label
from replication.sources.spec import Content


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per record. A label is a class name where the content lists classes, else a score."""
    label = [] if content.label_field is None else [content.label_field]
    for path in sorted(folder.glob("*.[ct]sv")):
        for line, row in read_csv(path, [*content.text_fields, *label]):
            texts = tuple(row[field] for field in content.text_fields)
            yield Row(texts, parse_label(content, row, f"{path.name}, line {line}"))
