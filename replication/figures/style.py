"""One style for all figures, and files whose bytes are the same in every run."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.image import BboxImage
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

from replication.palette import SERIES, STATUS

COLOURS = list(SERIES)
GRADIENT = ListedColormap(colormaps["cividis"](np.linspace(0, 0.85, 256)))
"""Colours of numbers: cividis without its pale end, which is faint on white and, inverted, on
black."""
DPI = 200
"""Resolution of PNG files, and of rasterized parts of vector formats."""
TITLE, TITLE_IF_NARROW, NARROW = 9.5, 8.5, 4.5
"""Size of titles in points, also of figures that are narrower than 4.5 inches."""
LARGEST_RASTER = 2**28
"""Bytes of pixels that matplotlib may hold while it writes a vector format."""

_THEME: dict[str, Any] = {
    "svg.hashsalt": "isotropy",
    "pdf.fonttype": 42,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "lines.markersize": 6,
    "figure.constrained_layout.use": True,
}
_FONT = "DejaVu Sans"
"""The font that comes with matplotlib: seaborn would take another one where a machine has it."""

_METADATA: dict[str, dict[str, Any]] = {
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    ".svg": {"Date": None, "Creator": None},
    ".png": {"Software": None},
}
_MARK = {".pdf": "Keywords", ".svg": "Identifier", ".png": "Record"}


class StableLayout(ConstrainedLayoutEngine):
    """Constrained layout that gives one result for a figure, however often and where it is drawn.

    Matplotlib's begins from the panels' last positions, so that a file depends on those saved
    before it. The last digits of its solver depend on addresses in memory.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._initial: dict[Axes, Bbox] = {}

    def execute(self, fig: Figure) -> None:
        """Place the panels, from their initial positions, at multiples of 1e-6 of the figure."""
        for axes in fig.axes:
            initial = self._initial.setdefault(axes, axes.get_position(original=True))
            _place(axes, initial.get_points())
        super().execute(fig)
        for axes in fig.axes:
            _place(axes, axes.get_position(original=True).get_points().round(6))


def _place(axes: Axes, corners: np.ndarray) -> None:
    """Move a panel, which stays in the layout."""
    axes.set_position(Bbox(corners))
    axes.set_in_layout(True)


def use_style() -> None:
    """Set fonts, grid and colours, and make identifiers in SVG files the same in every run."""
    import seaborn as sns

    sns.set_theme("paper", "ticks", COLOURS, _FONT, font_scale=0.91, rc=_THEME)


def add_title(figure: Figure, title: str, status: str) -> None:
    """Write a title above panels and legends, and a status on the right, either of which may be
    empty. The figure becomes taller.
    """
    width = figure.get_figwidth()
    size = TITLE if width > NARROW else TITLE_IF_NARROW
    text = textwrap.fill(title, int((125 * width - 90) / size), break_on_hyphens=False)
    inches = (text.count("\n") + 1) * 1.25 * size / 72 + 0.06
    _add_strip(figure, inches)
    top = 1 - 0.05 / figure.get_figheight()
    style: dict[str, Any] = {"va": "top", "in_layout": False}
    figure.text(0.05 / width, top, text, fontsize=size, fontweight="bold", **style)
    if status:
        colour = STATUS[status]
        figure.text(1 - 0.05 / width, top, status, fontsize=8, color=colour, ha="right", **style)


def _add_strip(figure: Figure, inches: float) -> float:
    """Make a figure taller by an empty strip; return the strip's lower edge, as a share of the
    height.
    """
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + inches)
    bottom = float(height / (height + inches))
    for text in figure.texts:
        text.set_y(text.get_position()[1] * bottom)
    engine: Any = figure.get_layout_engine()
    engine.set(rect=(0, 0, 1, engine.get()["rect"][3] * bottom))
    for legend in figure.legends:
        if legend._outside_loc == "upper":  # type: ignore[attr-defined]  # it has no public name
            legend.borderaxespad += 72 * inches / legend.prop.get_size()
    return bottom


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
