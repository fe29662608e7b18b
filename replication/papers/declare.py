"""Declare the tables and figures of a paper: a decorator above each function that makes one.

    @table("table1", runs="section3", kind="trajectory", published=True, section="3.1")
    def table1(runs, published): ...

The caption is the first paragraph of the function's docstring, unless the decorator has one. The
plan of a study parses the declarations from the source text of the modules, without importing them,
which would load pandas and matplotlib whenever a workflow is parsed. Therefore their arguments must
be literals. A paper's page shows tables and figures in the order of the modules.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from isotropy.errors import IsotropyError
from replication.figures.spec import FigureSpec
from replication.papers.locations import OF_ALL
from replication.spec import Spec, first_mistake
from replication.tables.spec import RunKind, RunPart, TableSpec

SpecT = TypeVar("SpecT", bound=Spec)
Function = TypeVar("Function", bound=Callable[..., Any])


def table(
    name: str,
    /,
    *,
    section: str,
    caption: str | None = None,
    title: str | None = None,
    tables: Sequence[str] = (),
    runs: str | None = None,
    kind: RunKind | None = None,
    part: RunPart | None = None,
    published: bool = False,
    repeats: str | None = None,
    repeats_choose: bool = False,
    needs: str | None = None,
) -> Callable[[Function], Function]:
    """Declare a table of a paper, made by the decorated function. A function can make several.

    The function's arguments are, as far as declared and in this order: the runs, as pairs of facts
    and rows; each of `tables`; the paper's published numbers. It returns a data frame.

    Args:
        name: name of the files `results/tables/<paper>/<name>.parquet`, `.csv`, `.md`.
        section: section of the paper.
        caption: description of the table, for the paper's page; from the docstring if None.
        title: its heading there; from the name if None.
        tables: other tables of the paper that it is made from.
        runs: group of runs that it is made from, by its name in the paper's `study.py`.
        kind: kind of these runs.
        part: name of the table to use, if a run has several.
        published: whether the function takes the paper's published numbers.
        repeats: path of the configuration field with the seeds, or the number of seeds, that a
            value is computed from.
        repeats_choose: whether half of these seeds choose hyper-parameters.
        needs: part of the paper that a study must include to have this table.
    """
    return _unchanged


def figure(
    name: str,
    /,
    *,
    section: str,
    caption: str | None = None,
    title: str,
    tables: Sequence[str] = (),
    interactive: Mapping[str, Any] | Sequence[Mapping[str, Any]] = (),
    needs: str | None = None,
) -> Callable[[Function], Function]:
    """Declare a figure of a paper, drawn by the decorated function.

    The function takes a data frame for each of `tables`, and returns a matplotlib figure.

    Args:
        name: name of the files `results/figures/<paper>/<name>.pdf`, `.svg`, `.png`.
        section: section of the paper.
        caption: description of the figure, for the paper's page; from the docstring if None.
        title: what is seen, for the figure itself and as its heading there.
        tables: tables of the paper that it is drawn from.
        interactive: what readers can explore below it (`replication.figures.spec.Interactive`), or
            several of these.
        needs: part of the paper that a study must include to have this figure.
    """
    return _unchanged


def _unchanged(function: Function) -> Function:
    return function


@cache
def declared_tables(paper: str, module: Path) -> tuple[TableSpec, ...]:
    """Parse the tables that a module declares, in order. `published` is an empty list, to be filled
    in, for tables that take published numbers, and None for others.

    Raises:
        IsotropyError: an argument of a declaration is not a literal, or is invalid.
    """
    return tuple(
        _spec(
            TableSpec,
            module,
            {
                **fields,
                "published": [] if fields.get("published") else None,
                "tables": _table_ids(paper, fields.get("tables", [])),
            },
        )
        for fields in _declarations(paper, module, "table")
    )


@cache
def declared_figures(paper: str, module: Path) -> tuple[FigureSpec, ...]:
    """Parse the figures that a module declares, in order.

    Raises:
        IsotropyError: an argument of a declaration is not a literal, or is invalid.
    """
    return tuple(
        _spec(FigureSpec, module, {**fields, "tables": _table_ids(paper, fields.get("tables", []))})
        for fields in _declarations(paper, module, "figure")
    )


def _spec(model: type[SpecT], module: Path, fields: dict[str, Any]) -> SpecT:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        place = f"{module}, function {fields['function']}"
        raise IsotropyError(f"{place}: {first_mistake(error, model)}") from error


def _table_ids(paper: str, names: Sequence[str]) -> list[str]:
    return [name if name in OF_ALL else f"{paper}/{name}" for name in names]


def _declarations(paper: str, module: Path, decorator: str) -> list[dict[str, Any]]:
    """Parse the fields of each declaration: id, function, caption, and arguments of the
    decorator.
    """
    return [
        {
            "id": f"{paper}/{_literal(module, call.args[0])}",
            "function": node.name,
            **_caption(node),
            **{str(k.arg): _literal(module, k.value) for k in call.keywords},
        }
        for node in ast.parse(module.read_bytes()).body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == decorator
    ]


def _caption(function: ast.FunctionDef) -> dict[str, str]:
    """The field `caption` from the first paragraph of a docstring; no field without a docstring."""
    text = ast.get_docstring(function)
    return {} if text is None else {"caption": " ".join(text.partition("\n\n")[0].split())}


def _literal(module: Path, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise IsotropyError(
            f"{module}, line {node.lineno}: expected a literal in the declaration of a table or "
            f"figure, got {ast.unparse(node)}"
        ) from None
