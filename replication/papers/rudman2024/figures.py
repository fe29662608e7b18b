"""Figures of the poster of Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from isotropy.printable import print_minus
from replication.figures.draw import (
    DOTS,
    GREY,
    MARKERS,
    Look,
    Panels,
    curve,
    distinct,
    footnote,
    forbid_verdict,
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
    "none": "no penalty",
    "cosreg": "CosReg",
}
"""Columns of the table of averages, in the order of the legend."""


@figure(
    "lambda",
    title="IsoScore* by strength of the penalty",
    tables=["runs"],
    section="poster, Figure 5",
)
def isoscore_by_lambda(runs: pd.DataFrame) -> Figure:
    """IsoScore* of the first model after fine-tuning with I-STAR, by lambda, which is 0 without
    penalty. The paper finds that it rises with lambda.
    """
    rows = runs[runs["setup"] == runs["setup"].iloc[0]]
    istar = rows[(rows["kind"] == "istar") & (rows["zeta"] == rows["zeta"].dropna().iloc[0])]
    means = istar.groupby("strength")["isoscore_star"].mean()
    low, high = (f"{means.iloc[i]:.2f} at λ = {means.index[i]:g}" for i in (0, -1))
    figure = Figure(figsize=(4.8, 2.8))
    axes = figure.subplots()
    mark_status(axes, rows)
    axes.set(xlabel="λ of I-STAR", ylabel="IsoScore* (0 a line, 1 isotropic)")
    without = rows[rows["kind"] == "none"].assign(strength=0.0)
    every, style = pd.concat([istar, without]), looks(["istar"])["istar"]
    curve(axes, every, "strength", "isoscore_star", None, style)
    mean = without["isoscore_star"].mean()
    axes.plot(0, mean, "k*", ms=11, zorder=4)
    axes.annotate("no penalty", (0, mean), (8, -4), textcoords="offset points", va="top")
    axes.set_ylim(-0.03)
    figure.suptitle(print_minus(f"IsoScore*: {low}, {mean:.2f} without penalty, {high}"))
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
    heights, largest = dict[bool, list[float]](), set[Any]()
    for axes, rows in drawn:
        style: dict[str, Any] = {"color": COLOURS[0], "lw": 0.6, "rasterized": True}
        axes.vlines(rows["dimension"], 0, rows["activation"], **style)
        axes.axhline(0, color="#777777", lw=0.6)
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        sizes = rows.set_index("dimension")["activation"].abs()
        ratio = sizes.max() / sizes.median()
        heights.setdefault(rows["kind"].iloc[0] != "none", []).append(sizes.max())
        largest.add(sizes.idxmax())
        text: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 7}
        text |= {"s": f"largest / median: {ratio:.1f}", "transform": axes.transAxes}
        axes.text(0.98, 0.96, **text)
    for setup in activations["setup"].unique():
        share_scale(axes for axes, rows in drawn if (rows["setup"] == setup).all())
    without, with_penalty = (heights.get(penalty, [math.nan]) for penalty in (False, True))
    one = f"dimension {largest.pop()}" if len(largest) == 1 else "one dimension"
    figure.suptitle(
        f"{one.capitalize()} sticks out: {np.mean(without):.1f} without penalty, "
        f"{min(with_penalty):.1f} to {max(with_penalty):.1f} with one"
    )
    about = (
        "Mean over the validation set of each dimension of the first token's vector, last layer; "
        "the median is that of absolute values, which falls with penalties; seed "
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
    by_run, cosines = runs.set_index(["setup", "method", "seed"]), dict[str, list[float]]()
    for axes, rows in drawn:
        _cloud(axes, rows)
        run = by_run.loc[tuple(rows[["setup", "method", "seed"]].iloc[0])]
        cosine, score = run["sentence_mean_cosine_last"], run["isoscore_star"]
        text = f"along the mean\nmean cosine {cosine:.2f}\nIsoScore* {score:.2f}"
        axes.set_xlabel(text, fontsize=7.5)
        cosines.setdefault(rows["kind"].iloc[0], []).append(cosine)
    for axis in ("x", "y"):
        for setup in points["setup"].unique():
            share_scale((a for a, rows in drawn if (rows["setup"] == setup).all()), axis)
    legend(figure, markerscale=2.5)
    names = {"none": "without penalty", "cosreg": "with CosReg"}
    texts = [f"{np.mean(cosines[k]):.2f} {name}" for k, name in names.items() if k in cosines]
    seed = points["seed"].min()
    figure.suptitle(f"Mean cosine of sentences: {', '.join(texts)} (seed {seed})")
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
    first = stability[stability["setup"] == stability["setup"].iloc[0]]
    size = min(first["n"].unique(), key=lambda n: abs(n - PUBLISHED_BATCH))
    of_size = first[first["n"] == size]
    means = of_size.groupby("zeta")["isoscore_star"].mean()
    unbiased = of_size["isoscore_unbiased"].mean()
    figure.suptitle(
        f"{size:,} points, true IsoScore {first['whole'].iloc[0]:.2f}: IsoScore "
        f"{means.iloc[0]:.2f}, IsoScore* (ζ = {means.index[-1]:g}) {means.iloc[-1]:.2f}, "
        f"without bias {unbiased:.2f}"
    )
    n = stability.groupby(["setup", "n", "zeta"])["repeat"].nunique().min()
    footnote(figure, f"{repeats(n, 'sample').capitalize()}. " + " ".join(notes))
    return figure


def _stability(axes: Axes, rows: pd.DataFrame, x: str, lines: str, names: dict[Any, str]) -> None:
    """IsoScore* of a cloud against a column, a line for each named value of another."""
    first = 0 if lines == "zeta" else 4  # colours mean one thing in a figure
    for i, (value, name) in enumerate(names.items(), first):
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
    scale, at_chance = _lambda_scale(runs), list[str]()
    for axes, rows in drawn:
        for method, selected in _in_order(rows).groupby("method", sort=False):
            style = _method_look(selected.iloc[0], scale)
            if selected["performance"].mean() <= selected["chance"].mean():
                at_chance.append(_short(str(method)))
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
    if at_chance:
        figure.suptitle(f"At chance: {'; '.join(dict.fromkeys(at_chance))}")
    forbid_verdict(figure, too_short=bool((runs["too_short"] != "").any()))
    about = (
        f"{_seeds(runs)}; performance on the whole validation set; IsoScore* of all its tokens in "
        f"all layers{_shrunk(runs)}. "
    )
    footnote(figure, about + _notes(runs))
    return figure


@figure(
    "figure6",
    title="Performance by penalty, mean over tasks",
    tables=["averages", "runs"],
    section="poster, Figure 6",
)
def average_performance(averages: pd.DataFrame, runs: pd.DataFrame) -> Figure:
    """Performance by penalty, averaged over tasks. The paper finds that I-STAR with negative
    lambda is above no penalty, and that above CosReg.
    """
    names = {c: n for c, n in _distinct_averages(averages).items() if averages[c].notna().any()}
    learned = runs[~runs["task"].isin(", ".join(averages["not_learned"]).split(", "))]
    tasks = list(dict.fromkeys(learned["task"]))
    one = f"{PERFORMANCE[learned['metric'].iloc[0]]} on {tasks[0]}" if len(tasks) == 1 else ""
    xlabel = one or f"Mean performance on {len(tasks)} tasks (×100)"
    every = averages.assign(setup=averages["model"])
    figure, drawn = panels(every, size=(3.4, 0.3 * len(names) + 0.6), per_row=1, xlabel=xlabel)
    styles = looks(names, "")
    for axes, rows in drawn:
        for i, column in enumerate(names):
            shown = rows.dropna(subset=column).assign(row=i + 0.0)
            curve(axes, shown, column, "row", None, styles[column], orient="y")
            seeds: dict[str, Any] = {"color": "none", "edgecolors": styles[column].color}
            axes.scatter(shown[column], shown["row"] + 0.25, 36, **seeds)
        of_model = learned[learned["model"] == rows["model"].iloc[0]]
        chance = of_model.groupby("task")["chance"].mean().mean()
        axes.axvline(chance, color=GREY, lw=1.2, ls=":")
        axes.text(chance, -0.55, " most frequent class", va="top", fontsize=7.5, color=GREY)
        axes.set(ylim=(len(names) - 0.4, -0.6), ylabel="")
        axes.set_yticks(range(len(names)), names.values())
        if not tasks:
            axes.text(0.5, 0.4, "no task was learned", transform=axes.transAxes, ha="center")
            axes.set(xlabel="", xticks=[])
    means = (f"{name}: {averages[column].mean():.0f}" for column, name in names.items())
    figure.suptitle("; ".join(means))
    forbid_verdict(figure, too_short=bool((averages["too_short"] != "").any()))
    about = f"Marks: {_seeds(averages).lower()}; rings: seeds. "
    if left_out := distinct(averages, "not_learned"):
        about += f"Left out, since models without penalty did not learn them: {left_out}. "
    footnote(figure, about + _notes(learned if tasks else runs))
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
    paper finds that the smaller lambda is, the lower it is.
    """
    first_zeta = layers["zeta"].dropna().iloc[0]
    layers = layers[(layers["kind"] != "istar") | (layers["zeta"] == first_zeta)]
    figure, drawn = _by_setup(layers, xlabel="layer", ylabel="TwoNN intrinsic dimension")
    scale = _lambda_scale(layers)
    for axes, rows in drawn:
        for method, selected in _in_order(rows).groupby("method", sort=False):
            style = _method_look(selected.iloc[0], scale)._replace(marker="o")
            name, width = _short(str(method)), 2 if selected["kind"].iloc[0] == "none" else 1.5
            options: dict[str, Any] = {"band": True, "linewidth": width}
            curve(axes, selected, "layer", "sentence_two_nn", name, style, **options)
        axes.set_ylim(bottom=0)
    legend(figure)
    last = layers[layers["layer"] == layers["layer"].max()]
    means = last.assign(strength=last["strength"].where(last["kind"] != "none", 0))
    means = means[means["kind"] != "cosreg"].groupby("strength")["sentence_two_nn"].mean()
    texts = (
        f"{mean:.0f} " + (f"at λ = {strength:g}" if strength else "without penalty")
        for strength, mean in means.items()
    )
    figure.suptitle("Last layer's dimensions: " + print_minus(", ".join(texts)))
    about = f"{_seeds(layers)}; sentence embeddings (first token) of the validation set. "
    footnote(figure, about + _notes(layers))
    return figure


def _distinct_averages(averages: pd.DataFrame) -> dict[str, str]:
    """AVERAGES, with one entry for I-STAR where best, chosen and mean lambda are the same."""
    istar = [column for column in AVERAGES if column.startswith("istar")]
    if not all(averages[column].equals(averages["istar"]) for column in istar):
        return AVERAGES
    others = {column: name for column, name in AVERAGES.items() if column not in istar}
    return {"istar": "I-STAR, λ < 0"} | others


def _method_look(first: pd.Series, scale: Callable[[float], Any]) -> Look:
    """Look of a penalty: lambda's colour for I-STAR, black without, grey for CosReg."""
    if first["kind"] == "istar":
        return Look(scale(first["strength"]), "o")
    return Look("#777777", "X", "--") if first["kind"] == "cosreg" else Look("black", "*")


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows from the smallest lambda to the largest, which is 0 without penalty; then CosReg."""
    strength = rows["strength"].where(rows["kind"] == "istar", 0)
    order = rows.assign(cosreg=rows["kind"] == "cosreg", order=strength)
    return order.sort_values(["cosreg", "order"], kind="stable")


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
    axes.set_aspect("equal", adjustable="box")


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
        if "n_validation" in rows.columns:
            size += f", {first['n_validation']:,} validation items"
        parts.append(
            f"{first['task']} ({first['status']}): {first['data']}; {first['embedding']}{size}."
        )
    return " ".join(parts)
