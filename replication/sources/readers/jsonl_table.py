"""A user's files of JSON, an object per line or one array: named keys of texts and label, UTF-8
with or without a byte order mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotropy.read.table_text import read_json_objects
from replication.sources.rows import Row, parse_label
from replication.sources.spec import Content


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per object. A label is a class name where the content lists classes, else a score."""
    for path in sorted(folder.glob("*.jsonl")):
        for place, row in read_json_objects(path):
            texts = tuple(row[field] for field in content.text_fields)
            yield Row(texts, parse_label(content, row, place))
