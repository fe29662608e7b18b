"""Figures of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL, sections
2 and 3.
"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from isotropy.figures.style import COLOURS, STATUS_COLOURS, common_status, footnote

METRICS = {"isoscore": "IsoScore", "silhouette": "Silhouette", "loss": "Loss (nats)"}


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
    axes.plot(
        radius * np.cos(arc),
        radius * np.sin(arc),
        color="#777777",
        lw=1.2,
        label="circle of radius √d",
    )
    axes.plot([0, 1], [0, 1], color="black", lw=1)
    axes.plot(1, 1, "o", color="black", label="ideal: vector of ones")
    for name, degrees, colour, reach, along, shift in (
        ("A", 27.0, COLOURS[0], 0.42, 0.5, 0.07),
        ("B", 4.0, COLOURS[1], 0.62, 0.75, -0.28),
    ):
        angle = np.deg2rad(degrees)
        x, y = radius * np.cos(angle), radius * np.sin(angle)
        alpha = np.pi / 4 - angle
        defect = np.hypot(x - 1, y - 1) / np.sqrt(2 * (2 - radius))
        isoscore = ((x + y) ** 2 / (x**2 + y**2) - 1) / (2 - 1)
        label = (
            f"observed {name}: α = {np.rad2deg(alpha):.0f}°, δ = {defect:.2f}, "
            f"IsoScore = {isoscore:.2f}"
        )
        axes.plot([0, x], [0, y], color=colour, lw=1)
        axes.plot([x, 1], [y, 1], color=colour, lw=2.2, ls="--")
        axes.plot(x, y, "s" if name == "A" else "D", color=colour, label=label)
        bow = np.linspace(angle, np.pi / 4, 50)
        axes.plot(reach * np.cos(bow), reach * np.sin(bow), color=colour, lw=1)
        middle = (angle + np.pi / 4) / 2 - (0.13 if name == "B" else 0)
        axes.text(
            (reach + 0.05) * np.cos(middle),
            (reach + 0.05) * np.sin(middle),
            f"α({name})",
            color=colour,
            va="center",
        )
        axes.text(1 + along * (x - 1) + shift, 1 + along * (y - 1), f"chord {name}", color=colour)
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
        path = group.groupby("step")[["isoscore", "silhouette"]].mean()
        axes.plot(
            path["isoscore"],
            path["silhouette"],
            color="#999999",
            lw=1,
            zorder=1,
            label="mean over seeds",
        )
        # Most of the way is covered in the first updates: colours spread them out.
        scale = PowerNorm(0.4, vmin=0, vmax=trajectories["step"].max())
        dots = axes.scatter(
            group["isoscore"],
            group["silhouette"],
            c=group["step"],
            cmap="viridis",
            norm=scale,
            s=9,
            lw=0,
            zorder=2,
            rasterized=True,
        )
        dots.set_label("one seed, one step")
        rows_of = correlations[correlations["setup"] == setup].set_index("seed")
        mean, sd, published = (
            rows_of.loc["mean"],
            rows_of.loc["sd"],
            rows_of.loc["mean", "published_pearson_r"],
        )
        text = f"Pearson r = {mean['pearson_r']:.3f}"
        text += " (one seed)" if np.isnan(sd["pearson_r"]) else f" ± {sd['pearson_r']:.3f}"
        text += f"\nSpearman ρ = {mean['spearman_rho']:.4f}"
        if not np.isnan(published):
            text += f"\npublished r = {published:.3f} *"
        axes.legend(
            title=text.replace("-", "−"),
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
        y = (
            np.array([variants.index(v) for v in group["variant"]])
            + (i - (len(setups) - 1) / 2) * height
        )
        holds = (group["trend"] == "holds").to_numpy()
        colour = COLOURS[i % len(COLOURS)]
        label = f"{setup} ({group['status'].iloc[0]})"
        axes.errorbar(
            group["pearson_r"],
            y,
            xerr=group["pearson_r_sd"].fillna(0),
            ls="",
            color=colour,
            lw=1.2,
            capsize=3,
        )
        axes.scatter(
            group["pearson_r"],
            y,
            s=42,
            color=np.where(holds, colour, "white"),
            edgecolors=colour,
            lw=1.5,
            zorder=3,
        )
        axes.scatter([], [], s=42, color=colour, label=label)
    axes.scatter(
        [],
        [],
        s=42,
        color="white",
        edgecolors="black",
        lw=1.5,
        label="open: the trend does not hold",
    )
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


def _title(axes: Axes, name: str, status: str) -> None:
    """Setup and whether it is the paper's own input, above a panel."""
    axes.set_title(name, loc="left", fontweight="bold", fontsize=10)
    axes.set_title(status, loc="right", fontsize=9, color=STATUS_COLOURS[status])
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
