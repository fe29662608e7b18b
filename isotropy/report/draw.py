"""Draw a figure for a publication from the tables of a finished study: without badges and notes, as
wide as a column or a page.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import Collection, PathCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.spines import Spine
from matplotlib.text import Text

from isotropy.claims.read import claims_figures
from isotropy.errors import IsotropyError, suggest
from isotropy.figures.draw import finish
from isotropy.figures.spec import FigureSpec
from isotropy.figures.style import banner, save, use_style
from isotropy.files import record_path
from isotropy.palette import REHEARSAL, STATUS
from isotropy.papers.locations import figure_file, package, table_file
from isotropy.papers.registry import papers
from isotropy.provenance.identity import MARK, digests, require_unchanged
from isotropy.provenance.record import read_record

Style = Literal["page", "paper"]
Width = Literal["column", "page"]
INCHES: dict[Width, float] = {"column": 3.03, "page": 6.3}
"""Widths of a column and of a page in the ACL's style: 7.7 and 16 cm."""
MIN_FONT_SIZE = 6.0
"""Smallest size of text and of marks, in points, but of marks that were smaller before."""
TICKS: tuple[tuple[Literal["major", "minor"], float, float], ...] = (
    ("major", 1.0, 4.8),
    ("minor", 0.8, 3.2),
)
"""Width and length of ticks in points, as `isotropy.figures.style` has them."""


def draw(root: Path, name: str, output: Path, style: Style, width: Width | None) -> None:
    """Draw a figure of a finished study into a file.

    Args:
        root: the folder of the run.
        name: paper and name, as `KEY/figure3`.
        output: a PDF, SVG or PNG. It carries the id of the figure's record.
        style: `paper` leaves out the badges of originals and stand-ins, and the note. A rehearsal
            keeps its banner.
        width: scale the whole figure to the width of a column or a page; None: as on the pages of
            the results.

    Raises:
        IsotropyError: no such figure, format, or study; a table that has changed since its job
            wrote it.
    """
    figures = {entry.id: entry for paper in papers() for entry in paper.figures}
    figures |= {entry.id: entry for entry in claims_figures()}
    if name not in figures:
        raise IsotropyError(f"expected a figure, got {name!r}: {suggest(name, figures)}")
    if output.suffix not in (".pdf", ".svg", ".png"):
        raise IsotropyError(f"expected a name that ends in .pdf, .svg or .png, got {output}")
    record = read_record(record_path(root / figure_file(name)))
    use_style()
    figure = _figure(root, figures[name])
    if style == "paper":
        _publish(figure)
    if width is not None:
        _resize(figure, INCHES[width])
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("error", "constrained_layout not applied")
            finish(figure, figures[name].title if style == "page" else "")
            if record.lineage.status == "rehearsal":
                banner(figure, REHEARSAL)
            save(figure, output, MARK + record.id)
    except UserWarning as error:
        raise IsotropyError(
            f"{name} does not fit the width of a {width}: use --width page, or leave it out"
        ) from error
    except OSError as error:
        raise IsotropyError(f"{output} cannot be written: {error.strerror}") from error


def _figure(root: Path, entry: FigureSpec) -> Figure:
    module = import_module(f"{package(entry.id.split('/')[0])}.figures")
    figure: Figure = getattr(module, entry.function)(*(_table(root, t) for t in entry.tables))
    return figure


def _table(root: Path, name: str) -> pd.DataFrame:
    path = root / table_file(name)
    written = digests(read_record(record_path(path)).outputs).get(table_file(name))
    require_unchanged(path, written)
    return pd.read_parquet(path)


def _publish(figure: Figure) -> None:
    """Remove status badges and the note."""
    figure.set_label("")
    for axes in figure.findobj(Axes):
        if axes.get_title(loc="right") in STATUS:
            axes.set_title("", loc="right")


def _scaled(size: Any, factor: float) -> float:
    """Scale a size in points, down to the smallest at most."""
    return float(max(size * factor, min(size, MIN_FONT_SIZE)))


def _resize(figure: Figure, inches: float) -> None:
    """Scale a figure, with its text, lines and markers, to a width."""
    width, height = figure.get_size_inches()
    factor = inches / width
    figure.set_size_inches(inches, height * factor)
    for text in figure.findobj(Text):
        text.set_fontsize(_scaled(text.get_fontsize(), factor))
    for line in figure.findobj(Line2D):
        line.set_linewidth(line.get_linewidth() * factor)
        line.set_markersize(_scaled(line.get_markersize(), factor))
    for marks in figure.findobj(Collection):
        marks.set_linewidth(list(np.atleast_1d(marks.get_linewidth()) * factor))
    for points in figure.findobj(PathCollection):
        if points.get_rasterized():  # thousands of points
            points.set_sizes(points.get_sizes() * factor**2)
        else:
            points.set_sizes([_scaled(size**0.5, factor) ** 2 for size in points.get_sizes()])
    for spine in figure.findobj(Spine):
        spine.set_linewidth(spine.get_linewidth() * factor)
    for axis in figure.findobj(Axis):  # for ticks that are made when the figure is saved
        for which, points_wide, points_long in TICKS:
            size = axis.get_tick_params(which).get("labelsize", mpl.rcParams["xtick.labelsize"])
            axis.set_tick_params(
                which,
                labelsize=_scaled(size, factor),
                width=points_wide * factor,
                length=points_long * factor,
            )
