"""JSON lines of a hub data set, plain or compressed: named keys of texts and label."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from isotropy.read.archives import decompress
from replication.sources.rows import Row
from replication.sources.spec import Content


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per line."""
    for path in sorted([*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")]):
        data = decompress(path) if path.suffix == ".gz" else path.read_bytes()
        for line in data.decode("utf8").split("\n"):
            if line:
                row = json.loads(line)
                label = None if content.label_field is None else row[content.label_field]
                yield Row(tuple(row[field] for field in content.text_fields), label)
