"""The values of an interactive figure as a script, from the tables of the printed one. Scripts are
what a page that was opened as a file can load.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd

from replication.figures.spec import Beside, FigureSpec, Interactive

MOST_POINTS = 1000
"""Most points of a figure; of more, a part is taken."""
DIGITS = 4
"""Significant digits of values; whole numbers keep all of theirs."""
VARIABLE = "figureValues"
"""Global variable of the page with the values of its figures, by id."""


def values_script(figure: FigureSpec, tables: list[pd.DataFrame]) -> str:
    """Make the script of a figure, which adds its values to `VARIABLE`.

    Args:
        figure: the spec of a figure with `interactive`.
        tables: its tables.
    """
    most = MOST_POINTS // len(figure.interactive)
    data = [_data(twin, tables, most) for twin in figure.interactive]
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"(globalThis.{VARIABLE} ??= {{}})[{json.dumps(figure.id)}] = {text};\n"


def _data(twin: Interactive, tables: list[pd.DataFrame], most: int) -> dict[str, Any]:
    """Values of at most `most` points, and what is needed to draw and to describe them."""
    table = _select(tables[twin.table], twin.where)
    if twin.beside is not None:
        table = pd.concat([table, _beside(twin.beside, tables)], ignore_index=True)
    if twin.together is not None:
        columns = [twin.x, *twin.by, *twin.show]
        table = table.melt(columns, twin.y, var_name="curve", value_name="value")
        labels = {"value": twin.together} | twin.labels
        update = {"y": ["value"], "by": ["curve", *twin.by], "labels": labels}
        twin = twin.model_copy(update=update)
    names = None if pd.api.types.is_numeric_dtype(table[twin.x]) else list(table[twin.x].unique())
    if names is not None:
        table = table.assign(**{twin.x: table[twin.x].map(names.index)})
    table = table.dropna(subset=[twin.x]).dropna(subset=twin.y, how="all")
    shown = _thin(table.sort_values(twin.x, kind="stable") if twin.join else table, twin, most)
    return {
        **twin.model_dump(include={"title", "x", "y", "by", "show", "labels", "join", "log_x"}),
        "names": names,
        "note": _note(len(shown), len(table)),
        "values": {name: _numbers(shown[name]) for name in {twin.x: 0, **dict.fromkeys(twin.y)}},
        "levels": {name: _levels(shown[name], twin.where.get(name, [])) for name in twin.by},
        "texts": {name: [_text(value) for value in shown[name]] for name in twin.show},
    }


def _select(table: pd.DataFrame, where: dict[str, list[str | bool]]) -> pd.DataFrame:
    for column, values in where.items():
        table = table[table[column].isin(values)]
    return table


def _beside(beside: Beside, tables: list[pd.DataFrame]) -> pd.DataFrame:
    """Rows of another table, with the texts that the first one has."""
    rows = _select(tables[beside.table], beside.where)
    records = [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]
    texts = {name: [text.format(**row) for row in records] for name, text in beside.texts.items()}
    return rows.assign(**texts)


def _thin(table: pd.DataFrame, twin: Interactive, n: int) -> pd.DataFrame:
    """Take at most n rows: of each curve the same number, closer together at its
    beginning, where most changes; of more curves than that, every so many points.
    """
    if len(table) > n:
        curve = table.groupby(twin.by, sort=False, dropna=False).ngroup().to_numpy()
        most = max(2, n // (curve.max() + 1))
        rows = [np.flatnonzero(curve == i) for i in range(curve.max() + 1)]
        table = table.iloc[np.concatenate([of[_places(len(of), most)] for of in rows])]
    if len(table) > n:
        table = table.iloc[np.linspace(0, len(table) - 1, n).astype(int)]
    return table


def _places(n: int, most: int) -> np.ndarray:
    """Places of at most `most` of n rows, the first and the last included, shape (places,)."""
    if n <= most:
        return np.arange(n)
    return np.unique(np.rint(np.linspace(0, np.sqrt(n - 1), most) ** 2).astype(int))


def _note(shown: int, n: int) -> str:
    part = f"all {n:,}" if shown == n else f"{shown:,} of {n:,}, denser at the beginning of curves"
    return f"Points of the table: {part}. Values have {DIGITS} digits; the CSV has all."


def _numbers(column: pd.Series) -> list[Any]:
    if pd.api.types.is_integer_dtype(column):
        return [int(value) for value in column]
    return [float(f"{v:.{DIGITS}g}") if np.isfinite(v) else None for v in column.astype(float)]


def _levels(column: pd.Series, order: list[str | bool]) -> dict[str, list[Any]]:
    """Values of a column as texts, in the given order, others after these, numbers by size; and the
    place of each row's value.
    """
    values = list(column.dropna().unique())
    if order:
        values.sort(key=lambda value: order.index(value) if value in order else len(order))
    elif pd.api.types.is_numeric_dtype(column):
        values.sort()
    names = [_text(value) for value in values]
    places = [names.index(_text(v)) if pd.notna(v) else len(names) for v in column]
    return {"names": names + ["none"] * bool(column.isna().any()), "places": places}


def _text(value: Any) -> str:
    """A value in words; empty if it is missing."""
    if pd.isna(value):
        return ""
    number = isinstance(value, float | np.floating)
    return f"{value:.{DIGITS}g}".replace("-", "−") if number else str(value)
