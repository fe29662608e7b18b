"""The values of a figure that readers can explore, as a script: the points that were drawn. Scripts
are what a page that was opened as a file can load.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator

from isotropy.printable import print_minus
from replication.figures.draw import POINTS

MOST_POINTS = 1000
"""Most points of a figure; of more, a part is taken."""
DIGITS = 4
"""Significant digits of values; whole numbers keep all of theirs."""
VARIABLE = "figureValues"
"""Global variable of the page with the values of its figures, by id."""
CURVE = ["line", "panel", "setup", "seed"]
"""Columns whose values readers can switch off. Points with the same values in all are a curve. The
first with several values has colours, the second dashes or markers.
"""


def values_script(name: str, figure: Figure) -> str:
    """Make the script of a figure, which adds its points to `VARIABLE`: charts with the same
    horizontal axis are a view.
    """
    points = _points(figure)
    views = [rows for _, rows in points.groupby("x_label", sort=False)] if len(points) else []
    data = [_view(rows, MOST_POINTS // len(views), titled=len(views) > 1) for rows in views]
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return f"(globalThis.{VARIABLE} ??= {{}})[{json.dumps(name)}] = {text};\n"


def _points(figure: Figure) -> pd.DataFrame:
    """All points, with the texts of their panel. A panel without labels has those beside it."""
    drawn: Any = [axes for axes in figure.axes if axes in POINTS]
    parts = []
    for axes in drawn:
        place = axes.get_subplotspec()
        row = [a for a in drawn if a.get_subplotspec().rowspan == place.rowspan]
        column = [a for a in drawn if a.get_subplotspec().colspan == place.colspan]
        title = (
            _first([axes, *column], lambda a: a.get_title("left"))
            .replace(",\n", ", ")
            .partition("\n")[0]
        )
        texts = {
            "y_label": _first([axes, *row], Axes.get_ylabel).rpartition("\n")[2],
            "x_label": _first([axes, *column], Axes.get_xlabel),
            "panel": title,
            "log_x": axes.get_xscale() == "log",
        }
        for points in POINTS[axes]:
            setup = points.get("setup", title)
            names = pd.Series([_tick_names(axes)] * len(points), points.index, dtype=object)
            parts.append(points.assign(**texts, setup=setup, names=names))
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame()


def _tick_names(axes: Axes) -> list[str] | None:
    """Texts that stand on the horizontal axis for 0, 1, 2, ..., if it has such."""
    if not isinstance(axes.xaxis.get_major_locator(), FixedLocator):
        return None
    names = [text.get_text() for text in axes.get_xticklabels()]
    places = list(axes.get_xticks())
    return names if all(names) and places == list(range(len(names))) else None


def _first(axes_list: Iterable[Axes], text: Callable[[Axes], str]) -> str:
    return next(filter(None, map(text, axes_list)), "")


def _view(points: pd.DataFrame, most: int, *, titled: bool) -> dict[str, Any]:
    """Values of at most `most` points, and what is needed to draw and to describe them."""
    first = points.iloc[0]
    x, charts = first["x_label"], list(dict.fromkeys(points["y_label"]))
    by = _curve_columns(points)
    points = points.dropna(subset=["x", "y"])
    points = points.assign(**{c: points["y"].where(points["y_label"] == c) for c in charts})
    points["nth"] = points.groupby([*by, "y_label"], dropna=False).cumcount()
    at_once = points.groupby([*by, "x", "nth"], sort=False, dropna=False, as_index=False)
    table = at_once.first().rename(columns={"x": x})
    join = bool(first["join"]) and not table.duplicated([*by, x]).any()
    shown = _thin(table.sort_values(x, kind="stable") if join else table, by, most)
    texts = [name for name in ("from", "to", "update", "sample") if name in points]
    levels = {name: _levels(shown[name]) for name in by}
    several = [name for name in by if len(levels[name]["names"]) > 1]
    return {
        "title": x if titled else "",
        "x": x,
        "y": charts,
        "by": by,
        "show": texts,
        "join": join,
        "log_x": bool(points["log_x"].all() and (points["x"] > 0).all()),
        "names": first["names"],
        "note": _note(len(shown), len(table)),
        "values": {name: _numbers(shown[name]) for name in (x, *charts)},
        "levels": levels,
        "colours": _colours(shown, several[0]) if several else [],
        "texts": {name: [_text(value) for value in shown[name]] for name in texts},
    }


def _curve_columns(points: pd.DataFrame) -> list[str]:
    """Columns of `CURVE` that tell curves apart: none that follows from the others."""
    by = [name for name in CURVE if name in points]
    for name in sorted(by[1:], key=lambda name: (-points[name].nunique(), name)):
        others = [other for other in by if other != name]
        if points.groupby(others, dropna=False)[name].nunique().max() <= 1:
            by = others
    return by


def _thin(table: pd.DataFrame, by: list[str], n: int) -> pd.DataFrame:
    """Take at most n rows: of each curve the same number, closer together at its
    beginning, where most changes; of more curves than that, every so many points.
    """
    if len(table) > n:
        curve = table.groupby(by, sort=False, dropna=False).ngroup().to_numpy()
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
    return f"Points of the figure: {part}. Values have {DIGITS} digits; the CSV has all."


def _numbers(column: pd.Series) -> list[Any]:
    finite = column.where(np.isfinite(column))
    rounded = [float(f"{v:.{DIGITS}g}") if v % 1 else int(v) for v in finite.fillna(0)]
    return [v if shown else None for v, shown in zip(rounded, finite.notna(), strict=True)]


def _levels(column: pd.Series) -> dict[str, list[Any]]:
    """Values of a column as texts, numbers by size; and the place of each row's value."""
    values = list(column.dropna().unique())
    if pd.api.types.is_numeric_dtype(column):
        values.sort()
    places = [values.index(v) if pd.notna(v) else len(values) for v in column]
    names = [_text(value) for value in values] + ["none"] * bool(column.isna().any())
    return {"names": names, "places": places}


def _colours(shown: pd.DataFrame, column: str) -> list[str]:
    """The figure's colour of each value of a column; none where one has several, or two have the
    same.
    """
    of_values = shown.groupby(_levels(shown[column])["places"])["colour"].unique()
    colours = [str(found[0]) for found in of_values if len(found) == 1 and found[0]]
    return colours if len(set(colours)) == len(of_values) else []


def _text(value: Any) -> str:
    """A value in words; empty if it is missing."""
    if pd.isna(value):
        return ""
    number = isinstance(value, float | np.floating)
    return print_minus(f"{value:.{DIGITS}g}") if number else str(value)
