"""Figures of the verdicts on all claims."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from isotropy.figures.style import STATUS_COLOURS, footnote

COUNTS = 1  # published values above this are counts, shown as a ratio


NAMES = {
    "pearson_r": "Pearson's r",
    "spearman_rho": "Spearman's ρ (published: below)",
    "n_items": "items",
    "n_params": "parameters",
}


def published_against_obtained(verdicts: pd.DataFrame) -> Figure:
    """Every published number beside ours, with its interval over seeds; counts as the ratio of the two."""
    known = verdicts.dropna(subset=["published", "obtained"])
    scores, counts = known[known["published"].abs() <= COUNTS], known[known["published"].abs() > COUNTS]
    figure = Figure(figsize=(12.5, 2.2 + 0.26 * max(len(scores), len(counts), 3)))
    left, right = figure.subplots(1, 2)
    _dots(left, scores, scores["published"], scores["obtained"], scores[["low", "high"]])
    left.set_title("Scores", loc="left", fontweight="bold")
    left.xaxis.set_major_locator(MultipleLocator(0.5))
    left.set(xlim=(-1.1, 1.1), xlabel="correlation of IsoScore and silhouette")
    ratio = counts["obtained"] / counts["published"]
    _dots(right, counts, pd.Series(1.0, counts.index), ratio, pd.DataFrame({"low": ratio, "high": ratio}))
    right.set_title("Counts", loc="left", fontweight="bold")
    right.set(xlim=(0, max(1.1, 1.05 * ratio.max() if len(ratio) else 0)), xlabel="obtained / published")
    marks = [left.plot([], [], "D", ls="", color="black", mfc="none", label="published")[0]]
    for status, colour in STATUS_COLOURS.items():
        label = f"obtained, {status} (bar: 95 % interval over seeds)"
        marks.append(left.plot([], [], "o-", lw=2.4, ms=4.5, color=colour, label=label)[0])
    figure.legend(handles=marks, fontsize=8.5, loc="outside upper left", ncols=3, frameon=False)
    footnote(
        figure,
        f"{len(known)} verdicts with a published number; {len(verdicts) - len(known)} more are directions, or were not "
        "attempted: see the table of verdicts, which says how far to trust each published number, too.",
        width=170,
    )
    return figure


def _dots(axes: Axes, rows: pd.DataFrame, published: pd.Series, obtained: pd.Series, interval: pd.DataFrame) -> None:
    """One row per verdict: an open diamond for the published number, a dot with a bar for ours."""
    y = np.arange(len(rows))
    colours = [STATUS_COLOURS[status] for status in rows["status"]]
    axes.scatter(published, y, marker="D", s=46, facecolors="none", edgecolors="black", zorder=2)
    axes.hlines(y, interval["low"].fillna(obtained), interval["high"].fillna(obtained), colors=colours, lw=2.4, zorder=3)
    axes.scatter(obtained, y, s=20, c=colours, zorder=4)
    where = rows["setup"].where(rows["setup"] != "", rows["id"].str.replace(r"^\w+-table2-(items-)?", "", regex=True))
    axes.set_yticks(y, rows["column"].map(lambda c: NAMES.get(c, c)) + ", " + where, fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    if rows.empty:
        axes.text(0.5, 0.5, "nothing to compare in this study", transform=axes.transAxes, ha="center")
