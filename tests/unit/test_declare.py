"""Declarations of tables and figures: they are read without importing their modules, and errors
name the place."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from replication.claims.read import claims_figures
from replication.papers.declare import declared_tables
from replication.papers.locations import package
from replication.papers.registry import papers

DOCUMENTED = '''
@table("a", section="1")
def first(t):
    """What the table has,
    in one paragraph.

    What its columns mean.
    """

@table("b", section="1", caption="Another text.")
def second(t):
    """What the function does."""

@table("c", section="1")
def third(t): ...
'''


def test_the_caption_is_the_first_paragraph_of_the_docstring(tmp_path: Path) -> None:
    """Unless the decorator has one; without either the declaration is refused."""
    module = tmp_path / "tables.py"
    module.write_text(DOCUMENTED.partition('@table("c"')[0])
    captions = [spec.caption for spec in declared_tables("p", module)]
    assert captions == ["What the table has, in one paragraph.", "Another text."]
    undocumented = tmp_path / "undocumented.py"
    undocumented.write_text(DOCUMENTED)
    with pytest.raises(IsotropyError, match="function third: caption: missing"):
        declared_tables("p", undocumented)


def test_every_declared_function_exists() -> None:
    """In the module from which jobs load it, with a unique id."""
    for paper in papers():
        for name, specs in (("tables", paper.tables), ("figures", paper.figures)):
            module = import_module(f"{package(paper.key)}.{name}")
            assert specs
            assert all(callable(getattr(module, spec.function)) for spec in specs)
            assert len({spec.id for spec in specs}) == len(specs)
    assert [figure.id for figure in claims_figures()] == ["claims/published", "claims/scorecard"]
