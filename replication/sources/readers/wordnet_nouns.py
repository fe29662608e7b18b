"""Nouns of WordNet, from its `data.noun`: a row per lemma, labelled by lexicographer files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.lexicons import group_by_word, synsets
from replication.sources.rows import Row
from replication.sources.spec import Content

NOUN_LEXNAMES = dict(
    enumerate(
        [
            "Tops",
            "act",
            "animal",
            "artifact",
            "attribute",
            "body",
            "cognition",
            "communication",
            "event",
            "feeling",
            "food",
            "group",
            "location",
            "motive",
            "object",
            "person",
            "phenomenon",
            "plant",
            "possession",
            "process",
            "quantity",
            "relation",
            "shape",
            "state",
            "substance",
            "time",
        ],
        start=3,
    )
)
"""WordNet's lexicographer files of nouns, by number (lexnames.5wn in its manual)."""
LABEL_NAMES = list(NOUN_LEXNAMES.values())


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Lower-case lemma and the names of its lexicographer files; `data.noun` may be split
    (`data.noun1`, `data.noun2`).
    """
    return group_by_word(
        (lemma, NOUN_LEXNAMES[lexname])
        for path in sorted(folder.glob("data.noun*"))
        for lexname, lemmas in synsets(path)
        for lemma in lemmas
    )
