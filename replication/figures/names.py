"""Names of lines and marks: beside the lines where these are few, else in a legend."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from math import ceil
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text

MOST_DIRECT = 4
"""Lines of a panel that have their names beside them; more have a legend."""
AT_ONE_PLACE = 0.04
"""Share of a panel's height within which ends of lines are at one place."""
NAMES = 1.2
"""Room for the names of lines between panels, in inches."""


def legend(figure: Figure, **options: Any) -> None:
    """Name the lines and marks of all panels, each once: beside the last panel of the first row
    that has them, where these are at most four lines; else in a legend above the panels.
    """
    drawn = [axes for axes in figure.axes if axes.get_visible() and axes.get_subplotspec()]
    named = {
        text: (handle, axes)
        for axes in sorted(drawn, key=_towards_top_right)
        for handle, text in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    width, height = figure.get_size_inches()
    of_panels: dict[Axes, list[Any]] = {}
    for handle, axes in named.values():
        of_panels.setdefault(axes, []).append(handle)
    if all(len(of) <= MOST_DIRECT and all(map(is_line, of)) for of in of_panels.values()):
        figure.set_size_inches(width + NAMES * (len(of_panels) - 1), height)
        for axes, lines in of_panels.items():
            name_lines(axes, lines)
        return
    columns = max(1, int(72 * width / (4.6 * max(map(len, named), default=1) + 30)))
    figure.set_size_inches(width, height + 0.18 * ceil(len(named) / columns))
    style: dict[str, Any] = {"frameon": False, "loc": "outside upper left", "ncols": columns}
    figure.legend([handle for handle, _ in named.values()], list(named), **style | options)


def is_line(handle: Any) -> bool:
    """Whether the entry of a legend is a line in a panel, not marks or an area."""
    if not isinstance(handle, Line2D) or handle.get_linestyle() in ("None", "", " "):
        return False
    return bool(np.isfinite(np.asarray(handle.get_ydata(), float)).any())


def name_lines(axes: Axes, lines: Iterable[Line2D]) -> None:
    """Write the label of each line to the right of a panel, joined to the line's end; `finish`
    moves them apart. That of a line that ends in the left half is at its end, as a join across
    the panel would look like data.
    """
    axes.autoscale_view()
    # Joins that end at one place are in the order of the lines
    named = [line for line in lines if not str(line.get_label()).startswith("_")]
    for line in sorted(named, key=lambda line: np.nanmean(np.asarray(line.get_ydata(), float))):
        x, y = (np.asarray(values, float) for values in line.get_data())
        end = np.flatnonzero(np.isfinite(x) & np.isfinite(y))[-1:]
        across = len(x) == 2 and line.get_transform() == axes.get_yaxis_transform(which="grid")
        where = axes.get_yaxis_transform() if across else axes.transData
        text = textwrap.fill(str(line.get_label()), 20, break_on_hyphens=False)
        point = (x[end[0]], y[end[0]])
        if axes.transAxes.inverted().transform(where.transform(point))[0] < 0.5:
            rises = y[end[0]] >= y[max(0, end[0] - 1)]
            style: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}
            style |= {"va": "bottom" if rises else "top", "color": line.get_color()}
            axes.annotate(text, point, (0, 6 if rises else -6), **style)
            continue
        axes.annotate(
            text, point, (1.07, 0.5), xycoords=where, textcoords="axes fraction",
            va="center", annotation_clip=False, gid="name",
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "lw": 1.2, "shrinkA": 1,
                        "shrinkB": 1, "ls": line.get_linestyle(), "relpos": (0, 0.5)},
        )  # fmt: skip


def space_names(figure: Figure) -> None:
    """Move the names of lines to the heights of their lines, as far as they do not overlap."""
    names = [a for a in figure.findobj(Annotation) if a.get_gid() == "name"]
    if not names:
        return
    figure.draw_without_rendering()
    for axes in [axes for axes in figure.axes if any(name.axes is axes for name in names)]:
        of_panel = [name for name in names if name.axes is axes]
        bottom, panel_height = axes.bbox.y0, axes.bbox.height
        ends = [(name, (_end(name) - bottom) / panel_height) for name in of_panel]
        ends.sort(key=lambda pair: pair[1])
        apart = np.cumsum(np.diff([end for _, end in ends], prepend=ends[0][1]) > AT_ONE_PLACE)
        order = sorted(range(len(ends)), key=lambda i: (apart[i], of_panel.index(ends[i][0])))
        ends = [ends[i] for i in order]
        sizes = [Text.get_window_extent(name).height / panel_height + 0.02 for name, _ in ends]
        # From below, then from above, where they would be too high
        middles = [height for _, height in ends]
        for i in range(1, len(middles)):
            middles[i] = max(middles[i], middles[i - 1] + (sizes[i - 1] + sizes[i]) / 2)
        limit = max(1.0, sum(sizes))
        for i in reversed(range(len(middles))):
            middles[i] = min(middles[i], limit - sizes[i] / 2)
            limit = middles[i] - sizes[i] / 2
        for (name, _), middle in zip(ends, middles, strict=True):
            name.set_position((1.07, middle))


def _end(name: Annotation) -> float:
    """Height of the end of the line that is named, in pixels."""
    transform: Any = name.xycoords
    return float(transform.transform(name.xy)[1])


def _towards_top_right(axes: Axes) -> tuple[int, int]:
    """Sort panels from the lowest row to the first, in each from left to right."""
    place: Any = axes.get_subplotspec()
    return -place.rowspan.start, place.colspan.start
