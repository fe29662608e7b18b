"""Figures of the verdicts on all claims."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from isotropy.printable import without_remark
from replication.claims.scales import CORRELATION, scale_of
from replication.figures.draw import footnote, whiskers
from replication.figures.names import legend
from replication.palette import STATUS
from replication.papers.declare import figure

OWN_READING = "our reading of the text"
"""Note of a number that nobody published: a paper states it in words."""
ROW_HEIGHT = 0.33  # height of a row in inches
AXIS_ROWS = 3  # rows that the axis and label of a panel take
LABEL_CHARACTERS = 66  # width of the lines of a sentence


@figure(
    "published",
    title="Published numbers beside ours",
    tables=["claims"],
    section="all",
)
def published_against_obtained(verdicts: pd.DataFrame) -> Figure:
    """Published numbers beside ours, each with its 95 % interval."""
    published = verdicts[verdicts["source_note"] != OWN_READING].dropna(subset="published")
    shown = published.dropna(subset="obtained")
    shown = shown.assign(
        scale=shown["column"].map(lambda c: scale_of(c).label), row=_row_names(shown)
    )
    groups = [rows for _, rows in shown.groupby("scale", sort=False)]
    heights = [len(rows) + AXIS_ROWS for rows in groups] or [AXIS_ROWS]
    figure = Figure(figsize=(7.8, 0.4 + ROW_HEIGHT * sum(heights)))
    panels = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    if not groups:
        panels[0].set_axis_off()
        panels[0].text(0.5, 0.5, "nothing to compare in this study", ha="center")
    for axes, rows in zip(panels, groups, strict=False):
        _published_panel(axes, rows)
    figure.suptitle(f"{len(shown)} of {len(published)} comparisons with a number can be made")
    legend(figure)
    footnote(
        figure,
        "The table of verdicts says how far to trust each number and which are bounds. All other "
        "published numbers are of models or data that this study does not have. Bars: 95 % "
        "intervals; strokes below them: runs.",
    )
    return figure


def _row_names(verdicts: pd.DataFrame) -> pd.Series:
    """The statement of each verdict, with its setup where several have that statement."""
    statements = verdicts["statement"].map(without_remark)
    several = statements.duplicated(keep=False)
    names = statements.where(~several, statements + " (" + verdicts["setup"] + ")")
    return names.map(lambda name: textwrap.fill(name, LABEL_CHARACTERS, break_on_hyphens=False))


def _published_panel(axes: Axes, rows: pd.DataFrame) -> None:
    """Draw a row per verdict: an open diamond for the published number, a dot and bar for ours."""
    scale = scale_of(rows["column"].iloc[0])
    values = rows[["published", "obtained", "low", "high"]].astype(float)
    if scale.relative:
        values = values.div(values["published"], axis=0)
    values["y"] = np.arange(len(rows))
    diamond: dict[str, Any] = {"marker": "D", "s": 44, "facecolors": "none", "edgecolors": "black"}
    axes.scatter(values["published"], values["y"], label="published", **diamond)
    for status, colour in STATUS.items():
        selected = values[(rows["status"] == status).to_numpy()]
        point, ends = ("obtained", "y"), ("low", "high")
        whiskers(axes, selected, point, ends, horizontal=True, color=colour, lw=2.4, capsize=0)
        if len(selected):
            label = f"obtained, {status}"
            axes.scatter(selected["obtained"], selected["y"], 36, colour, label=label, zorder=4)
    runs = rows["runs"].str.split().explode().dropna().astype(float)
    if len(runs):
        position = values["y"].loc[runs.index] + 0.28
        axes.scatter(runs, position, 36, "#777777", marker="|", label="a run", lw=1)
    axes.set_yticks(values["y"], rows["row"], fontsize=7)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(scale.label)
    if scale == CORRELATION:
        axes.set_xlim(-1.1, 1.1)
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
    elif scale.relative:
        axes.set_xlim(0, max(1.1, 1.05 * values["obtained"].max()))
    elif scale.axis == "symlog":
        axes.set_xscale("symlog", linthresh=1)
