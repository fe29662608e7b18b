"""Declare the tables and figures of a paper: a decorator above each function that makes one.

    @table("table1", runs="section3", kind="trajectory", published=True, section="3.1")
    def table1(runs, published): ...

The caption is the first paragraph of the function's docstring, unless the decorator has one. A
paper's page shows tables and figures in the order of the modules.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any, TypeVar

from replication.figures.spec import FigureSpec
from replication.papers.locations import OF_ALL
from replication.tables.spec import TableSpec

SpecT = TypeVar("SpecT", TableSpec, FigureSpec)
Function = TypeVar("Function", bound=Callable[..., Any])


def table(
    name: str, /, *, published: bool = False, **fields: Any
) -> Callable[[Function], Function]:
    """Declare a table of a paper, made by the decorated function. A function can make several.

    The function's arguments are, as far as declared and in this order: the runs, as pairs of facts
    and rows; each of `tables`; the paper's published numbers. It returns a data frame.

    Args:
        name: name of the files `results/tables/<paper>/<name>.parquet`, `.csv`, `.md`.
        published: whether the function takes the paper's published numbers.
        fields: fields of `TableSpec`.
    """
    # An empty list is filled with the paper's numbers when the table is made
    return _declare(TableSpec, name, {**fields, "published": [] if published else None})


def figure(name: str, /, **fields: Any) -> Callable[[Function], Function]:
    """Declare a figure of a paper, drawn by the decorated function.

    The function takes a data frame for each of `tables`, and returns a matplotlib figure.

    Args:
        name: name of the files `results/figures/<paper>/<name>.pdf`, `.svg`, `.png`.
        fields: fields of `FigureSpec`.
    """
    return _declare(FigureSpec, name, fields)


def declared(module: ModuleType, kind: type[SpecT]) -> tuple[SpecT, ...]:
    """Return what the functions of a module declare, in the order of the module."""
    functions = [
        f for f in vars(module).values() if getattr(f, "__module__", "") == module.__name__
    ]
    specs = (spec for f in functions for spec in getattr(f, "declared", ()))
    return tuple(spec for spec in specs if isinstance(spec, kind))


def _declare(
    kind: type[SpecT], name: str, fields: dict[str, Any]
) -> Callable[[Function], Function]:
    def register(function: Function) -> Function:
        paper = function.__module__.split(".")[-2]
        tables = [t if t in OF_ALL else f"{paper}/{t}" for t in fields.get("tables", [])]
        paragraph = (inspect.getdoc(function) or "").partition("\n\n")[0]
        values = {
            "caption": " ".join(paragraph.split()),
            **fields,
            "id": f"{paper}/{name}",
            "function": function.__name__,
            "tables": tables,
        }
        # Decorators apply from the last to the first
        vars(function).setdefault("declared", []).insert(0, kind.model_validate(values))
        return function

    return register
