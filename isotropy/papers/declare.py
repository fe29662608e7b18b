"""Declare the tables and figures of a paper: a decorator above each function that makes one.

    @table("table1", runs="section3", kind="trajectory", published=True, section="3.1", caption="…")
    def table1(runs, published): ...

The plan of a study reads the declarations from the modules' text (`declared`), without importing
them: that would load pandas and matplotlib whenever a workflow is parsed. So their values are
literals, and a paper's tables and figures stand on its page in the order of its modules.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from isotropy.errors import IsotropyError
from isotropy.figures.spec import FigureSpec
from isotropy.papers.locations import OF_ALL
from isotropy.spec import Spec, first_mistake
from isotropy.tables.spec import RunKind, RunPart, TableSpec

SpecT = TypeVar("SpecT", bound=Spec)
Function = TypeVar("Function", bound=Callable[..., Any])


def table(
    name: str,
    /,
    *,
    section: str,
    caption: str,
    tables: Sequence[str] = (),
    runs: str | None = None,
    kind: RunKind | None = None,
    part: RunPart | None = None,
    published: bool = False,
    repeats: str | None = None,
    needs: str | None = None,
) -> Callable[[Function], Function]:
    """Declare a table of a paper, made by the decorated function. A function can make several.

    The function's arguments are, as far as declared and in this order: the runs, as pairs of facts
    and rows; each of `tables`; the paper's published numbers. It returns a data frame.

    Args:
        name: `results/tables/<paper>/<name>.parquet`, `.csv`, `.md`.
        section: section of the paper.
        caption: what the table shows, for its page.
        tables: other tables of the paper that it is made from.
        runs: group of runs that it is made from, as the paper's `study.py` names it.
        kind: what these runs are.
        part: which of the tables of a run, where it has several.
        published: whether it sets the paper's printed numbers beside ours.
        repeats: field of the paper's configuration that holds the seeds behind a value, or their
            number.
        needs: part of the paper without which there is no such table.
    """
    return _unchanged


def figure(
    name: str,
    /,
    *,
    section: str,
    caption: str,
    tables: Sequence[str] = (),
    needs: str | None = None,
) -> Callable[[Function], Function]:
    """Declare a figure of a paper, drawn by the decorated function.

    The function takes a data frame for each of `tables`, and returns a matplotlib figure.

    Args:
        name: `results/figures/<paper>/<name>.pdf`, `.svg`, `.png`.
        section: section of the paper.
        caption: what the figure shows, for its page.
        tables: tables of the paper that it reads.
        needs: part of the paper without which there is no such figure.
    """
    return _unchanged


def _unchanged(function: Function) -> Function:
    return function


@cache
def declared_tables(paper: str, module: Path) -> tuple[TableSpec, ...]:
    """The tables that a module declares, in its order. Published numbers are an empty list where
    the table takes them.

    Raises:
        IsotropyError: a declaration is not made of literals, or has a field that does not fit.
    """
    return tuple(
        _spec(
            TableSpec,
            module,
            {
                **fields,
                "published": [] if fields.get("published") else None,
                "tables": _ids(paper, fields.get("tables", [])),
            },
        )
        for fields in _declarations(paper, module, "table")
    )


@cache
def declared_figures(paper: str, module: Path) -> tuple[FigureSpec, ...]:
    """The figures that a module declares, in its order.

    Raises:
        IsotropyError: a declaration is not made of literals, or has a field that does not fit.
    """
    return tuple(
        _spec(FigureSpec, module, {**fields, "tables": _ids(paper, fields.get("tables", []))})
        for fields in _declarations(paper, module, "figure")
    )


def _spec(model: type[SpecT], module: Path, fields: dict[str, Any]) -> SpecT:
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        place = f"{module}, function {fields['function']}"
        raise IsotropyError(f"{place}: {first_mistake(error, model)}") from error


def _ids(paper: str, names: Sequence[str]) -> list[str]:
    return [name if name in OF_ALL else f"{paper}/{name}" for name in names]


def _declarations(paper: str, module: Path, decorator: str) -> list[dict[str, Any]]:
    """Fields of each declaration: its id, its function, and the decorator's arguments."""
    return [
        {
            "id": f"{paper}/{_literal(module, call.args[0])}",
            "function": node.name,
            **{str(k.arg): _literal(module, k.value) for k in call.keywords},
        }
        for node in ast.parse(module.read_bytes()).body
        if isinstance(node, ast.FunctionDef)
        for call in node.decorator_list
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == decorator
    ]


def _literal(module: Path, node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except ValueError:
        raise IsotropyError(
            f"{module}, line {node.lineno}: expected a literal in the declaration of a table or "
            f"figure, got {ast.unparse(node)}"
        ) from None
