"""Declarations of tables and figures."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

import pytest
from pydantic import ValidationError

from replication.papers.declare import declared, table
from replication.papers.locations import package
from replication.papers.registry import papers
from replication.tables.spec import TableSpec


def test_the_caption_is_the_first_paragraph_of_the_docstring() -> None:
    """Unless the decorator has one; without either the declaration is refused."""
    module = ModuleType("replication.papers.p.tables")

    def documented() -> None:
        """What the table has,
        in one paragraph.

        What its columns mean.
        """

    def undocumented() -> None: ...

    for function in (documented, undocumented):
        function.__module__ = module.__name__
    for name, caption in (("b", {"caption": "Another text."}), ("a", {})):
        module.documented = table(name, section="1", **caption)(documented)  # type: ignore[attr-defined]
    specs = declared(module, TableSpec)
    assert [spec.id for spec in specs] == ["p/a", "p/b"]
    assert [s.caption for s in specs] == ["What the table has, in one paragraph.", "Another text."]
    with pytest.raises(ValidationError, match="caption"):
        table("c", section="1")(undocumented)


def test_every_declared_function_exists() -> None:
    """In the module from which jobs load it, with a unique id."""
    for paper in papers():
        for name, specs in (("tables", paper.tables), ("figures", paper.figures)):
            module = import_module(f"{package(paper.key)}.{name}")
            assert specs
            assert all(callable(getattr(module, spec.function)) for spec in specs)
            assert len({spec.id for spec in specs}) == len(specs)
