"""Words of WordNet, from its data files: a row per lemma, labelled by parts of speech."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from replication.sources.lexicons import PARTS_OF_SPEECH, group_by_word, synsets
from replication.sources.rows import Row
from replication.sources.spec import Content

LABEL_NAMES = PARTS_OF_SPEECH


def read(_: Content, folder: Path) -> Iterator[Row]:
    """Lower-case lemma and the parts of speech that it has senses in."""
    return group_by_word(
        (lemma, name)
        for name, stem in zip(PARTS_OF_SPEECH, ("noun", "verb", "adj", "adv"), strict=True)
        for path in sorted(folder.glob(f"data.{stem}*"))
        for _, lemmas in synsets(path)
        for lemma in lemmas
    )
