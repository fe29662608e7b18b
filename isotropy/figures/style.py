"""One style for all figures, and files whose bytes are the same in every run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.rcsetup import cycler

from isotropy.palette import SERIES, STATUS

COLOURS = list(SERIES)
MARKERS = "osD^vPX"
PANELS_PER_ROW = 3
DPI = 200
"""Resolution of PNG files, and of rasterized parts of vector formats."""
BANNER = 0.4
"""Height of a banner, in inches."""
LARGEST_RASTER = 2**28
"""Bytes of pixels that matplotlib may hold while it writes a vector format."""

# seaborn's style "ticks" in the context "paper" with font_scale=1.1; a test compares the two.
# Written down, because importing seaborn takes a third of the time of drawing a figure.
_SEABORN: dict[Any, Any] = {
    "font.family": ["DejaVu Sans"],
    "axes.prop_cycle": cycler("color", COLOURS),
    "axes.axisbelow": True,
    "axes.linewidth": 1.0,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.8,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "patch.linewidth": 0.8,
    "grid.color": ".8",
    **dict.fromkeys(["axes.edgecolor", "axes.labelcolor", "text.color"], ".15"),
    **dict.fromkeys(["font.size", "axes.labelsize", "axes.titlesize"], 10.56),
    **dict.fromkeys(["legend.fontsize", "xtick.labelsize", "ytick.labelsize"], 9.68),
    "legend.title_fontsize": 10.56,
    **{f"{axis}tick.color": ".15" for axis in "xy"},
    **{f"{axis}tick.major.size": 4.8 for axis in "xy"},
    **{f"{axis}tick.major.width": 1.0 for axis in "xy"},
    **{f"{axis}tick.minor.size": 3.2 for axis in "xy"},
    **{f"{axis}tick.minor.width": 0.8 for axis in "xy"},
}
_OVERRIDES: dict[Any, Any] = {
    "svg.hashsalt": "isotropy",
    "pdf.fonttype": 42,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "figure.constrained_layout.use": True,
}

_METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
_MARK = {".pdf": "Keywords", ".svg": "Identifier", ".png": "Record"}


def use_style() -> None:
    """Set fonts, grid and colours, and make identifiers in SVG files the same in every run."""
    mpl.rcParams.update(_SEABORN | _OVERRIDES)


def line_style(i: int) -> tuple[str, str]:
    """Colour and marker of the i-th line: no two of the first 49 have both in common."""
    n = len(COLOURS)
    return COLOURS[i % n], MARKERS[(i + i // n) % len(MARKERS)]


def common_status(rows: pd.DataFrame) -> str:
    """`rehearsal` if any row is, `original` if all rows are, else `stand-in`."""
    if (rows["status"] == "rehearsal").any():
        return "rehearsal"
    return "original" if (rows["status"] == "original").all() else "stand-in"


def mark_status(axes: Axes, rows: pd.DataFrame) -> None:
    """Write the status of rows (original, stand-in or rehearsal) above a panel, on the right."""
    status = common_status(rows)
    axes.set_title(status, loc="right", fontsize=9, color=STATUS[status])


def panels(
    table: pd.DataFrame, by: str, width: float, height: float
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """Make a figure with a panel per group and room for a legend on the right. `width` and `height`
    are those of a panel, in inches. Returns the figure, and each panel with its rows.
    """
    groups = [group for _, group in table.groupby(by, sort=False)]
    columns = min(len(groups), PANELS_PER_ROW)
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(width * columns + 2.2, height * rows + 1.0))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(groups) :]:
        axes.set_visible(False)
    return figure, list(zip(grid.flat, groups, strict=False))


def titles(table: pd.DataFrame, column: str) -> str:
    """The distinct texts of a column, joined by semicolons."""
    return "; ".join(dict.fromkeys(table[column]))


def common_legend(figure: Figure, panels: Iterable[Axes], **options: Any) -> None:
    """One legend for all panels, each name once."""
    named = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(list(named.values()), list(named), fontsize=8, **options)


def footnote(figure: Figure, text: str, *, width: int = 118) -> None:
    """Set a note to the figure: data, status, schedule. The PDF shows it below the figure, wrapped
    at `width` characters; for other formats the page that shows the figure does (`note`).
    """
    lines = [
        line for paragraph in text.split("\n") for line in textwrap.wrap(paragraph, width) or [""]
    ]
    figure.set_label("\n".join(lines))


def banner(figure: Figure, text: str) -> None:
    """Make a figure taller by a strip with a text, above panels and legends."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + BANNER)
    banner_bottom = height / (height + BANNER)
    figure.set_layout_engine("constrained", rect=(0, 0, 1, banner_bottom))
    for legend in figure.legends:
        if legend._outside_loc == "upper":  # type: ignore[attr-defined]  # it has no public name
            legend.borderaxespad += 72 * BANNER / legend.prop.get_size()
    # On the left, since legends beside the panels stand at the top on the right
    line = figure.text(0.02, (1 + banner_bottom) / 2, text, color="white", fontsize=10, va="center")
    line.set_backgroundcolor(STATUS["rehearsal"])
    line.set_in_layout(False)


def note(figure: Figure) -> str:
    """The note to a figure, as one paragraph; empty without one."""
    return " ".join(str(figure.get_label() or "").split())


def save(figure: Figure, path: Path, mark: str) -> None:
    """Write a figure in the format of the path's suffix, with the mark of its record, without dates
    or versions. A PDF, which is passed on without its page, contains the note.
    """
    suffix = next(s for s in _METADATA if s in path.name)
    lines = str(figure.get_label() or "") if suffix == ".pdf" else ""
    figure.supxlabel(lines, x=0.01, ha="left", fontsize=7.5, color="#333333")
    metadata = _METADATA[suffix] | {_MARK[suffix]: mark}
    with _merge_rasterized(figure, skip=suffix == ".png"):
        figure.savefig(path, format=suffix[1:], dpi=DPI, metadata=metadata)


@contextmanager
def _merge_rasterized(figure: Figure, *, skip: bool) -> Iterator[None]:
    """Replace the rasterized artists of each panel by one picture, where they would take much
    memory.

    For each rasterized artist matplotlib makes a picture of the whole page, and keeps it until the
    file is written: 20 GB for 108 panels of points.
    """
    pixels = [a for axes in figure.axes for a in axes.get_children() if a.get_rasterized()]
    page = 4 * DPI**2 * float(np.prod(figure.get_size_inches()))
    if skip or page * len(pixels) <= LARGEST_RASTER:
        yield
        return
    engine = figure.get_layout_engine()
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # the panels stay where they are
    pictures = [_add_picture(axes, drawn) for axes, drawn in _draw_alone(figure, pixels)]
    for artist in pixels:  # an invisible artist would still be rasterized
        artist.set(visible=False, rasterized=False)
    try:
        yield
    finally:
        for artist in pixels:
            artist.set(visible=True, rasterized=True)
        for picture in pictures:
            picture.remove()
        figure.set_layout_engine(engine)


def _draw_alone(figure: Figure, artists: list[Artist]) -> list[tuple[Axes, np.ndarray]]:
    """Draw some artists alone; return each panel with its pixels, shape (height, width, 4)."""
    everything = {*figure.get_children(), *(a for axes in figure.axes for a in axes.get_children())}
    hidden = [a for a in everything - {*artists, *figure.axes} if a.get_visible()]
    canvas, dpi = figure.canvas, figure.get_dpi()
    for artist in hidden:
        artist.set_visible(False)
    figure.set_dpi(DPI)
    page = FigureCanvasAgg(figure)
    page.draw()  # type: ignore[no-untyped-call]
    drawn = np.asarray(page.buffer_rgba())  # type: ignore[no-untyped-call]
    panel_pixels = []
    for axes in figure.axes:
        (left, bottom), (right, top) = np.rint(axes.bbox.get_points()).astype(int)
        rows = slice(len(drawn) - top, len(drawn) - bottom)
        panel_pixels.append((axes, drawn[rows, left:right].copy()))
    for artist in hidden:
        artist.set_visible(True)
    figure.set_dpi(dpi)
    figure.set_canvas(canvas)
    return panel_pixels


def _add_picture(axes: Axes, drawn: np.ndarray) -> Artist:
    """Put a picture over the whole of a panel, behind its lines."""
    picture = BboxImage(axes.bbox, interpolation="nearest", origin="upper", zorder=1)
    picture.set_data(drawn)
    return axes.add_artist(picture)
