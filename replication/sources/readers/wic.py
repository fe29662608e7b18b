"""Words in context, as Parquet: a word, two sentences with it, whether its sense is the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Both sentences, each with the word in front of it; rows without a label (-1) are left out."""
    import pyarrow.parquet

    for path in sorted(folder.glob("*.parquet")):
        for row in pyarrow.parquet.read_table(
            path, columns=["word", "sentence1", "sentence2", "label"]
        ).to_pylist():
            if row["label"] != -1:
                yield Row(
                    (f"{row['word']}: {row['sentence1']}", f"{row['word']}: {row['sentence2']}"),
                    row["label"],
                )
