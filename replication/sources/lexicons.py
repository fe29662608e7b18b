"""Shared by the readers of lexicons: rows per word, parts of speech, WordNet's data files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from replication.sources.rows import Row

PARTS_OF_SPEECH = ["noun", "verb", "adjective", "adverb"]


def group_by_word(labels: Iterable[tuple[str, str]]) -> Iterator[Row]:
    """Group pairs of word and label into one row per word with all its labels, both in
    alphabetical order.
    """
    grouped: dict[str, set[str]] = {}
    for word, label in labels:
        grouped.setdefault(word, set()).add(label)
    for word in sorted(grouped):
        yield Row((word,), sorted(grouped[word]))


def synsets(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Parse a data file of WordNet: for each synset, the number of its lexicographer file, and its
    lemmas in lower case.
    """
    for line in path.read_text("utf8").split("\n"):
        if not line or line.startswith("  "):  # the licence at the top
            continue
        fields = line.split(" ")
        words = fields[4 : 4 + 2 * int(fields[3], 16) : 2]
        # Adjectives: "alive(p)" marks a position
        yield int(fields[1]), [word.split("(")[0].lower() for word in words]
