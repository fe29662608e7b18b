"""Figures of the verdicts on all claims."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator

from isotropy.figures.style import footnote
from isotropy.palette import GROUPS, NO_MODEL, SIGNS, STATUS, VERDICTS
from isotropy.papers.declare import figure

COUNTS = "count, obtained / published"
ISOTROPY = "log₁₀ I(W) (0: isotropic)"
PERCENT = "accuracy, F1 (%) or Matthews correlation (×100)"
SIMILARITY = "correlation with people's scores (×100)"
SCALES = {
    "pearson_r": "correlation",
    "spearman_rho": "correlation",
    "rho": "correlation",
    "value": "cosine, or share of variance",
    "lambda_isoscore_rho": "correlation",
    "n_items": COUNTS,
    "n_params": COUNTS,
    "n": COUNTS,
    "d": COUNTS,
    "mean_cosine": "mean cosine",
    "isoscore": "IsoScore or IsoScore*",
    "isoscore_star": "IsoScore or IsoScore*",
    "isoscore_star_ratio": "IsoScore* with CosReg over that without",
    "lid_cosine_published": "local intrinsic dimension, as published",
    "log10_isotropy": ISOTROPY,
    "log10_isotropy_sentences": ISOTROPY,
    "none_log10_isotropy": ISOTROPY,
    "cluster_log10_isotropy": ISOTROPY,
    "pearson": SIMILARITY,
    "spearman": SIMILARITY,
    "performance": PERCENT,
    "best": PERCENT,
    "none_performance": PERCENT,
    "cluster_performance": PERCENT,
}
"""Column of a claim -> what its panel measures; a column without a scale has a panel of its own."""
ROW = 0.2  # inches
ABOUT_A_PANEL = 5  # rows that its axis and label take


LABELS = ("holds", "fails", "undecided", "no number")
"""Of the groups of verdicts."""


@figure(
    "published",
    tables=["claims"],
    section="all",
    caption="Published numbers beside ours, each with its 95 % interval.",
)
def published_against_obtained(verdicts: pd.DataFrame) -> Figure:
    """Every published number beside ours, with its interval; a panel per quantity,
    counts as ratios.
    """
    known = verdicts.dropna(subset=["published", "obtained"])
    scale = known["column"].map(lambda c: SCALES.get(c, c))
    stacks: tuple[list[pd.DataFrame], ...] = ([], [])
    for name in dict.fromkeys(scale):
        min(stacks, key=_rows).append(known[scale == name])
    stacks = tuple(stack for stack in stacks if stack)
    most = max(map(_rows, stacks), default=2 * ABOUT_A_PANEL)
    figure = Figure(figsize=(7.2 * max(len(stacks), 1), 1.3 + ROW * most))
    parts = figure.subfigures(1, max(len(stacks), 1), squeeze=False)[0]
    for part, stack in zip(parts, stacks, strict=False):
        heights = [len(rows) + ABOUT_A_PANEL for rows in stack] + [max(most - _rows(stack), 1e-3)]
        *axes, rest = part.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat
        rest.set_visible(False)
        for panel, rows in zip(axes, stack, strict=True):
            _panel(
                panel, rows, SCALES.get(rows["column"].iloc[0], rows["column"].iloc[0]), known["id"]
            )
    first = parts[0].axes[0] if stacks else parts[0].subplots()
    if not stacks:
        first.set_axis_off()
        first.text(
            0.5, 0.5, "nothing to compare in this study", transform=first.transAxes, ha="center"
        )
    marks = [first.plot([], [], "D", ls="", color="black", mfc="none", label="published")[0]]
    for status, colour in STATUS.items():
        label = f"obtained, {status} (bar: 95 % interval)"
        marks.append(first.plot([], [], "o-", lw=2.4, ms=4.5, color=colour, label=label)[0])
    figure.legend(
        handles=marks,
        fontsize=8.5,
        loc="outside upper left",
        ncols=3 if len(stacks) > 1 else 1,
        frameon=False,
    )
    footnote(
        figure,
        f"{len(known)} verdicts with a published number, under their names in the table of "
        "verdicts, which says how far to "
        f"trust each number and which are bounds. {len(verdicts) - len(known)} more are "
        "directions, or were not attempted.",
        width=85 * max(len(stacks), 1),
    )
    return figure


def _rows(stack: list[pd.DataFrame]) -> int:
    """Height of panels on top of each other, in rows."""
    return sum(len(rows) + ABOUT_A_PANEL for rows in stack)


def _panel(axes: Axes, rows: pd.DataFrame, scale: str, ids: pd.Series) -> None:
    """One row per verdict: an open diamond for the published number, a dot with a bar for ours."""
    y = np.arange(len(rows))
    unit = rows["published"] if scale == COUNTS else 1.0
    obtained = rows["obtained"] / unit
    colours = [STATUS[status] for status in rows["status"]]
    axes.scatter(
        rows["published"] / unit,
        y,
        marker="D",
        s=40,
        facecolors="none",
        edgecolors="black",
        zorder=2,
    )
    low, high = ((rows[c] / unit).fillna(obtained) for c in ("low", "high"))
    axes.hlines(y, low, high, colors=colours, lw=2.4, zorder=3)
    axes.scatter(obtained, y, s=18, c=colours, zorder=4)
    several = ids[ids.duplicated()]
    names = [
        f"{i}, {setup}" if i in set(several) else i
        for i, setup in zip(rows["id"], rows["setup"], strict=True)
    ]
    axes.set_yticks(y, names, fontsize=7.5)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlabel(scale, fontsize=9)
    if scale == "correlation":
        axes.set_xlim(-1.1, 1.1)
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
    elif scale == COUNTS:
        axes.set_xlim(0, max(1.1, 1.05 * obtained.max()))
    elif scale == ISOTROPY:
        axes.set_xscale("symlog", linthresh=1)


@figure(
    "scorecard",
    tables=["scorecard"],
    section="all",
    caption="Headline claims by model: the verdict as if the study had that model alone.",
)
def claims_by_model(scorecard: pd.DataFrame) -> Figure:
    """Headline claims (rows, by paper) and models (columns): the sign of each verdict, and the
    number that it stands on.

    Args:
        scorecard: verdicts by model (`isotropy.claims.scorecard`).
    """
    models = sorted(scorecard["model"].unique(), key=lambda model: model == "")  # no model: last
    papers = list(scorecard.groupby("paper", sort=False))
    heights = [rows["id"].nunique() for _, rows in papers] or [1]
    width, height = 4.2 + 1.35 * max(len(models), 1), 1.6 + 0.3 * sum(heights) + 0.5 * len(heights)
    figure = Figure(figsize=(width, height))
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0]
    for panel, (paper, rows) in zip(axes, papers, strict=False):
        _signs(panel, str(paper), rows, models)
    if not papers:
        axes[0].set_axis_off()
        axes[0].text(0.5, 0.5, "no claim has a number in this study", ha="center")
    if papers:
        names = [model or NO_MODEL for model in models]
        axes[0].set_xticks(range(len(models)), names, rotation=25, ha="left")
        axes[0].tick_params(axis="x", top=True, labeltop=True, bottom=False, labelbottom=False)
    marks = [
        Line2D([], [], ls="", marker=f"${SIGNS[group]}$", ms=8, color=colour, label=label)
        for (group, colour), label in zip(VERDICTS.items(), LABELS, strict=True)
    ]
    figure.legend(handles=marks, ncols=4, fontsize=9, loc="outside lower left", frameon=False)
    footnote(
        figure,
        "Each headline judged as if the study had that model alone; beside the sign the number "
        "that the verdict stands on, where it is one number. In bold: the paper's own data, model "
        "and protocol; all others are stand-ins. An empty cell: no number for that model.",
        width=85,
    )
    return figure


def _signs(axes: Axes, paper: str, rows: pd.DataFrame, models: list[str]) -> None:
    """One panel: a row per headline, a column per model."""
    ids = list(rows["id"].unique())
    for row in rows.to_dict("records"):
        group = GROUPS[row["word"]]
        number = "" if pd.isna(row["obtained"]) else f"  {row['obtained']:.3g}"
        axes.text(
            *(models.index(row["model"]), ids.index(row["id"]), SIGNS[group] + number),
            color=VERDICTS[group],
            fontsize=9,
            ha="center",
            va="center",
            fontweight="bold" if row["status"] == "original" else "normal",
        )
    axes.set_yticks(range(len(ids)), [_short(name, paper) for name in ids], fontsize=8.5)
    axes.set_xlim(-0.5, max(len(models), 1) - 0.5)
    axes.set_ylim(len(ids) - 0.5, -0.5)
    axes.set_xticks(range(len(models)), [])
    axes.tick_params(length=0)
    axes.set_title(paper, loc="left", fontsize=10)


def _short(name: str, paper: str) -> str:
    """The id of a headline as words."""
    return name.removeprefix(f"{paper}-").replace("-", " ").replace("_", " ")
