"""Rules that all figures keep: sizes of text, marks and panels, one title, names beside lines."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation, Text

from replication.figures.draw import looks
from replication.figures.names import MOST_DIRECT, is_line, name_lines, space_names
from replication.figures.style import COLOURS, use_style
from replication.palette import PLACES, STATUS
from tests.unit.entries import FIGURES

WIDE, NARROW = 1076 / 96, 510 / 96
"""Inches in which the results pages show figures, and those that are less than 620 pixels wide."""
MIN_FONT_SIZE = 6.0
"""Smallest size of text and of marks, in points."""
CAPS = (2, 3, "_", "|", "None", "none", "", " ", None)
"""Markers that are ends of intervals, strokes, or none."""


def shown_texts(figure: Figure) -> list[Text]:
    hidden = {t for a in figure.axes if not a.get_visible() for t in a.findobj(Text)}
    texts = [t for t in figure.findobj(Text) if t.get_visible() and t not in hidden]
    return [text for text in texts if text.get_text().strip()]


def panels(figure: Figure) -> list[Axes]:
    """Visible panels, without colour bars."""
    return [a for a in figure.axes if a.get_visible() and a.get_label() != "<colorbar>"]


def assert_sizes(figure: Figure, scale: float) -> None:
    """No text is under 6 points as shown, and no mark in the figure, but for clouds of points."""
    small = [t for t in shown_texts(figure) if t.get_fontsize() * scale < MIN_FONT_SIZE - 1e-6]
    assert small == []
    lines = [line for line in figure.findobj(Line2D) if line.axes and len(line.get_xdata())]
    marked = [line for line in lines if line.get_marker() not in CAPS]
    assert all(line.get_markersize() >= MIN_FONT_SIZE for line in marked)
    for marks in figure.findobj(PathCollection):
        if not marks.get_rasterized() and len(marks.get_sizes()):
            assert min(marks.get_sizes()) ** 0.5 >= MIN_FONT_SIZE - 1e-6


def assert_rules(name: str, figure: Figure) -> None:
    """Check a figure as on the results pages, and scaled to the width of a printed page."""
    figure.draw_without_rendering()
    width = figure.get_figwidth()
    assert_sizes(figure, min(1, (WIDE if 96 * width > 620 else NARROW) / width))
    titles = [" ".join(text.get_text().split()) for text in figure.texts]
    assert FIGURES[name].title not in titles  # it is the heading on the page
    words = [text.get_text() for text in shown_texts(figure) if text.get_text() in STATUS]
    assert len(words) <= 1 or len(set(words)) > 1
    for names in [*figure.legends, *(a.legend_ for a in figure.axes if a.legend_)]:
        handles = names.legend_handles
        assert not 0 < len(handles) <= MOST_DIRECT or not all(map(is_line, handles))
    rows: dict[tuple[int, int], list[Axes]] = {}
    for axes in panels(figure):
        place = axes.get_subplotspec()
        rows.setdefault((id(place.get_gridspec()), place.rowspan.start), []).append(axes)
        for bars in (c for c in axes.containers if isinstance(c, BarContainer)):
            assert all(0 in (bar.get_x(), bar.get_y()) for bar in bars)
            assert axes.get_ylim()[0] <= 0 or axes.get_xlim()[0] <= 0
    for row in rows.values():
        sizes = np.array([axes.get_position().size for axes in row])
        assert np.ptp(sizes, axis=0) == pytest.approx(0, abs=0.01)


def test_looks_are_the_same_in_all_figures_and_differ_in_each() -> None:
    assert looks(["none"])["none"] == looks(["a model of mine", "none"])["none"]
    assert looks(["none"])["none"].color == COLOURS[PLACES["none"]] == "#000000"
    every = looks(["a", "none", "b", "mean", "c"])
    assert len({style[:2] for style in every.values()}) == 5


def test_names_of_lines_do_not_overlap() -> None:
    """They are in the order of the lines' ends, also where these are at one place."""
    use_style()
    figure = Figure(figsize=(4, 2))
    axes = figure.subplots()
    for end in (0.0, 1.0, 0.01, 0.02, 0.015):
        axes.plot([0, 1], [0.5, end], label=f"to {end:g}")
    axes.axhline(0.5, label="across")
    name_lines(axes, axes.lines)
    space_names(figure)
    figure.draw_without_rendering()
    names = [name for name in axes.texts if isinstance(name, Annotation)]
    boxes = {name.get_text(): Text.get_window_extent(name) for name in names}
    assert len(boxes) == 6
    assert not any(a.overlaps(b) for a, b in combinations(boxes.values(), 2))
    heights = sorted(boxes, key=lambda text: boxes[text].y0)
    assert heights == ["to 0", "to 0.01", "to 0.015", "to 0.02", "across", "to 1"]


def test_name_of_a_line_that_ends_early_is_at_its_end() -> None:
    """A join to the right of the panel would look like data."""
    axes = Figure().subplots()
    axes.plot([0, 12], [0, 1], label="long")
    axes.plot([0, 2], [1, 0.5], label="short")
    name_lines(axes, axes.lines)
    names = {name.get_text(): name for name in axes.texts if isinstance(name, Annotation)}
    assert names["long"].arrow_patch is not None
    assert names["short"].arrow_patch is None
    assert tuple(names["short"].xy) == (2, 0.5)


def test_names_of_lines_that_end_at_one_place_are_in_the_order_of_the_lines() -> None:
    figure = Figure(figsize=(4, 2))
    axes = figure.subplots()
    for i, end in enumerate((0.99, 1.0, 0.98)):
        axes.plot([0, 1], [0.2 * i, end], label=str(i))
    name_lines(axes, axes.lines)
    space_names(figure)
    heights = {name.get_text(): name.get_position()[1] for name in axes.texts}
    assert sorted(heights, key=lambda text: heights[text]) == ["0", "1", "2"]
