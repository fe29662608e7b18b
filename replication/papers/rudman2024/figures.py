"""Figures of the poster of Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from replication.figures.draw import (
    DOTS,
    GREY,
    MARKERS,
    Look,
    Panels,
    card,
    curve,
    distinct,
    footnote,
    grid,
    look,
    looks,
    mark_status,
    panels,
    record,
    repeats,
    repeats_per_setup,
    share_scale,
)
from replication.figures.names import legend, name_lines
from replication.figures.style import COLOURS
from replication.papers.declare import figure

COLUMNS = 4  # panels of methods beside each other
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
AVERAGES = {
    "istar_best": "I-STAR, best λ < 0 per task",
    "istar": "I-STAR, λ < 0 chosen on other seeds",
    "istar_mean": "I-STAR, mean over λ < 0",
    "none": "none",
    "cosreg": "CosReg",
}
"""Columns of the table of averages, in the order of the legend."""


@figure(
    "card",
    title="IsoScore* by strength of the penalty",
    tables=["runs"],
    section="poster, Figure 5",
)
def isoscore_by_lambda(runs: pd.DataFrame) -> Figure:
    """IsoScore* of the first model after fine-tuning with I-STAR, by lambda; dashed, without
    penalty. The paper finds that it rises with lambda.
    """
    rows = runs[runs["setup"] == runs["setup"].iloc[0]]
    istar = rows[(rows["kind"] == "istar") & (rows["zeta"] == rows["zeta"].dropna().iloc[0])]
    means = istar.groupby("strength")["isoscore_star"].mean()
    low, high = (f"{means.iloc[i]:.2g} at λ = {means.index[i]:g}" for i in (0, -1))
    title = f"IsoScore*: {low}, {high}".replace("-", "−")
    figure, axes = card(rows, title, xlabel="λ of I-STAR", ylabel="IsoScore*")
    curve(axes, istar, "strength", "isoscore_star", "I-STAR", looks(["istar"])["istar"])
    without = rows.loc[rows["kind"] == "none", "isoscore_star"].mean()
    axes.axhline(without, color="black", ls="--", label="no penalty")
    axes.set_ylim(0)
    legend(figure)
    footnote(figure, f"{_seeds(rows)}. {_notes(rows)}")
    return figure


@figure(
    "figure1",
    title="Mean activation of each dimension, by penalty",
    tables=["activations"],
    section="poster, Figure 1",
)
def activation_diagrams(activations: pd.DataFrame) -> Figure:
    """Mean activation of each dimension of sentence embeddings of the validation set, by method."""
    figure, drawn = _by_method(activations, "dimension", "mean activation")
    for axes, rows in drawn:
        style: dict[str, Any] = {"color": COLOURS[0], "lw": 0.6, "rasterized": True}
        axes.vlines(rows["dimension"], 0, rows["activation"], **style)
        axes.axhline(0, color="#777777", lw=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        ratio = rows["activation"].abs().max() / rows["activation"].abs().median()
        text: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 7}
        text |= {"s": f"largest / median: {ratio:.1f}", "transform": axes.transAxes}
        axes.text(0.98, 0.96, **text)
    for setup in activations["setup"].unique():
        share_scale(axes for axes, rows in drawn if (rows["setup"] == setup).all())
    about = (
        "Mean over the validation set of each dimension of the first token's vector, last layer, "
        "seed "
    )
    footnote(figure, f"{about}{activations['seed'].min()}. {_notes(activations)}")
    return figure


@figure(
    "figure2",
    title="Clouds of sentence embeddings around the origin, by penalty",
    tables=["points", "runs"],
    section="poster, Figures 2 and 3",
)
def point_clouds(points: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Clouds of sentence embeddings with their average cosine. CosReg can lower the average cosine
    by moving the mean alone. The poster's clouds have 0.978 and 0.005; what they show is not
    stated.
    """
    ylabel = "at right angles to it"
    figure, drawn = _by_method(points, "along the mean", ylabel)
    by_run = runs.set_index(["setup", "method", "seed"])
    for axes, rows in drawn:
        _cloud(axes, rows)
        run = by_run.loc[tuple(rows[["setup", "method", "seed"]].iloc[0])]
        text = (
            f"average cosine {run['sentence_mean_cosine_last']:.3f}\n"
            f"IsoScore* {run['isoscore_star']:.3f}"
        )
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.7, "pad": 1.5}
        axes.text(0.03, 0.97, text, transform=axes.transAxes, va="top", fontsize=7, bbox=box)
    legend(figure, markerscale=2.5)
    about = (
        "Sentence embeddings (first token, last layer) of the validation set, projected on their "
        "mean and on their first "
        "component at right angles to it; units of the embedding. IsoScore* of all tokens and "
        f"layers{_shrunk(runs)}. "
    )
    footnote(figure, about + _notes(points))
    return figure


@figure(
    "figure4",
    title="IsoScore* by shrinkage and by size of the sample",
    tables=["stability"],
    explore=True,
    section="poster, Figure 4",
)
def stability_of_isoscore(stability: pd.DataFrame) -> Figure:
    """IsoScore* against shrinkage and sample size; dashed, the score of the whole cloud. At zeta =
    0 it is IsoScore; in black, IsoScore without bias (isoscore_unbiased), which needs no
    shrinkage.
    """
    figure, drawn = grid(stability, "setup", 2, size=(3.6, 2.5), sharey="row")
    notes = []
    for (left, right), rows in drawn:
        first, sizes = rows.iloc[0], sorted(rows["n"].unique())
        published = min(range(len(sizes)), key=lambda i: abs(sizes[i] - PUBLISHED_BATCH))
        shown = sorted({0, len(sizes) // 3, published, len(sizes) - 1})
        _stability(left, rows, "zeta", "n", {sizes[i]: f"n = {sizes[i]:,}" for i in shown})
        zetas = sorted(rows["zeta"].unique())
        names = {z: f"ζ = {z:g}" + ("" if z else " (IsoScore)") for z in zetas}
        once = rows[(rows["zeta"] == zetas[0]) & rows["isoscore_unbiased"].notna()]
        options: dict[str, Any] = {"band": True, "linewidth": 1.5}
        curve(right, once, "n", "isoscore_unbiased", "without bias", Look("black", "X"), **options)
        _stability(right, rows, "n", "zeta", names)
        right.autoscale(axis="y")
        right.set_ylim(bottom=0)
        left.set_xlabel("shrinkage ζ")
        left.set_ylabel(f"{first['setup']}\nIsoScore* (0 a line, 1 isotropic)")
        right.set_xscale("log")
        right.xaxis.set_major_locator(FixedLocator([float(n) for n in sizes]))
        right.xaxis.set_minor_locator(NullLocator())
        right.set_xticklabels([f"{n:,}" for n in sizes], rotation=45, fontsize=7)
        right.set_xlabel("points in the sample, n")
        mark_status(right, rows)
        data = "; ".join(text for text in (first["data"], first["embedding"]) if text)
        notes.append(
            f"{first['setup']} ({first['status']}): {data}, {first['d']} dimensions, shrinkage "
            f"covariance of {first['shrinkage_points']:,} other points."
        )
    n = stability.groupby(["setup", "n", "zeta"])["repeat"].nunique().min()
    footnote(figure, f"{repeats(n, 'sample').capitalize()}. " + " ".join(notes))
    return figure


def _stability(axes: Axes, rows: pd.DataFrame, x: str, lines: str, names: dict[Any, str]) -> None:
    """IsoScore* of a cloud against a column, a line for each named value of another."""
    for i, (value, name) in enumerate(names.items()):
        curve(axes, rows[rows[lines] == value], x, "isoscore_star", name, look(i))
    whole = rows["whole"].iloc[0]
    axes.axhline(whole, color="black", ls="--", lw=1, label=f"whole cloud: {whole:.3f}")
    name_lines(axes, axes.lines)
    axes.set_ylim(bottom=0)


@figure(
    "figure5",
    title="Performance against IsoScore*, by penalty",
    tables=["runs"],
    explore=True,
    section="poster, Figure 5",
)
def performance_against_isoscore(runs: pd.DataFrame) -> Figure:
    """Performance against IsoScore* for models fine-tuned with different lambda. The paper finds
    that they are negatively correlated.
    """
    xlabel = "IsoScore* (0 a line, 1 isotropic)"
    figure, drawn = _by_setup(runs, xlabel=xlabel)
    zetas = sorted(runs["zeta"].dropna().unique())
    scale = _lambda_scale(runs)
    for axes, rows in drawn:
        for method, selected in rows.groupby("method", sort=False):
            style = _method_look(selected.iloc[0], scale)
            if selected["kind"].iloc[0] == "istar":
                marker = MARKERS[zetas.index(selected["zeta"].iloc[0]) % len(MARKERS)]
                style = style._replace(marker=marker)
            _mean_and_deviations(axes, selected, _short(str(method)), style)
        _chance(axes, float(rows["chance"].mean()))
        axes.set_ylabel(PERFORMANCE[rows["metric"].iloc[0]])
        means = rows.groupby("method")["isoscore_star"].mean()
        # Else all but the largest would fall together
        if means.min() > 0 and means.max() > WIDE * means.min():
            axes.set_xscale("log")
    legend(figure)
    about = (
        f"{_seeds(runs)}; performance on the whole validation set; IsoScore* of all its tokens in "
        f"all layers{_shrunk(runs)}. "
    )
    footnote(figure, about + _notes(runs))
    return figure


@figure(
    "figure6",
    title="Performance averaged over tasks, by penalty",
    tables=["averages"],
    section="poster, Figure 6",
)
def average_performance(averages: pd.DataFrame) -> Figure:
    """Performance averaged over tasks. The paper finds that I-STAR with negative lambda is above
    no penalty, and that above CosReg.
    """
    import seaborn as sns

    n_models = averages["setup"].nunique()
    figure = Figure(figsize=(1.6 * n_models + 3.4, 2.9))
    axes = figure.subplots()
    names = _distinct_averages(averages)
    long = averages.rename(columns=names).melt(
        ["setup", "seed"], list(names.values()), "method", "performance"
    )
    long = long.dropna(subset="performance")
    if len(long):
        methods = [name for name in names.values() if name in set(long["method"])]
        hue: dict[str, Any] = {"hue": "method", "hue_order": methods, "legend": False}
        data: dict[str, Any] = {"data": long, "x": "setup", "y": "performance", "ax": axes} | hue
        # That of seaborn's dots, which share 0.8 of the place of a model
        colours = looks(names)
        palette = [colours[column].color for column, name in names.items() if name in methods]
        width = 0.8 * (1 - 1 / len(methods))
        sns.stripplot(**data, palette=["black"] * len(methods), dodge=True, jitter=False, size=6)
        for line in axes.collections:
            line.set_zorder(3)
        data |= {"errorbar": "sd", "palette": palette, "linestyles": "none", "legend": True}
        sns.pointplot(**data, dodge=width, markers="_", markersize=14, capsize=0.06)
        sns.move_legend(axes, "upper left", bbox_to_anchor=(1.01, 1), title=None, frameon=False)
    else:
        axes.text(0.5, 0.5, "no task was learned", transform=axes.transAxes, ha="center")
        axes.set_xticks(range(n_models), averages["setup"].unique())
    axes.set(xlabel="", ylabel="performance, average over tasks (×100)")
    axes.grid(axis="x", visible=False)
    mark_status(axes, averages)
    n_tasks = averages["n_tasks"].max()
    tasks = "One task" if n_tasks == 1 else f"{n_tasks} tasks"
    about = f"{tasks}. Dashes: {_seeds(averages).lower()}; dots: seeds. "
    left_out = distinct(averages, "not_learned")
    if left_out:
        about += f"Left out, since models without penalty did not learn them: {left_out}. "
    footnote(figure, f"{about}Data: {distinct(averages, 'data')}.")
    return figure


@figure(
    "figure7",
    title="Intrinsic dimension by layer and penalty",
    tables=["layers"],
    explore=True,
    section="poster, Figure 7",
)
def dimension_per_layer(layers: pd.DataFrame) -> Figure:
    """TwoNN intrinsic dimension of sentence embeddings of the validation set, layer by layer. The
    paper finds that it falls with lambda.
    """
    first_zeta = layers["zeta"].dropna().iloc[0]
    layers = layers[(layers["kind"] != "istar") | (layers["zeta"] == first_zeta)]
    figure, drawn = _by_setup(layers, xlabel="layer", ylabel="TwoNN intrinsic dimension")
    scale = _lambda_scale(layers)
    order = {"istar": 0, "none": 1, "cosreg": 2}
    for axes, rows in drawn:
        rows = rows.assign(order=rows["kind"].map(order)).sort_values(["order", "strength"])
        for method, selected in rows.groupby("method", sort=False):
            style = _method_look(selected.iloc[0], scale)._replace(marker="o")
            name, width = _short(str(method)), 2 if selected["kind"].iloc[0] == "none" else 1.5
            options: dict[str, Any] = {"band": True, "linewidth": width}
            curve(axes, selected, "layer", "sentence_two_nn", name, style, **options)
        axes.set_ylim(bottom=0)
    legend(figure)
    about = f"{_seeds(layers)}; sentence embeddings (first token) of the validation set. "
    footnote(figure, about + _notes(layers))
    return figure


def _distinct_averages(averages: pd.DataFrame) -> dict[str, str]:
    """AVERAGES, with one entry for I-STAR where best, chosen and mean lambda are the same."""
    istar = [column for column in AVERAGES if column.startswith("istar")]
    if not all(averages[column].equals(averages["istar"]) for column in istar):
        return AVERAGES
    others = {column: name for column, name in AVERAGES.items() if column not in istar}
    return {"istar": "I-STAR, λ < 0 (one value)"} | others


def _method_look(first: pd.Series, scale: Callable[[float], Any]) -> Look:
    """Look of a penalty: lambda's colour for I-STAR, black without, grey for CosReg."""
    if first["kind"] == "istar":
        return Look(scale(first["strength"]), "o")
    return Look("#777777", "X", "--") if first["kind"] == "cosreg" else Look("black", "*")


def _short(method: str) -> str:
    return method.removeprefix("I-STAR, ")


def _mean_and_deviations(axes: Axes, rows: pd.DataFrame, name: str, style: Look) -> None:
    """A method's performance against IsoScore*: mean over seeds, with standard deviations."""
    mean, sd = (rows[["isoscore_star", "performance"]].agg(f, axis=0) for f in ("mean", "std"))
    edges: dict[str, Any] = {"mec": "black", "mew": 0.5, "ecolor": "#999999", "elinewidth": 1}
    size = {"*": 11, "X": 7}.get(style.marker, 6.5)
    errors = dict(zip(("xerr", "yerr"), sd, strict=True)) if len(rows) > 1 else {}
    marks: dict[str, Any] = {"marker": style.marker, "color": style.color, "ms": size, "ls": ""}
    axes.errorbar(mean.iloc[0], mean.iloc[1], label=name, **marks | edges | errors)
    record(axes, rows, "isoscore_star", "performance", name, join=False)


def _chance(axes: Axes, chance: float) -> None:
    """Performance of the most frequent class of the training items, on average over seeds, whose
    samples may have different ones: a line, or a note where it is far below.
    """
    if chance <= 0:  # scores and answers have none
        return
    low, high = axes.get_ylim()
    # Farther away it would flatten what there is to see
    if chance > low - 0.5 * (high - low):
        axes.axhline(chance, color=GREY, lw=1.2, ls=":", label="most frequent class in training")
    else:
        text = f"most frequent class in training: {chance:.1f}, below"
        style: dict[str, Any] = {"ha": "right", "va": "bottom", "fontsize": 7.5, "color": GREY}
        axes.text(0.98, 0.02, text, transform=axes.transAxes, **style)


def _by_method(table: pd.DataFrame, xlabel: str, ylabel: str) -> tuple[Figure, Panels]:
    """A figure with a panel per method, those of a setup in rows of their own, and each panel with
    its rows.
    """
    figure, drawn = panels(
        table,
        "method",
        rows="setup",
        title=lambda rows: str(rows["method"].iloc[0]).replace("I-STAR, ", "I-STAR,\n"),
        size=(1.7, 1.7),
        per_row=COLUMNS,
        xlabel=xlabel,
    )
    named = set()
    for axes, rows in drawn:
        place: Any = axes.get_subplotspec()
        if place.is_first_col():
            name = "" if (setup := rows["setup"].iloc[0]) in named else f"{_name(rows)}\n"
            axes.set_ylabel(name.replace(", ", ",\n") + ylabel, fontsize=8)
            named.add(setup)
    return figure, drawn


def _by_setup(table: pd.DataFrame, **labels: Any) -> tuple[Figure, Panels]:
    """A figure with one panel per setup, and each panel with its rows."""
    return panels(table, size=(2.5, 2.3), title=_name, **labels)


def _cloud(axes: Axes, rows: pd.DataFrame) -> None:
    """Points by class, and the origin."""
    import seaborn as sns

    classes, ylabel = sorted(rows["label"].dropna().unique()), axes.get_ylabel()
    style: dict[str, Any] = {"x": "x", "y": "y", "ax": axes, "legend": False, **DOTS}
    if not classes or len(classes) > len(COLOURS):
        sns.scatterplot(rows, label="sentences", color=COLOURS[0], **style)
    for i, value in enumerate(classes if len(classes) <= len(COLOURS) else []):
        selected = rows[rows["label"] == value]
        sns.scatterplot(selected, label=f"class {value:g}", color=COLOURS[i], **style)
    axes.scatter([0], [0], marker="+", s=70, color="black", lw=1.5, zorder=4, label="origin")
    axes.set_ylabel(ylabel)  # seaborn labels panels that have none
    axes.set_aspect("equal", adjustable="datalim")


def _lambda_scale(table: pd.DataFrame) -> Callable[[float], Any]:
    """Return the function from lambda to its colour, from orange below 0 to purple above on a
    square-root scale, told apart with any form of colour blindness.
    """
    largest = max(1e-9, float(table["strength"][table["kind"] == "istar"].abs().max()))
    norm, colours = TwoSlopeNorm(0, -math.sqrt(largest), math.sqrt(largest)), mpl.colormaps["PuOr"]

    def colour(strength: float) -> Any:
        # The root spreads out small lambdas; the middle of the map would be white.
        position = float(norm(math.copysign(math.sqrt(abs(strength)), strength)))
        return colours(
            0.04 + 0.32 * position / 0.5 if position < 0.5 else 0.64 + 0.32 * (position - 0.5) / 0.5
        )

    return colour


def _name(rows: pd.DataFrame) -> str:
    return f"{rows['task'].iloc[0]}, {rows['model'].iloc[0]}"


def _shrunk(runs: pd.DataFrame) -> str:
    """With which zeta the models are measured, which is not the penalty's."""
    return (
        f", measured with ζ = {runs['isoscore_star_zeta'].iloc[0]:g} and training tokens, "
        "whatever the penalty's ζ"
    )


def _seeds(table: pd.DataFrame) -> str:
    return repeats_per_setup(table).capitalize()


def _notes(table: pd.DataFrame) -> str:
    """Describe data, model and status (original or stand-in) of every setup."""
    parts = []
    for _, rows in table.groupby("setup", sort=False):
        first = rows.iloc[0]
        size = ""
        if "n_train" in rows.columns:
            size = f", {first['n_train']:,} training items, {first['updates']:,} updates"
        parts.append(
            f"{first['task']} ({first['status']}): {first['data']}; {first['embedding']}{size}."
        )
    return " ".join(parts)
