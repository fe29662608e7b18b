"""Figures of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL, sections
2 and 3.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from isotropy.figures.style import COLOURS, MARKERS, common_status, footnote
from isotropy.palette import STATUS
from isotropy.papers.declare import figure

METRICS = {"isoscore": "IsoScore", "silhouette": "Silhouette", "loss": "Loss (nats)"}


class Observed(NamedTuple):
    """A variance vector of the diagram of Figure 1, and where its labels have room.

    Attributes:
        name: in the labels.
        degrees: angle to the first axis.
        marker, colour: of its point.
        reach: radius of the arc of its angle alpha.
        turned: radians by which the label of alpha is moved along that arc.
        along: share of the chord, from the vector of ones, at which the chord's label stands.
        shift: by which that label is moved to the right.
    """

    name: str
    degrees: float
    marker: str
    colour: str
    reach: float
    turned: float
    along: float
    shift: float


OBSERVED = (
    Observed("A", 27.0, "s", COLOURS[0], reach=0.42, turned=0, along=0.5, shift=0.07),
    Observed("B", 4.0, "D", COLOURS[1], reach=0.62, turned=-0.13, along=0.75, shift=-0.28),
)


@figure(
    "figure1",
    section="2.2",
    caption=(
        "The isotropy defect as a chord between the observed and the ideal variance vector: the "
        "shorter the chord, the smaller the angle, the higher IsoScore."
    ),
)
def chord_and_angle() -> Figure:
    """Figure 1: the isotropy defect is a chord of the circle of variance vectors; a shorter chord
    is a smaller angle.

    In d = 2 the normalized variance vectors lie on the circle of radius sqrt(d). The defect of
    IsoScore's step 2 is delta = ||v - 1|| / sqrt(2 (d - sqrt d)), the chord from v to the vector of
    ones, and ||v - 1||^2 = 2d - 2d cos(alpha) (section 2.2).
    """
    figure = Figure(figsize=(5.2, 5.2))
    axes = figure.subplots()
    radius = np.sqrt(2)
    arc = np.linspace(0, np.pi / 2, 200)
    x, y = radius * np.cos(arc), radius * np.sin(arc)
    axes.plot(x, y, color="#777777", lw=1.2, label="circle of radius √d")
    axes.plot([0, 1], [0, 1], color="black", lw=1)
    axes.plot(1, 1, "o", color="black", label="ideal: vector of ones")
    for observed in OBSERVED:
        _observed(axes, observed)
    axes.set(xlim=(0, 1.75), ylim=(0, 1.75), aspect="equal")
    axes.set(
        xlabel="normalized variance of dimension 1", ylabel="normalized variance of dimension 2"
    )
    axes.legend(loc="upper right", fontsize=8, frameon=True)
    axes.set_title("Isotropy defect as a chord", loc="left", fontweight="bold")
    footnote(
        figure,
        "A diagram of the definition for d = 2; no data. Dashed: chords, whose length is the "
        "isotropy defect δ.",
        width=80,
    )
    return figure


@figure(
    "figure2",
    tables=["trajectories"],
    section="3.2",
    caption=(
        "IsoScore, silhouette and loss while embeddings are optimized for a linear classifier. "
        "The paper finds that IsoScore falls and silhouette rises."
    ),
)
def scores_over_updates(trajectories: pd.DataFrame) -> Figure:
    """Figure 2: IsoScore, silhouette and loss over updates, one column per setup, mean ± sd over
    seeds.
    """
    setups = list(dict.fromkeys(trajectories["setup"]))
    figure = Figure(figsize=(3.4 * len(setups) + 0.6, 7.4))
    grid = figure.subplots(len(METRICS), len(setups), sharex="col", squeeze=False)
    for column, setup in enumerate(setups):
        group = trajectories[trajectories["setup"] == setup]
        _title(grid[0, column], setup, group["status"].iloc[0])
        for row, (metric, name) in enumerate(METRICS.items()):
            axes = grid[row, column]
            by_step = group.groupby("step")[metric]
            mean, sd = by_step.mean(), by_step.std(ddof=1)
            if sd.notna().any():  # one seed has no standard deviation
                label = f"± sd over seeds (at most {sd.max():.1g})"
                axes.fill_between(
                    mean.index,
                    mean - sd,
                    mean + sd,
                    color=COLOURS[row],
                    alpha=0.3,
                    lw=0,
                    label=label,
                )
            several = "mean over seeds" if group["seed"].nunique() > 1 else "one seed"
            axes.plot(mean.index, mean, color=COLOURS[row], lw=1.6, label=several)
            axes.set_ylabel(name if column == 0 else "")
            axes.legend(fontsize=7.5, loc="best")
        grid[-1, column].set_xlabel("update")
    footnote(figure, _notes(trajectories), width=54 * len(setups))
    return figure


@figure(
    "figure3",
    tables=["trajectories", "correlations"],
    section="3.2",
    caption=(
        "Silhouette against IsoScore along the same trajectories. The paper finds a "
        "monotonically decreasing relationship in every setup."
    ),
)
def isoscore_against_silhouette(trajectories: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    """Figure 3: silhouette against IsoScore at each step, one panel per setup, coloured by
    update.
    """
    setups = list(dict.fromkeys(trajectories["setup"]))
    columns = len(setups) if len(setups) < 4 else min(3, math.ceil(math.sqrt(len(setups))))
    rows = -(-len(setups) // columns)
    figure = Figure(figsize=(4.0 * columns + 0.8, 3.9 * rows + 0.6))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, setup in zip(grid.flat, setups, strict=False):
        group = trajectories[trajectories["setup"] == setup]
        _title(axes, setup, group["status"].iloc[0])
        dots = _path(axes, group, trajectories["step"].max())
        of_setup = correlations[correlations["setup"] == setup].set_index("seed")
        axes.legend(
            title=_correlation_text(of_setup),
            fontsize=7.5,
            title_fontsize=8.5,
            loc="best",
            alignment="left",
        )
        axes.set(
            xlabel="IsoScore (0 a line, 1 isotropic)", ylabel="Silhouette of the labels (−1 to 1)"
        )
    for axes in grid.flat[len(setups) :]:
        axes.set_visible(False)
    known = correlations.dropna(subset="published_pearson_r")
    trust = "".join(
        f" * {text[0].upper()}{text[1:]}." for text in dict.fromkeys(known["published_trust"])
    )
    figure.colorbar(dots, ax=list(grid.flat), label="update", shrink=0.85 / rows)
    correlated = " Correlations over all updates: mean ± sd over seeds, step 0 included."
    footnote(figure, _notes(trajectories) + correlated + trust, width=60 * columns)
    return figure


@figure(
    "theorem",
    tables=["simplices", "limits"],
    section="2",
    caption=(
        "When clusters and isotropy exclude each other: K equal clusters in d dimensions have "
        "IsoScore (K - 2)/(d - 1), which is 1 at K = d + 1. Right: the study's own classes "
        "before and after training, with the IsoScore of as many tight clusters."
    ),
)
def clusters_and_dimensions(simplices: pd.DataFrame, limits: pd.DataFrame) -> Figure:
    """Section 2: IsoScore of K clusters in d dimensions, and the study's own classes against it."""
    figure = Figure(figsize=(10.6, 4.6))
    left, right = figure.subplots(1, 2)
    _clusters_panel(left, simplices)
    _classes_panel(right, limits)
    footnote(
        figure,
        "Left: synthetic clusters of equal size, no data of the study. Right: a line from the "
        "first to the last step, per seed; dashed: IsoScore of as many tight, equal and "
        "equally distant clusters, (K − 2)/(d − 1); none where there are more classes than "
        "dimensions.",
        width=150,
    )
    return figure


def _clusters_panel(axes: Axes, simplices: pd.DataFrame) -> None:
    """IsoScore over clusters per dimension: tight ones, and the widest, dotted."""
    widest = simplices["spread"].max()
    for i, (d, of_d) in enumerate(simplices.groupby("d")):
        for spread, line in ((0.0, "-"), (widest, ":")):
            rows = of_d[of_d["spread"] == spread]
            label = None if spread else f"d = {d}"
            style: dict[str, Any] = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 4}
            share = (rows["n_clusters"] - 1) / rows["d"]
            axes.plot(share, rows["isoscore"], ls=line, label=label, **style)
    wide: dict[str, Any] = {"color": "#999999", "lw": 6, "alpha": 0.35, "zorder": 0}
    axes.plot([0, 1], [0, 1], label="(K − 2)/(d − 1), large d", **wide)
    loose = simplices.loc[simplices["spread"] == widest, "silhouette"]
    label = f"spread {widest:g} of the distance, silhouette {loose.min():.2f} to {loose.max():.2f}"
    axes.plot([], [], "k:", label=label)
    axes.set(xlabel="(K − 1)/d: clusters per dimension", ylabel="IsoScore", ylim=(-0.03, 1.05))
    axes.legend(fontsize=7, loc="lower right", bbox_to_anchor=(1, 0.06))
    axes.set_title("K equal clusters on a simplex", loc="left", fontweight="bold")


def _classes_panel(axes: Axes, limits: pd.DataFrame) -> None:
    """IsoScore over silhouette of the study's classes, from the first to the last step."""
    for i, (setup, rows) in enumerate(limits.groupby("setup", sort=False)):
        colour, marker = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)]
        x, y = (
            rows[[f"{score}_first", f"{score}_last"]].to_numpy().T
            for score in ("silhouette", "isoscore")
        )
        axes.plot(x, y, color=colour, lw=1)
        label = f"{setup} ({rows['status'].iloc[0]}): K = {rows['n_classes'].iloc[0]}"
        axes.plot(x[-1], y[-1], marker, ls="", color=colour, label=label)
        if math.isfinite(rows["limit"].iloc[0]):
            axes.axhline(rows["limit"].iloc[0], color=colour, lw=1, ls="--")
    axes.set(xlabel="silhouette of the classes", ylabel="IsoScore")
    axes.margins(0.12)
    axes.legend(fontsize=7.5, loc="best")
    axes.set_title("This study's classes in training", loc="left", fontweight="bold")


@figure(
    "figure4",
    tables=["trajectories-glue"],
    needs="glue",
    section="A",
    caption=(
        "IsoScore and silhouette on GLUE tasks. The paper finds the same trend in every task "
        "and encoder: silhouette increases, IsoScore decreases."
    ),
)
def glue_over_updates(trajectories: pd.DataFrame) -> Figure:
    """Figure 4: IsoScore and silhouette over updates on GLUE, one column per encoder, one line per
    task.
    """
    models = list(dict.fromkeys(trajectories["model"]))
    tasks = sorted(set(trajectories["dataset"]))
    figure = Figure(figsize=(4.4 * len(models) + 1.6, 6.6))
    grid = figure.subplots(2, len(models), sharex=True, sharey="row", squeeze=False)
    for column, model in enumerate(models):
        of_model = trajectories[trajectories["model"] == model]
        _title(grid[0, column], model, common_status(of_model))
        for row, metric in enumerate(("isoscore", "silhouette")):
            axes = grid[row, column]
            for i, task in enumerate(tasks):
                by_step = of_model[of_model["dataset"] == task].groupby("step")[metric]
                mean, sd = by_step.mean(), by_step.std(ddof=1).fillna(0)
                style = {
                    "color": COLOURS[i % len(COLOURS)],
                    "ls": "-" if i < len(COLOURS) else "--",
                }
                axes.plot(mean.index, mean, lw=1.5, label=task, **style)
                if (sd > 0).any():
                    axes.fill_between(
                        mean.index, mean - sd, mean + sd, color=style["color"], alpha=0.25, lw=0
                    )
            axes.set_ylabel(METRICS[metric] if column == 0 else "")
        grid[1, column].set_xlabel("update")
    grid[0, -1].legend(title="task", fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1))
    n = trajectories["seed"].nunique()
    seeds = f"mean ± sd over {n} seeds" if n > 1 else "one seed"
    data = "; ".join(dict.fromkeys(trajectories["data"]))
    evaluation = "; ".join(dict.fromkeys(trajectories["evaluation"]))
    footnote(
        figure, f"{data}. {seeds[0].upper()}{seeds[1:]}; {evaluation}.", width=64 * len(models) + 16
    )
    return figure


@figure(
    "sensitivity",
    tables=["sensitivity"],
    needs="sensitivity",
    section="3",
    caption="What changes the result: Pearson's r with one thing changed at a time.",
)
def what_changes_the_result(sensitivity: pd.DataFrame) -> Figure:
    """Correlation of each setup with one thing changed at a time; open marks where the claim does
    not hold.
    """
    setups = list(dict.fromkeys(sensitivity["setup"]))
    variants = list(dict.fromkeys(sensitivity["variant"]))
    figure = Figure(figsize=(9.2, 1.3 + 0.55 * len(variants)))
    axes = figure.subplots()
    height = 0.7 / len(setups)
    for i, setup in enumerate(setups):
        group = sensitivity[sensitivity["setup"] == setup]
        lines = np.array([variants.index(v) for v in group["variant"]])
        y = lines + (i - (len(setups) - 1) / 2) * height
        colour = COLOURS[i % len(COLOURS)]
        _correlations_of_variants(axes, group, y, colour)
        label = f"{setup} ({group['status'].iloc[0]})"
        axes.scatter([], [], s=42, color=colour, label=label)
    unfilled: dict[str, Any] = {"color": "white", "edgecolors": "black", "lw": 1.5}
    axes.scatter([], [], s=42, label="open: the trend does not hold", **unfilled)
    axes.axvline(0, color="#777777", lw=1)
    for i, setup in enumerate(setups):
        known = sensitivity.loc[sensitivity["setup"] == setup, "published_pearson_r"].iloc[0]
        if not np.isnan(known):
            label = f"published, {setup}: {known:.3f}".replace("-", "−")
            axes.axvline(known, color=COLOURS[i % len(COLOURS)], lw=1, ls=":", label=label)
    axes.set(
        yticks=range(len(variants)),
        yticklabels=variants,
        xlim=(-1.05, 1.05),
        xlabel="Pearson's r of IsoScore and silhouette",
    )
    axes.invert_yaxis()
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1))
    n = int(sensitivity["n_seeds"].min())
    trust = "; ".join(text for text in dict.fromkeys(sensitivity["published_trust"]) if text)
    footnote(
        figure,
        f"{f'Mean ± sd of {n} seeds' if n > 1 else 'One seed'}. The trend: IsoScore falls, "
        "silhouette rises, and they are "
        f"negatively correlated over the updates. Published values: {trust or 'none'}.",
    )
    return figure


def _observed(axes: Axes, observed: Observed) -> None:
    """A variance vector: its line from the origin, its chord to the vector of ones, its angle."""
    name, colour, reach = observed.name, observed.colour, observed.reach
    radius = np.sqrt(2)
    angle = np.deg2rad(observed.degrees)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    alpha = np.pi / 4 - angle
    defect = np.hypot(x - 1, y - 1) / np.sqrt(2 * (2 - radius))
    isoscore = ((x + y) ** 2 / (x**2 + y**2) - 1) / (2 - 1)
    scores = f"α = {np.rad2deg(alpha):.0f}°, δ = {defect:.2f}, IsoScore = {isoscore:.2f}"
    axes.plot([0, x], [0, y], color=colour, lw=1)
    axes.plot([x, 1], [y, 1], color=colour, lw=2.2, ls="--")
    axes.plot(x, y, observed.marker, color=colour, label=f"observed {name}: {scores}")
    bow = np.linspace(angle, np.pi / 4, 50)
    axes.plot(reach * np.cos(bow), reach * np.sin(bow), color=colour, lw=1)
    middle = (angle + np.pi / 4) / 2 + observed.turned
    right, up = (reach + 0.05) * np.cos(middle), (reach + 0.05) * np.sin(middle)
    axes.text(right, up, f"α({name})", color=colour, va="center")
    right, up = 1 + observed.along * (x - 1) + observed.shift, 1 + observed.along * (y - 1)
    axes.text(right, up, f"chord {name}", color=colour)


def _path(axes: Axes, group: pd.DataFrame, updates: int) -> PathCollection:
    """Silhouette against IsoScore at each step of a setup, a dot per seed, coloured by update; and
    the mean over seeds as a line.
    """
    mean = group.groupby("step")[["isoscore", "silhouette"]].mean()
    grey: dict[str, Any] = {"color": "#999999", "lw": 1, "zorder": 1}
    axes.plot(mean["isoscore"], mean["silhouette"], label="mean over seeds", **grey)
    dots = axes.scatter(
        group["isoscore"],
        group["silhouette"],
        c=group["step"],
        cmap="viridis",
        # Most of the way is covered in the first updates: colours spread them out.
        norm=PowerNorm(0.4, vmin=0, vmax=updates),
        s=9,
        lw=0,
        zorder=2,
        rasterized=True,
    )
    dots.set_label("one seed, one step")
    return dots


def _correlation_text(of_setup: pd.DataFrame) -> str:
    """Correlations of a setup over its updates, and the published one.

    Args:
        of_setup: rows of the table of correlations by seed, with `mean` and `sd`.
    """
    mean, sd = of_setup.loc["mean"], of_setup.loc["sd"]
    published = mean["published_pearson_r"]
    text = f"Pearson r = {mean['pearson_r']:.3f}"
    text += " (one seed)" if np.isnan(sd["pearson_r"]) else f" ± {sd['pearson_r']:.3f}"
    text += f"\nSpearman ρ = {mean['spearman_rho']:.4f}"
    if not np.isnan(published):
        text += f"\npublished r = {published:.3f} *"
    return text.replace("-", "−")


def _correlations_of_variants(axes: Axes, group: pd.DataFrame, y: np.ndarray, colour: str) -> None:
    """A setup's correlation for each variant, at heights `y`, with its standard deviation; filled
    where the trend holds.
    """
    r, sd = group["pearson_r"], group["pearson_r_sd"].fillna(0)
    axes.errorbar(r, y, xerr=sd, ls="", color=colour, lw=1.2, capsize=3)
    inside = np.where((group["trend"] == "holds").to_numpy(), colour, "white")
    axes.scatter(r, y, s=42, color=inside, edgecolors=colour, lw=1.5, zorder=3)


def _title(axes: Axes, name: str, status: str) -> None:
    """Setup and whether it is the paper's own input, above a panel."""
    axes.set_title(name, loc="left", fontweight="bold", fontsize=10)
    axes.set_title(status, loc="right", fontsize=9, color=STATUS[status])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.ticklabel_format(useOffset=False)


def _notes(trajectories: pd.DataFrame) -> str:
    """Data, status, seeds and evaluation of every setup."""
    parts = []
    for setup, group in trajectories.groupby("setup", sort=False):
        row = group.iloc[0]
        parts.append(f"{setup} ({row['status']}): {row['data']}; {row['embedding']}.")
    n = trajectories["seed"].nunique()
    evaluation = ". ".join(dict.fromkeys(trajectories["evaluation"]))
    parts.append(f"{n} seed{'s' if n > 1 else ''}; {evaluation}.")
    return " ".join(parts)
