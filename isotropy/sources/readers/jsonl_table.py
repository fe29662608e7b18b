"""A user's files of JSON lines: named keys of texts and label, UTF-8 with or without a byte order
mark.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from isotropy.sources.rows import Row
from isotropy.sources.spec import Content
from isotropy.sources.table_text import parse_label


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per line that is not blank. A label is a class name where the content lists classes,
    else a score.
    """
    for path in sorted(folder.glob("*.jsonl")):
        with path.open(encoding="utf-8-sig") as stream:
            for number, line in enumerate(stream, start=1):
                if line.strip():
                    row = json.loads(line)
                    texts = tuple(row[field] for field in content.text_fields)
                    yield Row(texts, parse_label(content, row, f"{path.name}, line {number}"))
