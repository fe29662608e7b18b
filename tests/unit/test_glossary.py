"""The glossary: each term is used in the documentation, has its own meaning, and names an existing
file; abandoned terms are not used."""

from __future__ import annotations

import re
from pathlib import Path

ABANDONED_TERMS = ("machinery", "fork server", "forkserver", "catalogue.py", "comparison.py")


def rows(project: Path) -> tuple[list[tuple[str, str, str]], list[tuple[str, str, str]]]:
    """Read the words of this project, and those of the field."""
    text = (project / "docs/glossary.md").read_text("utf8")
    own, field = text.split("## Words of the field")
    row = re.compile(r"^\| ([^|`]+) \| ([^|]+) \| `([^`]+)` \|$", re.M)
    return row.findall(own), row.findall(field)


def pages(project: Path) -> dict[str, str]:
    """Read the documentation, without the glossary and the folder `upstream`."""
    files = [*(project / "docs").rglob("*.md"), project / "README.md", project / "CONTRIBUTING.md"]
    return {
        p.relative_to(project).as_posix(): p.read_text("utf8")
        for p in files
        if p.name != "glossary.md" and "upstream" not in p.parts
    }


def test_terms_are_used_and_files_exist(project: Path) -> None:
    own, field = rows(project)
    assert 25 <= len(own) <= 35
    table = [
        (word, meaning, path) for words, meaning, path in own + field for word in words.split(", ")
    ]
    words = [word for word, _, _ in table]
    assert len(set(words)) == len(words)
    texts = " ".join(pages(project).values()).lower()
    for word, meaning, path in table:
        assert re.search(rf"\b{re.escape(word.lower())}(s\b|(?!\w))", texts), word
        assert (project / path).exists(), path
        assert len(meaning.split()) >= 4
    assert len({meaning for _, meaning, _ in own + field}) == len(own + field)


def test_abandoned_terms_are_not_used(project: Path) -> None:
    used = [
        f"{name}: {w}"
        for name, text in pages(project).items()
        for w in ABANDONED_TERMS
        if w in text
    ]
    assert used == []
