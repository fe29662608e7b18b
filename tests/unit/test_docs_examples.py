"""Examples with prompts (>>>) in the documentation give what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

PAGES = [
    path
    for path in sorted((Path(__file__).parents[2] / "docs").rglob("*.md"))
    if "\n>>> " in path.read_text("utf8")
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, with common names."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(>>> .*?)^```$", page.read_text("utf8"), re.M | re.S)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert example.examples
    output: list[str] = []
    doctest.DocTestRunner().run(example, out=output.append)
    assert not output, "".join(output)
