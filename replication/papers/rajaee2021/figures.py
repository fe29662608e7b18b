"""Figures of Rajaee & Sheikhi 2020 (slides) and Rajaee & Pilehvar 2021, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from replication.figures.draw import (
    CLUSTERS,
    GREY,
    Look,
    card,
    colour_bar,
    curve,
    dots,
    footnote,
    grid,
    heading,
    label,
    look,
    looks,
    mark_status,
    number_range,
    panels,
    record,
    repeats_per_setup,
    share_scale,
    sources,
)
from replication.figures.names import legend
from replication.papers.declare import figure

ISOTROPY = "log₁₀ I(W) (0: isotropic)"
CORRELATION = "Spearman correlation (×100)"
CLUSTER_BASED = "k-means + mean + PCA"
DEVIATIONS = "Bars: sd over clusterings, cut at 0, the largest that log₁₀ I(W) can be"
SCORES = {"accuracy": "Accuracy (%)", "matthews": "Matthews correlation (×100)", "f1": "F1 (%)"}
VIEWS = [(when, by) for by in ("frequency", "cluster") for when in ("before", "after")]
"""Panels of the figure of words, from left to right."""


@figure(
    "card",
    title="Correlation with people's scores, by post-processing",
    tables=["slides"],
    section="slides; Table 2",
)
def similarity_card(slides: pd.DataFrame) -> Figure:
    """Spearman correlation of cosines with people's scores on the first data set, before and after
    each method, with 95 % intervals over pairs; isotropy where a study has no scores. The paper
    finds that it rises most with the cluster-based method (k-means + mean + PCA).
    """
    scored = slides[slides["n_pairs"] > 0]
    column = "log10_isotropy" if scored.empty else "spearman"
    rows = slides if scored.empty else scored
    rows = rows[rows["setup"] == rows["setup"].iloc[0]]
    values = rows.set_index("title")[column]
    name, xlabel = (
        ("log₁₀ I(W)", ISOTROPY) if scored.empty else ("Correlation with people", CORRELATION)
    )
    title = f"{name}: {values.get('none'):.3g}, cluster-based {values.get(CLUSTER_BASED):.3g}"
    figure, axes = card(rows, title.replace("-", "−").replace("r−b", "r-b"), xlabel=xlabel)
    between = (f"{column}_low", f"{column}_high")
    for i, (method, style) in enumerate(looks(rows["title"], "").items()):
        selected = rows[rows["title"] == method].assign(row=i)
        curve(axes, selected, column, "row", None, style, between, orient="y")
    axes.set_yticks(range(len(rows)), rows["title"])
    axes.invert_yaxis()
    footnote(figure, f"{rows['setup'].iloc[0]}. {sources(rows)}")
    return figure


@figure(
    "scale",
    title="Isotropy as published, at an equal norm, and IsoScore",
    tables=["slides"],
    section="4",
)
def isotropy_and_scale(slides: pd.DataFrame) -> Figure:
    """How much of the gain in isotropy is scale: log10 of I(W) as published, the same with all
    clouds at the norm that they had before, and IsoScore.
    """
    shown = {
        "log10_isotropy": "log₁₀ I(W), as published",
        "log10_isotropy_matched": "log₁₀ I(W), at the norm before",
        "isoscore": "IsoScore",
    }
    methods = list(dict.fromkeys(slides["title"]))
    slides = slides.assign(row=slides["title"].map(methods.index), place=_place(slides))
    datasets = looks(slides["dataset"], "")
    figure, drawn = grid(slides, "place", len(shown), size=(2.3, 1.75), sharey=True)
    for axes_row, rows in drawn:
        for axes, (column, text) in zip(axes_row, shown.items(), strict=True):
            for dataset, selected in rows.groupby("dataset", sort=False):
                style = datasets[str(dataset)]
                _curve(axes, selected, column, "row", str(dataset), style, orient="y")
            axes.set(xlabel=text if axes_row is drawn[-1][0] else "", ylabel="")
            axes.set_yticks(range(len(methods)), methods)
        share_scale(axes_row[:2], "x")
        heading(axes_row[0], str(rows["place"].iloc[0]))
        mark_status(axes_row[-1], rows)
    drawn[0][0][0].invert_yaxis()
    legend(figure)
    about = (
        "Methods that subtract means and components shorten vectors, and I(W) rises with that "
        "alone. Middle: clouds brought back to the root mean square norm that they had before. "
        "IsoScore does not depend on scale. Controls: random parts as large as the clusters, and "
        "the global method with the variance that k-means leaves. "
    )
    footnote(figure, f"{about}{DEVIATIONS}. {sources(slides)}")
    return figure


@figure(
    "layers",
    title="Isotropy by layer, without post-processing",
    tables=["table5"],
    explore=True,
    needs="isotropy-by-layer",
    section="Table 5",
)
def isotropy_per_layer(table5: pd.DataFrame) -> Figure:
    """Isotropy of every layer without post-processing."""
    figure = Figure(figsize=(5.4, 2.9))
    axes = figure.subplots()
    styles = looks(table5["embedding"])
    for model, rows in table5.groupby("embedding", sort=False):
        style, over_signs = styles[str(model)], ("log10_isotropy_low", "log10_isotropy_high")
        curve(axes, rows, "layer", "log10_isotropy", str(model), style, over_signs)
        _published(axes, rows, "layer", f"{model}, paper", style.color)
    label(axes, xlabel="layer (0: embedding layer)", ylabel=ISOTROPY)
    _compress(axes, table5["log10_isotropy"])
    mark_status(axes, table5)
    legend(figure)
    about = "All token vectors without post-processing. Bars: over all signs of eigenvectors. "
    footnote(figure, about + sources(table5))
    return figure


@figure(
    "clusters",
    title="Isotropy by number of clusters whose means are subtracted",
    tables=["table1"],
    explore=True,
    needs="cluster-counts",
    section="Table 1",
)
def effect_of_clusters(table1: pd.DataFrame) -> Figure:
    """Isotropy against the number of clusters whose means are subtracted. The paper finds that it
    rises.
    """
    figure = Figure(figsize=(5.8, 3.2))
    axes = figure.subplots()
    for i, (_, rows) in enumerate(table1.groupby("setup", sort=False)):
        name = _place(rows).iloc[0]
        clustered = rows[rows["method"] == "kmeans-mean"]
        _curve(axes, clustered, "n_clusters", "log10_isotropy", name, look(i))
        before = rows.loc[rows["method"] == "none", "log10_isotropy"].iloc[0]
        name_before = f"{name}, without post-processing"
        axes.axhline(before, color=look(i).color, ls="--", lw=0.9, label=name_before)
        _published(axes, clustered, "n_clusters", f"{name}, paper", look(i).color)
    label(axes, xlabel="clusters", ylabel=ISOTROPY)
    _compress(axes, table1["log10_isotropy"])
    mark_status(axes, table1)
    legend(figure)
    about = (
        f"k-means and the mean of each cluster; {_runs(table1)}. {DEVIATIONS}. Dashed: without "
        "post-processing. "
    )
    footnote(figure, about + sources(table1))
    return figure


@figure(
    "words",
    title="Tokens before and after the cluster-based method",
    tables=["words"],
    needs="plotted",
    section="slides; Figures 1 and 2",
)
def words_before_and_after(words: pd.DataFrame) -> Figure:
    """Tokens in the plane of their first two principal components, before and after the
    cluster-based method, by frequency and by cluster.
    """
    figure, drawn = grid(words, "setup", len(VIEWS), size=(1.8, 1.8))
    for row, rows in drawn:
        counts = rows["frequency"]
        norm = LogNorm(max(1, counts.min()), max(2, counts.max()))
        by_count: dict[str, Any] = {"palette": "cividis", "hue_norm": norm, "legend": False}
        for axes, (when, by) in zip(row, VIEWS, strict=True):
            hue = by_count if by == "frequency" else CLUSTERS
            xlabel = "first component"
            dots(axes, rows, f"x_{when}", f"y_{when}", xlabel, hue=by, **hue)
            axes.axhline(0, color="#777777", lw=0.6)
            axes.axvline(0, color="#777777", lw=0.6)
            heading(axes, f"{when}, by {by}")
            axes.set_xlabel(xlabel if row is drawn[-1][0] else "")
        of_words = rows["layer"].isna().iloc[0]
        text = "rank of the word" if of_words else "occurrences of the type"
        colour_bar(figure, list(row), norm, text, aspect=15, pad=0.01)
        place = _place(rows).iloc[0].replace(", ", ",\n")
        row[0].set_ylabel(f"{place}\nsecond component", fontsize=8)
    mark_status(drawn[0][0][-1], words)
    about = (
        "A seeded part of all tokens; units of the embedding. Each plane is that of the first two "
        "principal components of all "
        "tokens, anew after the method. Colours of clusters repeat after 20; they are not those "
        "of a legend. "
    )
    footnote(figure, about + sources(words))
    return figure


@figure(
    "convergence",
    title="Classification by epoch and post-processing",
    tables=["convergence"],
    explore=True,
    needs="classification",
    section="Figure 4",
)
def convergence(convergence: pd.DataFrame) -> Figure:
    """Score of the authors' classifier on frozen features after each epoch. The paper finds that
    it rises faster and a little higher with the cluster-based method.
    """
    figure, drawn = panels(convergence, title=_task, xlabel="epoch")
    for axes, rows in drawn:
        methods = rows[rows["classifier"] == "mlp"].groupby(["title", "clustering"], sort=False)
        for (title, clustering), selected in methods:
            name = str(title) if clustering == "none" else f"{title}, {clustering}"
            style = looks([str(title)], "--" if clustering == "inductive" else "-")[str(title)]
            curve(axes, selected, "epoch", "score", name, style, band=True)
        chance = rows["chance"].iloc[0]
        axes.axhline(chance, color=GREY, ls=":", lw=1.2, label="most frequent class in training")
        axes.set_ylabel(SCORES[rows["metric"].iloc[0]])
    legend(figure)
    about = (
        f"MLP on the first {convergence['max_length'].max()} token vectors; "
        f"{number_range(convergence['n_train'])} training and "
        f"{number_range(convergence['n_validation'])} validation items; "
        f"{repeats_per_setup(convergence)}. "
    )
    footnote(figure, about + sources(convergence))
    return figure


@figure(
    "cls",
    title="Isotropy of first tokens by layer, after fine-tuning",
    tables=["cls_layers"],
    explore=True,
    needs="finetuning",
    section="slides, fine-tuning analysis",
)
def first_tokens_per_layer(cls_layers: pd.DataFrame) -> Figure:
    """Isotropy of first tokens in each layer after fine-tuning, without and with the method
    inside.
    """
    names = {"none": "fine-tuned", "cluster": "fine-tuned, method inside"}
    styles = dict(zip(names, looks(["none", CLUSTER_BASED]).values(), strict=True))
    figure, drawn = panels(cls_layers, title=_task, xlabel="layer", ylabel=ISOTROPY)
    for axes, rows in drawn:
        for method, selected in rows.groupby("method", sort=False):
            style = styles[str(method)]
            curve(axes, selected, "layer", "log10_isotropy", names[str(method)], style)
    legend(figure)
    about = (
        f"First tokens of the validation set after {number_range(cls_layers['updates'])} updates; "
        f"{repeats_per_setup(cls_layers)}. With the method inside, "
        "the last layer is what the head reads. "
    )
    footnote(figure, about + sources(cls_layers))
    return figure


def _runs(table: pd.DataFrame) -> str:
    n_runs = int(table["n_runs"].max())
    return "one clustering" if n_runs == 1 else f"means over {n_runs} clusterings"


def _curve(
    axes: Axes, rows: pd.DataFrame, x: str, y: str, name: str, style: Look, **options: Any
) -> None:
    """A line of values whose standard deviation is in the table."""
    value = x if options.get("orient") == "y" else y
    low, high = (rows[value] + sign * rows[f"{value}_sd"] for sign in (-1, 1))
    if value.startswith("log10"):
        high = high.clip(upper=0)
    rows = rows.assign(low=low, high=high)
    curve(axes, rows, x, y, name, style, ("low", "high"), **options)


def _published(axes: Axes, rows: pd.DataFrame, x: str, name: str, colour: str) -> None:
    """Published values of I(W) as crosses, where the paper has some."""
    printed = rows.dropna(subset="published_log10_isotropy")
    if len(printed):
        y = "published_log10_isotropy"
        axes.plot(printed[x].astype(float), printed[y], "x", color=colour, label=name)
        record(axes, printed, x, y, name)


def _compress(axes: Axes, values: pd.Series) -> None:
    """Beside a decoder's thousands of orders of magnitude, others would lie on one line: a scale
    that is linear from -1 on.
    """
    if values.min() < -100:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(top=0.3)


def _place(table: pd.DataFrame) -> pd.Series:
    """Model and layer of each row; the words of static vectors have no layer."""
    layers = ", layer " + table["layer"].map("{:.0f}".format)
    return table["model"] + np.where(table["layer"].isna(), ", words", layers)


def _task(rows: pd.DataFrame) -> str:
    return f"{rows['task'].iloc[0]}, {rows['embedding'].iloc[0]}"
