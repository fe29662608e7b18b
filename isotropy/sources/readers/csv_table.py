"""CSV files with a header: named columns of texts and label."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotropy.sources.rows import Row
from isotropy.sources.spec import Content
from isotropy.sources.table_text import read_csv


def read(content: Content, folder: Path) -> Iterator[Row]:
    """A row per row: of a label, its name, where the content names the classes, else a score."""
    label = content.label_field
    for path in sorted(folder.glob("*.csv")):
        for line, row in read_csv(path, [*content.text_fields, *([label] if label else [])]):
            texts = tuple(row[field] for field in content.text_fields)
            if label is None or content.label_names:
                yield Row(texts, None if label is None else row[label])
                continue
            try:
                yield Row(texts, float(row[label]))
            except ValueError:
                raise ValueError(
                    f"{path.name}, line {line}, column {label}: expected a score, got "
                    f"{row[label]!r}"
                ) from None
