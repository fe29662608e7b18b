"""The English dictionary of CoDWoE, as CSV: a row per word, labelled by parts of speech."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from isotropy.read.table_text import read_csv
from replication.sources.lexicons import PARTS_OF_SPEECH, group_by_word
from replication.sources.rows import Row
from replication.sources.spec import Content

LABEL_NAMES = PARTS_OF_SPEECH


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Lower-case word and the parts of speech of all its senses.

    Only nouns, verbs, adjectives and adverbs count: four labels, as the paper's number of
    parameters implies.
    """
    names = {
        "noun": "noun",
        "verb": "verb",
        "adj": "adjective",
        "adjective": "adjective",
        "adv": "adverb",
        "adverb": "adverb",
    }
    senses = [
        (row["word"].strip().lower(), row["pos"].strip().lower())
        for _, row in read_csv(folder / "en.complete.csv", ("word", "pos"), strict=False)
    ]
    return group_by_word((word, names[pos]) for word, pos in senses if pos in names)
