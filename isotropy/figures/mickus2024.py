"""Figures of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL, sections 2 and 3."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib import ticker
from matplotlib.axes import Axes
from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

from isotropy.figures.style import COLOURS, STATUS_COLOURS, footnote

METRICS = {"isoscore": "IsoScore", "silhouette": "Silhouette", "loss": "Loss (nats)"}


def chord_and_angle() -> Figure:
    """Figure 1: the isotropy defect is a chord of the circle of variance vectors; a shorter chord is a smaller angle.

    In d = 2 the normalized variance vectors lie on the circle of radius sqrt(d). The defect of IsoScore's step 2 is
    delta = ||v - 1|| / sqrt(2 (d - sqrt d)), the chord from v to the vector of ones, and
    ||v - 1||^2 = 2d - 2d cos(alpha) (section 2.2).
    """
    figure = Figure(figsize=(5.2, 5.2))
    axes = figure.subplots()
    radius = np.sqrt(2)
    arc = np.linspace(0, np.pi / 2, 200)
    axes.plot(radius * np.cos(arc), radius * np.sin(arc), color="#777777", lw=1.2, label="circle of radius √d")
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
        label = f"observed {name}: α = {np.rad2deg(alpha):.0f}°, δ = {defect:.2f}, IsoScore = {isoscore:.2f}"
        axes.plot([0, x], [0, y], color=colour, lw=1)
        axes.plot([x, 1], [y, 1], color=colour, lw=2.2, ls="--")
        axes.plot(x, y, "s" if name == "A" else "D", color=colour, label=label)
        bow = np.linspace(angle, np.pi / 4, 50)
        axes.plot(reach * np.cos(bow), reach * np.sin(bow), color=colour, lw=1)
        middle = (angle + np.pi / 4) / 2 - (0.13 if name == "B" else 0)
        axes.text((reach + 0.05) * np.cos(middle), (reach + 0.05) * np.sin(middle), f"α({name})", color=colour, va="center")
        axes.text(1 + along * (x - 1) + shift, 1 + along * (y - 1), f"chord {name}", color=colour)
    axes.set(xlim=(0, 1.75), ylim=(0, 1.75), aspect="equal")
    axes.set(xlabel="normalized variance of dimension 1", ylabel="normalized variance of dimension 2")
    axes.legend(loc="upper right", fontsize=8, frameon=True)
    axes.set_title("Isotropy defect as a chord", loc="left", fontweight="bold")
    footnote(
        figure,
        "A diagram of the definition for d = 2; no data. Dashed: chords, whose length is the isotropy defect δ.",
        width=80,
    )
    return figure


def scores_over_updates(trajectories: pd.DataFrame) -> Figure:
    """Figure 2: IsoScore, silhouette and loss over updates, one column per setup, mean ± sd over seeds."""
    setups = list(dict.fromkeys(trajectories["setup"]))
    figure = Figure(figsize=(4.0 * len(setups), 7.4))
    grid = figure.subplots(len(METRICS), len(setups), sharex="col", squeeze=False)
    for column, setup in enumerate(setups):
        group = trajectories[trajectories["setup"] == setup]
        _title(grid[0, column], group)
        for row, (metric, name) in enumerate(METRICS.items()):
            axes = grid[row, column]
            by_step = group.groupby("step")[metric]
            mean, sd = by_step.mean(), by_step.std(ddof=1)
            if sd.notna().any():  # one seed has no standard deviation
                label = f"± sd over seeds (at most {sd.max():.1g})"
                axes.fill_between(mean.index, mean - sd, mean + sd, color=COLOURS[row], alpha=0.3, lw=0, label=label)
            several = "mean over seeds" if group["seed"].nunique() > 1 else "one seed"
            axes.plot(mean.index, mean, color=COLOURS[row], lw=1.6, label=several)
            axes.set_ylabel(name if column == 0 else "")
            axes.ticklabel_format(useOffset=False)
            axes.legend(fontsize=7.5, loc="best")
        grid[-1, column].set_xlabel("update")
    footnote(figure, _notes(trajectories), width=58 * len(setups))
    return figure


def isoscore_against_silhouette(trajectories: pd.DataFrame, correlations: pd.DataFrame) -> Figure:
    """Figure 3: silhouette against IsoScore at each evaluated step, one panel per setup, coloured by update."""
    setups = list(dict.fromkeys(trajectories["setup"]))
    figure = Figure(figsize=(4.0 * len(setups) + 0.8, 4.4))
    grid = figure.subplots(1, len(setups), squeeze=False)
    for axes, setup in zip(grid[0], setups, strict=True):
        group = trajectories[trajectories["setup"] == setup]
        _title(axes, group)
        path = group.groupby("step")[["isoscore", "silhouette"]].mean()
        axes.plot(path["isoscore"], path["silhouette"], color="#999999", lw=1, zorder=1, label="mean over seeds")
        # Most of the way is covered in the first updates: colours spread them out.
        scale = PowerNorm(0.4, vmin=0, vmax=trajectories["step"].max())
        dots = axes.scatter(
            group["isoscore"], group["silhouette"], c=group["step"], cmap="viridis", norm=scale, s=9, lw=0, zorder=2
        )
        dots.set_label("one seed, one step")
        rows = correlations[correlations["setup"] == setup].set_index("seed")
        mean, sd, published = rows.loc["mean"], rows.loc["sd"], rows.loc["mean", "published_pearson_r"]
        text = f"Pearson r = {mean['pearson_r']:.3f}"
        text += " (one seed)" if np.isnan(sd["pearson_r"]) else f" ± {sd['pearson_r']:.3f}"
        text += f"\nSpearman ρ = {mean['spearman_rho']:.4f}"
        if not np.isnan(published):
            text += f"\npublished r = {published:.3f} *"
        axes.legend(title=text.replace("-", "−"), fontsize=7.5, title_fontsize=8.5, loc="best", alignment="left")
        axes.set(xlabel="IsoScore (0 a line, 1 isotropic)", ylabel="Silhouette of the labels (−1 to 1)")
    known = correlations.dropna(subset="published_pearson_r")
    trust = "".join(f" * {text[0].upper()}{text[1:]}." for text in dict.fromkeys(known["published_trust"]))
    figure.colorbar(dots, ax=list(grid[0]), label="update", shrink=0.85)
    footnote(
        figure,
        _notes(trajectories) + " Correlations over all updates, interpolated between "
        "measured steps: mean ± sd over seeds, step 0 included."
        f"{trust}",
        width=62 * len(setups),
    )
    return figure


def _title(axes: Axes, group: pd.DataFrame) -> None:
    """Setup and whether it is the paper's own input, above a panel."""
    status = group["status"].iloc[0]
    axes.set_title(group["setup"].iloc[0], loc="left", fontweight="bold")
    axes.set_title(status, loc="right", fontsize=9, color=STATUS_COLOURS[status])
    axes.xaxis.set_major_locator(ticker.MaxNLocator(5))
    axes.ticklabel_format(useOffset=False)


def _notes(trajectories: pd.DataFrame) -> str:
    """Data, status, seeds and schedule of every setup."""
    parts = []
    for setup, group in trajectories.groupby("setup", sort=False):
        row = group.iloc[0]
        parts.append(f"{setup} ({row['status']}): {row['data']}; {row['embedding']}.")
    n = trajectories["seed"].nunique()
    schedules = ". ".join(dict.fromkeys(trajectories["schedule"]))
    parts.append(f"{n} seed{'s' if n > 1 else ''}; {schedules}.")
    return " ".join(parts)
