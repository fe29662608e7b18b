"""Figures of the poster of Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from isotropy.figures.style import (
    COLOURS,
    MARKERS,
    common_legend,
    footnote,
    line_style,
    mark_status,
)
from isotropy.palette import STATUS
from isotropy.papers.declare import figure

COLUMNS = 4  # panels beside each other
PUBLISHED_BATCH = 700  # points of the paper's figure on stability, as others quote it
WIDE = 20  # ratio of means from which on an axis is logarithmic
PERFORMANCE = {
    "accuracy": "Accuracy (%)",
    "f1": "F1 (%)",
    "matthews": "Matthews correlation (×100)",
    "pearson": "Pearson correlation (×100)",
    "spearman": "Spearman correlation (×100)",
    "exact_match": "Exact match (%)",
}


@figure(
    "figure1",
    tables=["activations"],
    section="poster, Figure 1",
    caption=(
        "Mean activation of each dimension of sentence embeddings of the validation set, by method."
    ),
)
def activation_diagrams(activations: pd.DataFrame) -> Figure:
    """Figure 1: mean activation per dimension, one row per setup, one column per method."""
    figure, grid, panels = _by_method(activations, 3.3, 2.3, sharey="row")
    for axes, own in panels:
        axes.vlines(
            own["dimension"], 0, own["activation"], color=COLOURS[0], lw=0.6, rasterized=True
        )
        axes.axhline(0, color="#777777", lw=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        largest = own["activation"].abs().max() / own["activation"].abs().median()
        text = f"largest / median: {largest:.1f}"
        axes.text(0.98, 0.96, text, transform=axes.transAxes, ha="right", va="top", fontsize=7.5)
        if axes in grid[:, 0]:
            axes.set_ylabel(f"{_name(own)}\nmean activation", fontsize=8.5)
    for axes in grid[-1]:
        axes.set_xlabel("dimension")
    first = (
        "Mean over the validation set of each dimension of the first token's vector, last layer, "
        "seed "
    )
    footnote(
        figure,
        f"{first}{activations['seed'].min()}. {_notes(activations)}",
        width=46 * grid.shape[1],
    )
    return figure


@figure(
    "figure2",
    tables=["points", "runs"],
    section="poster, Figures 2 and 3",
    caption=(
        "Clouds of sentence embeddings with their average cosine. CosReg can lower the average "
        "cosine by moving the mean alone. The poster's clouds have 0.978 and 0.005; what they "
        "show is not stated."
    ),
)
def point_clouds(points: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Figures 2 and 3: clouds of sentence embeddings around the origin, with their average cosine
    and IsoScore*.
    """
    figure, grid, panels = _by_method(points, 3.1, 3.1)
    for axes, own in panels:
        _cloud(axes, own)
        first = own.iloc[0]
        run = runs[
            (runs["setup"] == first["setup"])
            & (runs["method"] == first["method"])
            & (runs["seed"] == first["seed"])
        ].iloc[0]
        text = (
            f"average cosine {run['sentence_mean_cosine_last']:.3f}\n"
            f"IsoScore* {run['isoscore_star']:.3f}"
        )
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.5}
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=8, bbox=box)
        if axes in grid[:, 0]:
            axes.set_ylabel(f"{_name(own)}\nfirst component at right angles", fontsize=8.5)
    for axes in grid[-1]:
        axes.set_xlabel("along the mean")
    common_legend(figure, grid.flat, loc="outside upper right", ncols=6, markerscale=2)
    about = (
        "Sentence embeddings (first token, last layer) of the validation set, projected on their "
        "mean and on their first "
        "component at right angles to it; units of the embedding. IsoScore* of all tokens and "
        f"layers{_shrunk(runs)}. "
    )
    footnote(figure, about + _notes(points), width=44 * grid.shape[1])
    return figure


@figure(
    "figure4",
    tables=["stability"],
    section="poster, Figure 4",
    caption=(
        "IsoScore* against shrinkage and sample size; dashed, the score of the whole cloud. At "
        "zeta = 0 it is IsoScore."
    ),
)
def stability_of_isoscore(stability: pd.DataFrame) -> Figure:
    """Figure 4: IsoScore* against zeta for a few sample sizes, and against sample size for each
    zeta, a row per cloud.
    """
    clouds = list(dict.fromkeys(stability["setup"]))
    figure = Figure(figsize=(9.6, 4.2 * len(clouds) + 0.6))
    grid = figure.subplots(len(clouds), 2, sharey="row", squeeze=False)
    for (left, right), cloud in zip(grid, clouds, strict=True):
        group = stability[stability["setup"] == cloud]
        whole, status = group["whole"].iloc[0], group["status"].iloc[0]
        sizes = sorted(group["n"].unique())
        _against_zeta(left, group, sizes)
        _against_size(right, group)
        for axes in (left, right):
            axes.axhline(whole, color="black", ls="--", lw=1, label=f"whole cloud: {whole:.3f}")
            axes.legend(fontsize=7.5, loc="lower center", bbox_to_anchor=(0.5, 1.08), ncols=3)
            axes.set_ylim(bottom=0)
        left.set(xlabel="shrinkage ζ", ylabel=f"{cloud}\nIsoScore* (0 a line, 1 isotropic)")
        right.set_xscale("log")
        right.xaxis.set_major_locator(FixedLocator([float(n) for n in sizes]))
        right.xaxis.set_minor_locator(NullLocator())
        right.set_xticklabels([f"{n:,}" for n in sizes], rotation=45, fontsize=8)
        right.set_xlabel("points in the sample, n")
        right.set_title(status, loc="right", fontsize=9, color=STATUS[status])
    repeats = stability.groupby(["setup", "n", "zeta"])["repeat"].nunique().min()
    notes = [
        f"{name} ({g['status'].iloc[0]}): "
        f"{g['data'].iloc[0]}{'; ' * bool(g['embedding'].iloc[0])}{g['embedding'].iloc[0]}, "
        f"{g['d'].iloc[0]} dimensions, shrinkage covariance of {g['shrinkage_points'].iloc[0]:,} "
        "other points."
        for name, g in stability.groupby("setup", sort=False)
    ]
    footnote(figure, f"Mean ± sd over {repeats} samples. " + " ".join(notes), width=130)
    return figure


@figure(
    "figure5",
    tables=["runs"],
    section="poster, Figure 5",
    caption=(
        "Performance against IsoScore* for models fine-tuned with different lambda. The paper "
        "finds that they are negatively correlated."
    ),
)
def performance_against_isoscore(runs: pd.DataFrame) -> Figure:
    """Figure 5: one panel per setup, one point per lambda with its standard deviations over seeds;
    none and CosReg marked.
    """
    figure, panels = _by_setup(runs)
    zetas = sorted(runs["zeta"].dropna().unique())
    scale = _lambda_scale(runs)
    for axes, group in panels:
        for method, own in group.groupby("method", sort=False):
            first = own.iloc[0]
            style: dict[str, Any] = {"color": "black", "marker": "*", "ms": 11, "label": method}
            if first["kind"] == "cosreg":
                style |= {"color": "#777777", "marker": "X", "ms": 7}
            if first["kind"] == "istar":
                marker = MARKERS[zetas.index(first["zeta"]) % len(MARKERS)]
                style |= {"color": scale(first["strength"]), "marker": marker, "ms": 6.5}
                style["label"] = str(method).removeprefix("I-STAR, ")
            _mean_and_deviations(axes, own, style)
        _chance(axes, float(group["chance"].mean()))
        _panel(axes, group)
        axes.set(
            xlabel="IsoScore* (0 a line, 1 isotropic)", ylabel=PERFORMANCE[group["metric"].iloc[0]]
        )
        means = group.groupby("method")["isoscore_star"].mean()
        # Else all but the largest would fall together
        if means.min() > 0 and means.max() > WIDE * means.min():
            axes.set_xscale("log")
    common_legend(figure, [axes for axes, _ in panels], loc="outside right upper", title="penalty")
    about = (
        f"{_seeds(runs)}; performance on the whole validation set; IsoScore* of all its tokens in "
        f"all layers{_shrunk(runs)}. "
    )
    footnote(figure, about + _notes(runs), width=56 * min(len(panels), COLUMNS) + 18)
    return figure


@figure(
    "figure6",
    tables=["averages"],
    section="poster, Figure 6",
    caption=(
        "Performance averaged over tasks. The paper finds that I-STAR with negative lambda is "
        "above no penalty, and that above CosReg."
    ),
)
def average_performance(averages: pd.DataFrame) -> Figure:
    """Figure 6: performance averaged over tasks per model and method, mean ± sd over seeds, single
    seeds as dots.
    """
    models = list(dict.fromkeys(averages["setup"]))
    names = {
        "istar_best": "I-STAR, best λ < 0 per task",
        "istar": "I-STAR, λ < 0 best on the other seeds",
        "istar_mean": "I-STAR, mean over λ < 0",
        "none": "none",
        "cosreg": "CosReg",
    }
    names = {key: name for key, name in names.items() if averages[key].notna().any()}
    figure = Figure(figsize=(2.6 * len(models) + 4.6, 4.2))
    axes = figure.subplots()
    _bars_with_seeds(axes, averages, names)
    if names:
        every = averages[list(names)].to_numpy(dtype=float)
        low, high = float(np.nanmin(every)), float(np.nanmax(every))
        least = low - 0.35 * (high - low) - 1
        axes.set_ylim(max(0.0, least) if low >= 0 else least, high + 0.15 * (high - low) + 1)
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1), fontsize=8)
    else:
        axes.text(0.5, 0.5, "no task was learned", transform=axes.transAxes, ha="center")
    axes.set_xticks(range(len(models)), models)
    axes.set_ylabel("performance, average over tasks (×100)")
    axes.grid(axis="x", visible=False)
    mark_status(axes, averages)
    n_tasks = averages["n_tasks"].max()
    several = "one task" if n_tasks == 1 else f"{n_tasks} tasks"
    about = (
        f"{several[0].upper()}{several[1:]}. Bars: {_seeds(averages).lower()}; dots: seeds; the "
        "axis does not start at 0. "
    )
    left = "; ".join(dict.fromkeys(averages["not_learned"][averages["not_learned"] != ""]))
    about += f"Left out, since models without penalty did not learn them: {left}. " if left else ""
    footnote(figure, f"{about}Data: {'; '.join(dict.fromkeys(averages['data']))}.", width=118)
    return figure


@figure(
    "figure7",
    tables=["layers"],
    section="poster, Figure 7",
    caption=(
        "TwoNN intrinsic dimension of sentence embeddings of the validation set, layer by "
        "layer. The paper finds that it falls with lambda."
    ),
)
def dimension_per_layer(layers: pd.DataFrame) -> Figure:
    """Figure 7: TwoNN per layer, one panel per setup, one line per lambda; no penalty in black."""
    layers = layers[
        (layers["kind"] != "istar") | (layers["zeta"] == layers["zeta"].dropna().iloc[0])
    ]
    figure, panels = _by_setup(layers)
    scale = _lambda_scale(layers)
    order = {"istar": 0, "none": 1, "cosreg": 2}
    for axes, group in panels:
        methods = group.drop_duplicates("method")
        methods = methods.assign(order=methods["kind"].map(order)).sort_values(
            ["order", "strength"]
        )
        for _, first in methods.iterrows():
            own = group[group["method"] == first["method"]].groupby("layer")["sentence_two_nn"]
            style: dict[str, Any] = {"color": "black", "lw": 2, "ls": "-"}
            if first["kind"] == "cosreg":
                style = {"color": "#777777", "lw": 1.5, "ls": "--"}
            if first["kind"] == "istar":
                style = {"color": scale(first["strength"]), "lw": 1.5, "ls": "-"}
            mean, sd = own.mean(), own.std(ddof=1).fillna(0)
            axes.plot(
                mean.index,
                mean,
                marker="o",
                ms=3.5,
                label=str(first["method"]).removeprefix("I-STAR, "),
                **style,
            )
            axes.fill_between(
                mean.index, mean - sd, mean + sd, color=style["color"], alpha=0.2, lw=0
            )
        _panel(axes, group)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_ylim(bottom=0)
        axes.set(xlabel="layer", ylabel="TwoNN intrinsic dimension")
    common_legend(figure, [axes for axes, _ in panels], loc="outside right upper", title="penalty")
    about = f"{_seeds(layers)}; sentence embeddings (first token) of the validation set. "
    footnote(figure, about + _notes(layers), width=56 * min(len(panels), COLUMNS) + 18)
    return figure


def _against_zeta(axes: Axes, group: pd.DataFrame, sizes: list[int]) -> None:
    """IsoScore* of a cloud against zeta: for the smallest and the largest sample, one between, and
    the one next to the paper's.
    """
    published = min(range(len(sizes)), key=lambda i: abs(sizes[i] - PUBLISHED_BATCH))
    shown = [sizes[i] for i in sorted({0, len(sizes) // 3, published, len(sizes) - 1})]
    for i, n in enumerate(shown):
        _line_with_deviations(axes, group[group["n"] == n], "zeta", i, f"n = {n:,}")


def _against_size(axes: Axes, group: pd.DataFrame) -> None:
    """IsoScore* of a cloud against the size of the sample, a line for each zeta."""
    for i, zeta in enumerate(sorted(group["zeta"].unique())):
        own = group[group["zeta"] == zeta]
        name = "ζ = 0 (IsoScore)" if zeta == 0 else f"ζ = {zeta:g}"
        _line_with_deviations(axes, own, "n", i, name)


def _line_with_deviations(axes: Axes, own: pd.DataFrame, column: str, i: int, label: str) -> None:
    """The i-th line of a panel: IsoScore* against a column, mean ± sd over samples."""
    colour, marker = line_style(i)
    by_value = own.groupby(column)["isoscore_star"]
    mean, sd = by_value.mean(), by_value.std(ddof=1)
    style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4, "lw": 1.2, "capsize": 2}
    axes.errorbar(mean.index, mean, sd, label=label, **style)


def _mean_and_deviations(axes: Axes, own: pd.DataFrame, style: dict[str, Any]) -> None:
    """A method's performance against IsoScore*: mean over seeds, with standard deviations."""
    x, y = own["isoscore_star"], own["performance"]
    if len(own) > 1:
        style = {"xerr": x.std(ddof=1), "yerr": y.std(ddof=1)} | style
    edges: dict[str, Any] = {
        "mec": "black",
        "mew": 0.5,
        "ecolor": "#999999",
        "elinewidth": 1,
        "ls": "",
    }
    axes.errorbar(x.mean(), y.mean(), **edges, **style)


def _chance(axes: Axes, chance: float) -> None:
    """Performance of the most frequent class: a line, or a note where it is far below."""
    if chance <= 0:  # scores and answers have none
        return
    low, high = axes.get_ylim()
    # Farther away it would flatten what there is to see
    if chance > low - 0.5 * (high - low):
        axes.axhline(chance, color="#555555", lw=1.2, ls=":", label="most frequent class")
    else:
        text = f"most frequent class: {chance:.1f}, below"
        style: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": "#555555"}
        axes.text(0.98, 0.02, text, transform=axes.transAxes, **style)


def _bars_with_seeds(axes: Axes, averages: pd.DataFrame, names: dict[str, str]) -> None:
    """A bar per model and column of a table, mean ± sd over seeds, and a dot per seed.

    Args:
        axes: of the figure.
        averages: one row per model and seed.
        names: what each column is called.
    """
    n_models = averages["setup"].nunique()
    width = 0.8 / max(1, len(names))
    for i, (column, name) in enumerate(names.items()):
        x = np.arange(n_models) + (i - (len(names) - 1) / 2) * width
        by_model = averages.groupby("setup", sort=False)[column]
        errors = by_model.std(ddof=1).to_numpy() if averages["seed"].nunique() > 1 else None
        style: dict[str, Any] = {"capsize": 3, "color": COLOURS[i], "alpha": 0.75, "label": name}
        axes.bar(x, by_model.mean(), width * 0.92, yerr=errors, **style)
        for at, (_, values) in zip(x, by_model, strict=True):
            axes.scatter(np.full(len(values), at), values, s=12, color="black", zorder=3, lw=0)


def _by_method(
    table: pd.DataFrame, width: float, height: float, **options: Any
) -> tuple[Figure, np.ndarray, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with one row of panels per setup and one column per method; its grid, and each panel
    with its rows.
    """
    of_setups = [group for _, group in table.groupby("setup", sort=False)]
    columns = max(group["method"].nunique() for group in of_setups)
    figure = Figure(figsize=(width * columns + 0.6, height * len(of_setups) + 1.2))
    grid = figure.subplots(len(of_setups), columns, squeeze=False, **options)
    panels = []
    for row, group in zip(grid, of_setups, strict=True):
        methods = list(group.groupby("method", sort=False))
        for axes, (method, own) in zip(row, methods, strict=False):
            axes.set_title(method, loc="left", fontsize=9.5)
            panels.append((axes, own))
        for axes in row[len(methods) :]:
            axes.set_visible(False)
    return figure, grid, panels


def _by_setup(table: pd.DataFrame) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A figure with one panel per setup, and each panel with its rows."""
    of_setups = [group for _, group in table.groupby("setup", sort=False)]
    columns = min(len(of_setups), COLUMNS)
    rows = -(-len(of_setups) // columns)
    figure = Figure(figsize=(4.0 * columns + 1.6, 3.5 * rows + 1.0))
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes in grid.flat[len(of_setups) :]:
        axes.set_visible(False)
    return figure, list(zip(grid.flat, of_setups, strict=False))


def _cloud(axes: Axes, own: pd.DataFrame) -> None:
    """Points by class, and the origin."""
    classes = sorted(own["label"].dropna().unique())
    if own["label"].isna().all() or len(classes) > len(COLOURS):
        axes.scatter(
            own["x"], own["y"], s=5, lw=0, color=COLOURS[0], rasterized=True, label="sentences"
        )
    else:
        for i, label in enumerate(classes):
            part = own[own["label"] == label]
            axes.scatter(
                part["x"],
                part["y"],
                s=5,
                lw=0,
                color=COLOURS[i],
                alpha=0.7,
                rasterized=True,
                label=f"class {label:g}",
            )
    axes.scatter([0], [0], marker="+", s=70, color="black", lw=1.5, zorder=4, label="origin")
    axes.set_aspect("equal", adjustable="datalim")


def _lambda_scale(table: pd.DataFrame) -> Any:
    """Colours of lambda: from orange below 0 to purple above, told apart with any form of colour
    blindness.
    """
    reach = max(1e-9, float(table["strength"][table["kind"] == "istar"].abs().max()))
    norm, colours = TwoSlopeNorm(0, -math.sqrt(reach), math.sqrt(reach)), mpl.colormaps["PuOr"]

    def colour(strength: float) -> Any:
        # The root spreads out small lambdas; the middle of the map would be white.
        position = float(norm(math.copysign(math.sqrt(abs(strength)), strength)))
        return colours(
            0.04 + 0.32 * position / 0.5 if position < 0.5 else 0.64 + 0.32 * (position - 0.5) / 0.5
        )

    return colour


def _panel(axes: Axes, group: pd.DataFrame) -> None:
    """Task, model and status above a panel."""
    axes.set_title(_name(group), loc="left", fontweight="bold", fontsize=9.5)
    mark_status(axes, group)


def _name(group: pd.DataFrame) -> str:
    return f"{group['task'].iloc[0]}, {group['model'].iloc[0]}"


def _shrunk(runs: pd.DataFrame) -> str:
    """With which zeta the models are measured, which is not the penalty's."""
    return (
        f", measured with ζ = {runs['isoscore_star_zeta'].iloc[0]:g} and training tokens, "
        "whatever the penalty's ζ"
    )


def _seeds(table: pd.DataFrame) -> str:
    n = table["seed"].nunique()
    return f"Mean ± sd over {n} seeds" if n > 1 else "One seed"


def _notes(table: pd.DataFrame) -> str:
    """Data, model and status of every setup."""
    parts = []
    for _, group in table.groupby("setup", sort=False):
        row = group.iloc[0]
        size = (
            f", {row['n_train']:,} training items, {row['updates']:,} updates"
            if "n_train" in group.columns
            else ""
        )
        parts.append(f"{row['task']} ({row['status']}): {row['data']}; {row['embedding']}{size}.")
    return " ".join(parts)
