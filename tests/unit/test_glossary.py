"""The glossary: each word is used on other pages, stands for one idea, and names a file; words that
were given up are not used."""

from __future__ import annotations

import re
from pathlib import Path

GIVEN_UP = ("machinery", "fork server", "forkserver", "catalogue.py", "comparison.py")


def rows(project: Path) -> list[tuple[str, str, str]]:
    text = (project / "docs/glossary.md").read_text("utf8")
    return re.findall(r"^\| ([^|`]+) \| ([^|]+) \| `([^`]+)` \|$", text, re.M)


def pages(project: Path) -> dict[str, str]:
    """The documentation but for the glossary and what reports on earlier versions."""
    found = [*(project / "docs").rglob("*.md"), project / "README.md", project / "CONTRIBUTING.md"]
    return {
        p.relative_to(project).as_posix(): p.read_text("utf8")
        for p in found
        if p.name != "glossary.md" and "upstream" not in p.parts
    }


def test_words_are_used_and_files_are_there(project: Path) -> None:
    table = rows(project)
    assert 25 <= len(table) <= 35
    words = [word for word, _, _ in table]
    assert len(set(words)) == len(words)
    texts = " ".join(pages(project).values()).lower()
    for word, meaning, path in table:
        assert re.search(rf"\b{word}s?\b", texts), word
        assert (project / path).exists(), path
        assert len(meaning.split()) >= 4
    assert len({meaning for _, meaning, _ in table}) == len(table)


def test_words_that_were_given_up(project: Path) -> None:
    used = [f"{name}: {w}" for name, text in pages(project).items() for w in GIVEN_UP if w in text]
    assert used == []
