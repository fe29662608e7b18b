"""Declarations of tables and figures: they are read without importing their modules, and errors
name the place."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from isotropy.claims.read import claims_figures
from isotropy.errors import IsotropyError
from isotropy.papers.declare import declared_figures, declared_tables
from isotropy.papers.locations import package
from isotropy.papers.registry import papers

DECLARED = '@{kind}({name}, section="1", caption="What.", {more})\ndef draw(t):\n    return t\n'


@pytest.mark.parametrize(
    ("kind", "name", "more", "message"),
    [
        ("table", '"a"', "runs=RUNS", "line 1: expected a literal in the declaration .*, got RUNS"),
        ("table", '"a"', 'kynd="layer"', "function draw: kynd: unknown key; did you mean 'kind'?"),
        ("table", '"a"', 'kind="leyer"', "function draw: kind: Input should be .*, got 'leyer'"),
        ("figure", "NAME", "", "line 1: expected a literal in the declaration .*, got NAME"),
        ("figure", '"a"', "needs=3", "function draw: needs: Input should be a valid string, got 3"),
    ],
)
def test_errors_in_declarations_name_the_place(
    kind: str, name: str, more: str, message: str, tmp_path: Path
) -> None:
    module = tmp_path / "tables.py"
    module.write_text(DECLARED.format(kind=kind, name=name, more=more))
    read = declared_tables if kind == "table" else declared_figures
    with pytest.raises(IsotropyError, match=message):
        read("p", module)


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


def test_planning_loads_no_pandas_and_no_matplotlib() -> None:
    program = (
        "import sys; from isotropy.papers.registry import papers\n"
        "assert all(paper.tables and paper.figures for paper in papers())\n"
        "print(sorted({'pandas', 'matplotlib', 'torch', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
