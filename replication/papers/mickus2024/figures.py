"""Figures of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL, sections
2 and 3.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotropy.printable import print_minus
from replication.figures.draw import (
    DOTS,
    GREY,
    Look,
    colour_bar,
    curve,
    distinct,
    footnote,
    heading,
    label,
    look,
    looks,
    mark_status,
    panels,
    record,
    repeats,
    repeats_per_setup,
    share_scale,
    whiskers,
)
from replication.figures.names import legend, name_lines
from replication.figures.style import COLOURS, GRADIENT
from replication.papers.declare import figure

PUBLISHED_RHO = -0.998
"""Spearman's ρ of IsoScore and silhouette is below it in every setup of the paper."""
SPECK = 0.1
"""Share of the largest panel's extent below which points are drawn once more, enlarged."""
METRICS = {"isoscore": "IsoScore", "silhouette": "Silhouette", "loss": "Loss (nats)"}


class Observed(NamedTuple):
    """A variance vector of the diagram of Figure 1, and where its labels have room.

    Attributes:
        name: in the labels.
        degrees: angle to the first axis.
        marker, colour: of its point.
        arc_radius: radius of the arc of its angle alpha.
        label_turn: radians by which the label of alpha is moved along that arc.
        chord_share: share of the chord, from the vector of ones, at which its label stands.
        chord_shift: by which that label is moved to the right.
    """

    name: str
    degrees: float
    marker: str
    colour: str
    arc_radius: float
    label_turn: float
    chord_share: float
    chord_shift: float


OBSERVED = (
    Observed("A", 27.0, "s", COLOURS[0], 0.42, label_turn=0, chord_share=0.5, chord_shift=0.07),
    Observed(
        "B", 4.0, "D", COLOURS[1], 0.62, label_turn=-0.13, chord_share=0.75, chord_shift=-0.28
    ),
)


@figure(
    "figure1",
    title="The isotropy defect as a chord",
    section="2.2",
)
def chord_and_angle() -> Figure:
    """The isotropy defect as a chord between the observed and the ideal variance vector: the
    shorter the chord, the smaller the angle, the higher IsoScore.

    In d = 2 the normalized variance vectors lie on the circle of radius sqrt(d). The defect of
    IsoScore's step 2 is delta = ||v - 1|| / sqrt(2 (d - sqrt d)), the chord from v to the vector of
    ones, and ||v - 1||^2 = 2d - 2d cos(alpha) (section 2.2).
    """
    figure = Figure(figsize=(4.6, 4.4))
    axes = figure.subplots()
    arc = np.linspace(0, np.pi / 2, 200)
    x, y = np.sqrt(2) * np.cos(arc), np.sqrt(2) * np.sin(arc)
    axes.plot(x, y, color="#777777", lw=1.2, label="circle of radius √d")
    axes.plot([0, 1], [0, 1], color="black", lw=1)
    axes.plot(1, 1, "o", color="black", label="ideal: vector of ones")
    for observed in OBSERVED:
        _observed(axes, observed)
    axes.set(xlim=(0, 1.75), ylim=(0, 1.75), aspect="equal")
    axes.set(
        xlabel="normalized variance of dimension 1", ylabel="normalized variance of dimension 2"
    )
    axes.legend(loc="upper right", frameon=True)
    footnote(
        figure,
        "A diagram of the definition for d = 2; no data. Dashed: chords, whose length is "
        "proportional to the isotropy defect δ.",
    )
    return figure


@figure(
    "figure2",
    title="IsoScore, silhouette and loss while embeddings are optimized",
    tables=["trajectories"],
    explore=True,
    section="3.2",
)
def scores_over_updates(trajectories: pd.DataFrame) -> Figure:
    """IsoScore, silhouette and loss while embeddings are optimized for a linear classifier. The
    paper finds that IsoScore falls and silhouette rises.
    """
    setups = list(trajectories.groupby("setup", sort=False))
    figure = Figure(figsize=(max(1.7 * len(setups), 3.0) + 0.8, 4.6))
    grid = figure.subplots(len(METRICS), len(setups), sharex="col", sharey="row", squeeze=False)
    for column, (setup, rows) in zip(grid.T, setups, strict=True):
        heading(column[0], str(setup), rows)
        for axes, metric in zip(column, METRICS, strict=True):
            style = looks(METRICS)[metric]._replace(marker="")
            curve(axes, rows, "step", metric, None, style, band=True, linewidth=1.6)
            below = "update" if axes is column[-1] else ""
            label(axes, xlabel=below, ylabel=METRICS[metric] if axes in grid[:, 0] else "")
    sd = trajectories.groupby(["setup", "step"])[list(METRICS)].std(ddof=1).max()
    largest = ", ".join(f"{METRICS[m]} {sd[m]:.1g}" for m in METRICS if sd[m] > 0)
    seeds = repeats_per_setup(trajectories).capitalize() + (largest and f"; largest sd: {largest}")
    figure.suptitle(_changes(setups))
    footnote(figure, f"{seeds}. {_notes(trajectories)}")
    return figure


@figure(
    "figure3",
    title="Silhouette against IsoScore while embeddings are optimized",
    tables=["trajectories", "correlations"],
    explore=True,
    section="3.2",
)
def isoscore_against_silhouette(trajectories: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    """Silhouette against IsoScore along the same trajectories. The paper finds a monotonically
    decreasing relationship in every setup.
    """
    import seaborn as sns

    spans: dict[Axes, pd.Series] = {}
    figure, grid = panels(
        trajectories,
        size=(2.7, 2.7),
        xlabel="IsoScore (0 a line, 1 isotropic)",
        ylabel="Silhouette (−1 to 1)",
    )
    # Most of the way is covered in the first updates: colours spread them out.
    means = correlations[correlations["seed"] == "mean"].set_index("setup")
    colours = PowerNorm(0.4, vmin=0, vmax=trajectories["step"].max())
    for axes, rows in grid:
        labels = {"xlabel": axes.get_xlabel(), "ylabel": axes.get_ylabel()}
        points: dict[str, Any] = DOTS | {"s": 9, "alpha": 1, "palette": GRADIENT, "zorder": 2}
        points |= {"x": "isoscore", "y": "silhouette", "hue": "step", "hue_norm": colours}
        sns.scatterplot(rows, ax=axes, legend=False, **points)
        spans[axes] = rows[["isoscore", "silhouette"]].agg(np.ptp)
        record(axes, rows, "isoscore", "silhouette", None, join=False)
        axes.set(**labels)  # seaborn labels axes that have no label
        axes.xaxis.set_major_locator(MaxNLocator(4))
        heading(
            axes, f"{rows['setup'].iloc[0]}\n{_correlation_text(means.loc[rows['setup'].iloc[0]])}"
        )
    for axis in ("x", "y"):
        share_scale([axes for axes, _ in grid], axis)
    for axes, rows in grid:
        if (spans[axes] < SPECK * pd.DataFrame(spans).max(axis=1)).all():
            _enlarged(axes, rows, points)
    below, bound = (means["spearman_rho"] < PUBLISHED_RHO).sum(), f"−{-PUBLISHED_RHO}"
    figure.suptitle(
        f"Spearman's ρ is below 0 in {(means['spearman_rho'] < 0).sum()} of {len(means)} setups, "
        f"below {bound}, as published, in {below}"
    )
    bar = "update (scale: power of 0.4)"
    colour_bar(figure, [axes for axes, _ in grid], colours, bar, shrink=0.85)
    notes = distinct(correlations.dropna(subset="published_pearson_r"), "published_source_note")
    correlated = (
        " A point per seed and step. Pearson's r and Spearman's ρ over all "
        f"updates, mean over seeds, step 0 included. {notes and f'The paper: {notes}.'}"
    )
    footnote(figure, _notes(trajectories) + correlated)
    return figure


def _enlarged(axes: Axes, rows: pd.DataFrame, points: dict[str, Any]) -> None:
    """Draw points that are a speck on the shared scale once more, larger."""
    import seaborn as sns

    inset = axes.inset_axes((0.4, 0.4, 0.56, 0.52))
    sns.scatterplot(rows, ax=inset, legend=False, **points)
    inset.set(xlabel="", ylabel="")
    inset.set_title("enlarged", fontsize=7.5)
    inset.tick_params(labelsize=7)
    inset.locator_params(nbins=3)


@figure(
    "theorem",
    title="IsoScore of tight clusters, and of this study's classes",
    tables=["simplices", "limits"],
    section="2",
)
def clusters_and_dimensions(simplices: pd.DataFrame, limits: pd.DataFrame) -> Figure:
    """When clusters and isotropy exclude each other: K equal clusters in d dimensions have
    IsoScore (K - 2)/(d - 1), which is 1 at K = d + 1. Right: the study's own classes before and
    after training, with the IsoScore of as many tight clusters.
    """
    figure = Figure(figsize=(9.2, 3.2))
    left, right = figure.subplots(1, 2)
    _clusters_panel(left, simplices)
    _classes_panel(right, limits)
    widest = simplices[simplices["spread"] == simplices["spread"].max()]
    tight = simplices[simplices["spread"] == 0].sort_values(["d", "n_clusters"])
    ends = {
        "K = 2": tight.loc[tight["n_clusters"] == 2, "isoscore"].mean(),
        "K = d + 1": tight.loc[tight["n_clusters"] == tight["d"] + 1, "isoscore"].mean(),
    }
    texts = (f"{score:.2f} with {k}" for k, score in ends.items())
    figure.suptitle(f"IsoScore of K tight clusters: {', '.join(texts)}")
    number_list = ", ".join(map(str, sorted(simplices["d"].unique())))
    silhouettes = f"{widest['silhouette'].min():.2f} to {widest['silhouette'].max():.2f}"
    footnote(
        figure,
        "Left: synthetic clusters of equal size, no data of the study; dotted, with a spread of "
        f"{widest['spread'].iloc[0]:g} of the distance, silhouette {silhouettes}. The table has "
        f"{number_list} dimensions. Right: a line "
        "from the first to the last step, per seed; dashed: IsoScore of as many tight, equal and "
        "equally distant clusters, (K − 2)/(d − 1); none where there are more classes than "
        "dimensions.",
    )
    return figure


def _clusters_panel(axes: Axes, simplices: pd.DataFrame) -> None:
    """Plot IsoScore against the number of clusters divided by the number of dimensions, for the
    most dimensions: of tight clusters, and of the widest.
    """
    d = simplices["d"].max()
    rows = simplices[simplices["d"] == d].assign(share=lambda rows: (rows["n_clusters"] - 1) / d)
    for spread, style in ((rows["spread"].max(), Look(GREY, "s", ":")), (0.0, Look("black", "o"))):
        selected = rows[rows["spread"] == spread]
        name = f"spread {spread:g}" if spread else "tight: (K\u00a0−\u00a02)/(d\u00a0−\u00a01)"
        curve(axes, selected, "share", "isoscore", name, style)
    name_lines(axes, axes.lines)
    axes.set(xlabel="(K − 1)/d: clusters per dimension", ylabel="IsoScore", ylim=(-0.03, 1.05))
    heading(axes, f"K equal clusters on a simplex, d = {d}")


def _classes_panel(axes: Axes, limits: pd.DataFrame) -> None:
    """IsoScore over silhouette of the study's classes, from the first to the last step."""
    styles = looks(limits["setup"])
    for setup, rows in limits.groupby("setup", sort=False):
        style, first = styles[str(setup)], rows.iloc[0]
        x, y = (
            rows[[f"{score}_first", f"{score}_last"]].to_numpy().T
            for score in ("silhouette", "isoscore")
        )
        axes.plot(x, y, color=style.color, lw=1)
        name = f"{setup}: K = {first['n_classes']}"
        axes.plot(x[-1], y[-1], style.marker, ls="", color=style.color, label=name)
        if math.isfinite(first["limit"]):
            axes.axhline(first["limit"], color=style.color, lw=1, ls="--")
    axes.plot([], [], color=GREY, lw=1, ls="--", label="K tight classes")
    axes.set(xlabel="silhouette of the classes", ylabel="IsoScore")
    axes.margins(0.12)
    axes.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1.02, 1), frameon=False)
    heading(axes, "This study's classes in training", limits)


@figure(
    "figure4",
    title="IsoScore and silhouette on GLUE tasks while embeddings are optimized",
    tables=["trajectories-glue"],
    explore=True,
    needs="glue",
    section="A",
)
def glue_over_updates(trajectories: pd.DataFrame) -> Figure:
    """IsoScore and silhouette on GLUE tasks. The paper finds the same trend in every task and
    encoder: silhouette increases, IsoScore decreases.
    """
    models = list(trajectories.groupby("model", sort=False))
    figure = Figure(figsize=(2.1 * len(models) + 1.8, 4.4))
    figure.suptitle(_changes(trajectories.groupby(["dataset", "model"], sort=False)))
    grid = figure.subplots(2, len(models), sharex=True, sharey="row", squeeze=False)
    tasks = looks(sorted(set(trajectories["dataset"])))
    for column, (model, rows) in zip(grid.T, models, strict=True):
        heading(column[0], str(model), rows)
        for axes, metric in zip(column, ("isoscore", "silhouette"), strict=True):
            for i, (task, style) in enumerate(tasks.items()):
                style = Look(style.color, "", "-" if i < len(COLOURS) else "--")
                selected = rows[rows["dataset"] == task]
                curve(axes, selected, "step", metric, task, style, band=True, linewidth=1.5)
            below = "update" if axes is column[-1] else ""
            label(axes, xlabel=below, ylabel=METRICS[metric] if axes in grid[:, 0] else "")
    legend(figure)
    seeds = repeats_per_setup(trajectories).capitalize()
    footnote(
        figure,
        f"{distinct(trajectories, 'data')}. {seeds}; {distinct(trajectories, 'evaluation')}.",
    )
    return figure


@figure(
    "sensitivity",
    title="Correlation with one thing changed at a time",
    tables=["sensitivity"],
    needs="sensitivity",
    section="3",
)
def what_changes_the_result(sensitivity: pd.DataFrame) -> Figure:
    """What changes the result: Pearson's r with one thing changed at a time."""
    setups = list(sensitivity.groupby("setup", sort=False))
    variants = list(dict.fromkeys(sensitivity["variant"]))
    figure = Figure(figsize=(6.4, 0.9 + 0.36 * len(variants)))
    axes = figure.subplots()
    mark_status(axes, sensitivity)
    styles = looks(sensitivity["setup"])
    for i, (setup, rows) in enumerate(setups):
        rows = rows.assign(
            row=rows["variant"].map(variants.index) + 0.7 * ((i + 0.5) / len(setups) - 0.5),
            low=rows["pearson_r"] - rows["pearson_r_sd"],
            high=rows["pearson_r"] + rows["pearson_r_sd"],
        )
        colour, point = styles[str(setup)].color, ("pearson_r", "row")
        whiskers(axes, rows, point, ("low", "high"), horizontal=True, color=colour)
        inside = np.where(rows["trend"] == "holds", colour, "white")
        axes.scatter(
            rows[point[0]], rows[point[1]], 42, inside, edgecolors=colour, lw=1.5, zorder=3
        )
        axes.scatter([], [], 42, colour, label=str(setup))
        published = rows["published_pearson_r"].iloc[0]
        if not np.isnan(published):
            number = print_minus(f"{published:.3f}")
            text = f"published, {setup}: {number}"
            axes.axvline(published, color=colour, lw=1, ls=":", label=text)
    if (sensitivity["trend"] != "holds").any():
        hollow: dict[str, Any] = {"color": "white", "edgecolors": "black", "lw": 1.5}
        axes.scatter([], [], 42, label="hollow: the trend does not hold", **hollow)
    axes.set_yticks(range(len(variants)), variants)
    axes.set(xlabel="Pearson's r of IsoScore and silhouette")
    axes.set_xlim(-1.03, 0.03 if (sensitivity["pearson_r"] < 0).all() else 1.03)
    low, high = (print_minus(f"{end:.2f}") for end in sensitivity["pearson_r"].agg(["min", "max"]))
    below = (sensitivity["pearson_r"] < 0).sum()
    figure.suptitle(f"r is below 0 in {below} of {len(sensitivity)} variants: {low} to {high}")
    axes.invert_yaxis()
    legend(figure)
    seeds = repeats(int(sensitivity["n_seeds"].min()), "seed").capitalize()
    footnote(
        figure,
        f"{seeds}. The trend: IsoScore falls, silhouette rises, and they are negatively correlated "
        "over the updates. Published values: "
        f"{distinct(sensitivity, 'published_source_note') or 'none'}.",
    )
    return figure


def _observed(axes: Axes, observed: Observed) -> None:
    """A variance vector: its line from the origin, its chord to the vector of ones, its angle."""
    name, colour, radius = observed.name, observed.colour, observed.arc_radius
    angle = np.deg2rad(observed.degrees)
    x, y = np.sqrt(2) * np.cos(angle), np.sqrt(2) * np.sin(angle)
    alpha = np.pi / 4 - angle
    defect = np.hypot(x - 1, y - 1) / np.sqrt(2 * (2 - np.sqrt(2)))
    isoscore = ((x + y) ** 2 / (x**2 + y**2) - 1) / (2 - 1)
    scores = f"α = {np.rad2deg(alpha):.0f}°, δ = {defect:.2f}, IsoScore = {isoscore:.2f}"
    axes.plot([0, x], [0, y], color=colour, lw=1)
    axes.plot([x, 1], [y, 1], color=colour, lw=2.2, ls="--")
    axes.plot(x, y, observed.marker, color=colour, label=f"observed {name}: {scores}")
    bow = np.linspace(angle, np.pi / 4, 50)
    axes.plot(radius * np.cos(bow), radius * np.sin(bow), color=colour, lw=1)
    middle = (angle + np.pi / 4) / 2 + observed.label_turn
    right, up = (radius + 0.05) * np.cos(middle), (radius + 0.05) * np.sin(middle)
    axes.text(right, up, f"α({name})", color=colour, va="center")
    right = 1 + observed.chord_share * (x - 1) + observed.chord_shift
    axes.text(right, 1 + observed.chord_share * (y - 1), f"chord {name}", color=colour)


@figure(
    "controls",
    title="Scores and their correlation by number of classes, in noise",
    tables=["controls"],
    needs="controls",
    section="3.2",
)
def number_of_classes(controls: pd.DataFrame) -> Figure:
    """Noise with K random classes, optimized for their classification: IsoScore at the last update
    beside that of tight and equally distant classes, and its correlation with the silhouette,
    up to K = d + 1. Ours, as a control.
    """
    sweep = controls[controls["control"] == "classes"]
    figure = Figure(figsize=(6.6, 2.7))
    left, right = figure.subplots(1, 2)
    styles, x = looks(METRICS), "n_classes"
    curve(left, sweep, x, "isoscore_last", "IsoScore, last update", styles["isoscore"])
    dotted = styles["isoscore"]._replace(linestyle=":")
    curve(left, sweep, x, "isoscore_first", "IsoScore, before training", dotted)
    curve(left, sweep, x, "silhouette_last", "silhouette, last update", styles["silhouette"])
    left.plot(sweep["n_classes"], sweep["limit"], ls="--", color=GREY, label="(K − 2)/(d − 1)")
    curve(right, sweep, x, "pearson_r", "Pearson's r, noise", Look("black", "o"))
    curve(right, sweep, x, "spearman_rho", "Spearman's ρ, noise", Look(GREY, "X", "--"))
    others = controls[controls["control"] != "classes"]
    for i, (name, rows) in enumerate(others.groupby("variant")):
        marks: dict[str, Any] = {"color": look(3 + i).color, "marker": look(3 + i).marker, "ls": ""}
        text = f"{name}, d = {rows['d'].iloc[0]}"
        right.plot(rows["n_classes"].iloc[0], rows["pearson_r"].mean(), label=text, **marks)
    right.axhline(0, color=GREY, lw=0.6)
    for axes in (left, right):
        axes.set_xticks(sorted(sweep["n_classes"].unique()))
    label(left, xlabel="classes", ylabel="score")
    label(right, xlabel="classes", ylabel="correlation of both scores")
    mark_status(right, controls)
    means = sweep.groupby("n_classes")["pearson_r"].mean().iloc[[0, -1]]
    texts = [print_minus(f"{r:.2f} with {k} classes") for k, r in means.items()]
    figure.suptitle(f"In noise of d = {sweep['d'].iloc[0]} r is {', '.join(texts)}")
    legend(figure)
    about = f"d = {sweep['d'].iloc[0]}, {sweep['n_items'].iloc[0]:,} items. "
    about += f"{repeats_per_setup(controls).capitalize()}. "
    footnote(figure, about + f"Norm of the noise: that of {distinct(controls, 'data')}.")
    return figure


def _changes(setups: Iterable[tuple[Any, pd.DataFrame]]) -> str:
    """In how many setups IsoScore falls while silhouette rises, from the first to the last step."""
    opposite = []
    for _, rows in setups:
        change = rows.groupby("step")[["isoscore", "silhouette"]].mean().iloc[[0, -1]].diff()
        opposite.append(change["isoscore"].iloc[1] < 0 < change["silhouette"].iloc[1])
    return f"IsoScore falls while silhouette rises in {sum(opposite)} of {len(opposite)} setups"


def _correlation_text(mean: pd.Series) -> str:
    """Correlations of a setup over its updates, and the published one.

    Args:
        mean: the setup's row of the table of correlations with the mean over seeds.
    """
    text = f"r {mean['pearson_r']:.3f}"
    if not np.isnan(mean["published_pearson_r"]):
        text += f" (paper {mean['published_pearson_r']:.3f})"
    return print_minus(f"{text}, ρ {mean['spearman_rho']:.3f}")


def _notes(trajectories: pd.DataFrame) -> str:
    """Data, status, seeds and evaluation of every setup."""
    parts = []
    for setup, rows in trajectories.groupby("setup", sort=False):
        first, n = rows.iloc[0], rows["seed"].nunique()
        seeds = "1 seed" if n == 1 else f"{n} seeds"
        parts.append(
            f"{setup} ({first['status']}): {first['data']}; {first['embedding']}; {seeds}."
        )
    return " ".join([*parts, distinct(trajectories, "evaluation").replace("; ", ". ") + "."])
