"""What figures share: panels with a title and a status, lines with intervals and names, notes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable
from math import ceil, sqrt
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colorbar import Colorbar
from matplotlib.colors import Normalize, to_hex
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from replication.figures.names import space_names
from replication.figures.style import COLOURS, GRADIENT, StableLayout, add_title
from replication.palette import PLACES, STATUS

MARKERS = "osD^vPX"
PANELS_PER_ROW = 3
GREY = "#555555"
DOTS: dict[str, Any] = {"s": 6, "linewidth": 0, "alpha": 0.8, "rasterized": True}
"""Small points, of which a panel has thousands: pixels in vector formats."""
OF_CLUSTERS = f"The {len(COLOURS) - 1} largest clusters have colours, others are grey."
"""Explanation of `largest_in_colour` for notes."""

Panels = list[tuple[Axes, pd.DataFrame]]
POINTS: WeakKeyDictionary[Axes, list[pd.DataFrame]] = WeakKeyDictionary()
"""Points of each panel, for readers who explore the figure."""


class Look(NamedTuple):
    """Colour, marker and dashes of a line, as matplotlib names them."""

    color: str
    marker: str = ""
    linestyle: str = "-"


def look(i: int, linestyle: str = "-") -> Look:
    """Look of the i-th line: no two of the first 56 have colour and marker in common."""
    n = len(COLOURS)
    return Look(COLOURS[i % n], MARKERS[(i + i // n) % len(MARKERS)], linestyle)


def looks(names: Iterable[str], linestyle: str = "-") -> dict[str, Look]:
    """Looks of named things, by name: those of `PLACES`, else the first that are free."""
    every = list(dict.fromkeys(names))
    free = (i for i in range(56) if i not in {PLACES.get(name) for name in every})
    return {name: look(PLACES[name] if name in PLACES else next(free), linestyle) for name in every}


def common_status(rows: pd.DataFrame) -> str:
    """`original` if all rows are, else `stand-in`."""
    return "original" if (rows["status"] == "original").all() else "stand-in"


def mark_status(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the status of rows (original or stand-in) above a panel, on the right."""
    status = common_status(rows)
    axes.set_title(status, loc="right", fontsize=8, color=STATUS[status])


def heading(axes: Axes, title: str, rows: pd.DataFrame | None = None) -> None:
    """Write a title above a panel, and the status of its rows."""
    axes.set_title(title, loc="left", fontsize=8.5)
    if rows is not None and len(rows):
        mark_status(axes, rows)


def panels(
    table: pd.DataFrame,
    by: str = "setup",
    *,
    rows: str | None = None,
    size: tuple[float, float] = (2.2, 2.0),
    title: Callable[[pd.DataFrame], str] | None = None,
    per_row: int = PANELS_PER_ROW,
    **labels: str,
) -> tuple[Figure, Panels]:
    """Make a figure with a panel per group of rows, and room for names of lines on the right.

    Args:
        table: one row per point.
        by: column of the groups, in the order of the table.
        rows: column whose groups begin a new row of panels each; None: rows are filled up.
        size: width and height of a panel in inches.
        title: title of a panel, from its rows; the group's name if None.
        per_row: most panels beside each other.
        labels: `xlabel`, below the lowest panels, and `ylabel`, left of the first: see `label`.

    Returns:
        The figure, and each panel with its rows.
    """
    parts = [part for _, part in table.groupby(rows, sort=False)] if rows else [table]
    split = [list(part.groupby(by, sort=False)) for part in parts]
    most = max(map(len, split))
    columns = most if most <= per_row else min(per_row, ceil(sqrt(most)) if not rows else per_row)
    lines = [part[i : i + columns] for part in split for i in range(0, len(part), columns)]
    width = max(size[0] * columns + 1.3, 4.8 if columns == 1 else 0)
    figure = Figure(figsize=(width, size[1] * len(lines) + 0.9))
    grid = figure.subplots(len(lines), columns, squeeze=False)
    drawn = []
    for axes_row, below, line in zip(grid, [*lines[1:], []], lines, strict=True):
        hide_unused(axes_row, len(line))
        for i, (axes, (name, group)) in enumerate(zip(axes_row, line, strict=False)):
            text = title(group) if title else str(name).replace(", ", ",\n")
            heading(axes, text, group.dropna(subset="status"))
            hidden = {"xlabel": len(below) > i, "ylabel": i > 0}
            label(axes, **{k: "" if hidden[k] else text for k, text in labels.items()})
            label_ticks(axes, labels.get("xlabel", ""))
            drawn.append((axes, group))
    return figure, drawn


def grid(
    table: pd.DataFrame, by: str, columns: int, *, size: tuple[float, float], **options: Any
) -> tuple[Figure, list[tuple[np.ndarray, pd.DataFrame]]]:
    """Make a figure with a row of panels per group; `size` is that of a panel, in inches.

    Returns:
        The figure, and each row of panels with its rows of the table.
    """
    groups = [group for _, group in table.groupby(by, sort=False)]
    figure = Figure(figsize=(size[0] * columns + 0.4, size[1] * len(groups) + 0.8))
    axes = figure.subplots(len(groups), columns, squeeze=False, **options)
    return figure, list(zip(axes, groups, strict=True))


def hide_unused(axes_list: Iterable[Axes], n_used: int) -> None:
    """Remove all panels but the first `n_used`."""
    for axes in list(axes_list)[n_used:]:
        axes.remove()


def label(axes: Axes, **labels: Any) -> None:
    """Label the axes of a panel; along layers, epochs, clusters or updates, ticks are at whole
    numbers.
    """
    axes.set(**labels)
    label_ticks(axes, labels.get("xlabel", ""))


def label_ticks(axes: Axes, name: str) -> None:
    """Put the ticks of a horizontal axis with that name at whole numbers, if it has only these."""
    if name.startswith(("layer", "epoch", "clusters", "update")):
        axes.xaxis.set_major_locator(MaxNLocator(5 if name == "update" else 10, integer=True))


def curve(
    axes: Axes,
    rows: pd.DataFrame,
    x: str,
    y: str,
    name: str | None,
    style: Look,
    interval: tuple[str, str] | None = None,
    *,
    band: bool = False,
    **options: Any,
) -> None:
    """Draw a line through the mean of the rows at each x, with its interval.

    Args:
        axes: the panel.
        rows: several rows with the same x (seeds, samples) are averaged.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        name: in the legend.
        style: of the line.
        interval: columns with the ends of an interval that the table has; None for the mean ± one
            standard deviation of the rows at the same x.
        band: shade the standard deviation, for lines with many points.
        options: of `seaborn.lineplot` and matplotlib's lines.
    """
    import seaborn as sns

    labels = {"xlabel": axes.get_xlabel(), "ylabel": axes.get_ylabel()}
    style_of_line = {"markeredgecolor": style.color} | style._asdict() | options
    sns.lineplot(
        rows.astype({x: float}),
        x=x,
        y=y,
        ax=axes,
        label=name,
        legend=False,
        errorbar=None if interval else "sd",
        err_style="band" if band else "bars",
        err_kws={"alpha": 0.2, "linewidth": 0} if band else {"capsize": 2},
        **style_of_line,
    )
    axes.set(**labels)  # seaborn labels axes that have no label
    record(axes, rows, x, y, name, interval, colour=style.color)
    if interval:
        horizontal = options.get("orient") == "y"
        whiskers(axes, rows, (x, y), interval, horizontal=horizontal, color=style.color)


def record(
    axes: Axes,
    rows: pd.DataFrame,
    x: str,
    y: str,
    name: str | None,
    interval: tuple[str, str] | None = None,
    *,
    colour: Any = None,
    join: bool = True,
) -> None:
    """Keep the points of a line, or of a set of points, for readers who explore the figure.

    Args:
        axes: the panel.
        rows: one row per point.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        name: in the legend.
        interval: columns with the ends of an interval.
        colour: of the line or points, if they have one.
        join: whether a line through the points means something.
    """
    points: dict[str, Any] = {"x": rows[x].astype(float), "y": rows[y].astype(float)}
    kept = {"setup": "setup", "seed": "seed", "repeat": "sample", "step": "update"}
    if "setup" in rows and rows["setup"].nunique() > 1:
        del kept["setup"]  # along the line, not of it
    points |= {kept[column]: rows[column] for column in kept if column in rows and column != x}
    points |= {
        end: rows[column] for end, column in zip(("from", "to"), interval or (), strict=False)
    }
    points |= {"line": re.sub("[${}]", "", name or ""), "join": join}
    points["colour"] = None if colour is None else to_hex(colour)
    POINTS.setdefault(axes, []).append(pd.DataFrame(points, index=rows.index))


def whiskers(
    axes: Axes,
    rows: pd.DataFrame,
    point: tuple[str, str],
    interval: tuple[str, str],
    *,
    horizontal: bool = False,
    **options: Any,
) -> None:
    """Draw intervals that the table has, as bars with caps; none where an end is missing.

    Args:
        axes: the panel.
        rows: one row per interval.
        point: columns of the values, x and y.
        interval: columns of the lower and the upper end.
        horizontal: whether the intervals are along x.
        options: of `Axes.errorbar`.
    """
    x, y = (rows[column].to_numpy(float) for column in point)
    value = x if horizontal else y
    low, high = (rows[column].to_numpy(float) for column in interval)
    drawn = np.isfinite(low) & np.isfinite(high)
    if not drawn.any():
        return
    ends: Any = np.maximum([value - low, high - value], 0)[:, drawn]
    style: dict[str, Any] = {"linestyle": "", "capsize": 2, "lw": 1.2} | options
    axes.errorbar(x[drawn], y[drawn], **{"xerr" if horizontal else "yerr": ends}, **style)


def largest_in_colour(clusters: pd.Series) -> list[str]:
    """Colours of points by the size of their cluster: grey for all but the largest seven."""
    colours = dict(zip(clusters.value_counts().index, COLOURS, strict=False))
    return [colours.get(name, COLOURS[-1]) for name in clusters]


def share_scale(axes_list: Iterable[Axes], axis: Literal["x", "y"] = "y") -> None:
    """Give panels that are to be compared the same scale, on which the points of all have room."""
    compared = list(axes_list)
    low, high = zip(*(getattr(axes, f"get_{axis}lim")() for axes in compared), strict=True)
    for axes in compared:
        axes.set(**{f"{axis}lim": (min(low), max(high))})


def finish(figure: Figure) -> None:
    """Write what the figure shows (its suptitle) above all panels, and the status once where all
    panels have the same; move names of lines apart.

    Args:
        figure: one that a function of a paper's `figures.py` has drawn.
    """
    figure.set_layout_engine(StableLayout())
    title = figure.get_suptitle()
    figure.suptitle("").set_in_layout(False)
    marked = [axes for axes in figure.axes if axes.get_title("right") in STATUS]
    statuses = {axes.get_title("right") for axes in marked if axes.get_visible()}
    status = statuses.pop() if len(statuses) == 1 else ""
    if status:
        for axes in marked:
            axes.set_title("", loc="right")
    if title or status:
        add_title(figure, title, status)
    space_names(figure)


def colour_bar(
    figure: Figure, axes: Any, norm: Normalize, text: str, palette: Any = GRADIENT, **options: Any
) -> Colorbar:
    """Explain the colours of points or lines beside one or several panels."""
    return figure.colorbar(ScalarMappable(norm, palette), ax=axes, label=text, **options)


def forbid_verdict(figure: Figure, *, too_short: bool) -> None:
    """Say first in a figure's title that there is no verdict on performance, where training was too
    short for one.
    """
    if too_short:
        parts = ("Training too short: no verdict on performance", figure.get_suptitle())
        figure.suptitle(". ".join(filter(None, parts)))


def footnote(figure: Figure, text: str) -> None:
    """Set a note to the figure: data, status, schedule. The PDF shows it below the figure; for
    other formats the page that shows the figure does (`note`).
    """
    width = int(13 * figure.get_size_inches()[0])  # characters
    figure.set_label("\n".join(textwrap.wrap(text, width, break_on_hyphens=False)))


def note(figure: Figure) -> str:
    """The note to a figure, as one paragraph; empty without one."""
    return " ".join(str(figure.get_label() or "").split())


def distinct(table: pd.DataFrame, column: str) -> str:
    """The distinct texts of a column, joined by semicolons."""
    return "; ".join(text for text in dict.fromkeys(table[column]) if text)


def sources(table: pd.DataFrame) -> str:
    """Data and models of a table, as sentences for a note."""
    return f"Data: {distinct(table, 'data')}. Models: {distinct(table, 'model')}."


def repeats(n: int, name: str) -> str:
    """What a mean with a standard deviation is over: `mean ± sd over 5 seeds`, or `one seed`."""
    return f"one {name}" if n == 1 else f"mean ± sd over {n} {name}s"


def repeats_per_setup(table: pd.DataFrame, name: str = "seed") -> str:
    """As `repeats`, where setups have different numbers of seeds: `mean ± sd over 3 to 5 seeds`."""
    counts = table.groupby("setup")[name].nunique()
    if counts.min() == counts.max():
        return repeats(int(counts.max()), name)
    return f"mean ± sd over {counts.min()} to {counts.max()} {name}s"


def number_range(numbers: pd.Series) -> str:
    """The smallest and the largest of whole numbers: `100 to 1,000`, or `100`."""
    low, high = int(numbers.min()), int(numbers.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
