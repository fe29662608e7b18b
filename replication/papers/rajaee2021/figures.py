"""Figures of Rajaee & Sheikhi 2020 (slides) and Rajaee & Pilehvar 2021, drawn from tables alone."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from isotropy.printable import print_minus
from replication.figures.draw import (
    DOTS,
    GREY,
    OF_CLUSTERS,
    Look,
    colour_bar,
    curve,
    footnote,
    forbid_verdict,
    grid,
    heading,
    label,
    largest_in_colour,
    look,
    looks,
    mark_status,
    number_range,
    panels,
    record,
    repeats_per_setup,
    share_scale,
    sources,
    whiskers,
)
from replication.figures.names import legend
from replication.figures.style import GRADIENT
from replication.papers.declare import figure

ISOTROPY = "log₁₀ I(W) (0: isotropic)"
CORRELATION = "Spearman correlation (×100)"
CLUSTER_BASED = "k-means + mean + PCA"
GLOBAL = "mean + PCA (global)"
EQUAL = "global, variance of k-means"
RANDOM = "random parts + mean + PCA"
SHORT = {"none": "none", CLUSTER_BASED: "clusters"}
SCORES = {"accuracy": "Accuracy (%)", "matthews": "Matthews correlation (×100)", "f1": "F1 (%)"}
BY_SIGNS = ["log10_isotropy_low", "log10_isotropy_high"]
"""Least and largest I(W) over the signs of eigenvectors, which are arbitrary."""
VIEWS = [("before", "frequency"), ("after", "frequency"), ("before", "cluster")]
"""Panels of the figure of words, from left to right."""


@figure(
    "similarity",
    title="Correlation with people's scores, by post-processing",
    tables=["slides"],
    section="slides; Table 2",
)
def similarity(slides: pd.DataFrame) -> Figure:
    """Spearman correlation of cosines with people's scores on the first data set, before and after
    each method, with 95 % intervals over pairs. The paper finds that it rises most with the
    cluster-based method (k-means + mean + PCA).
    """
    scored = slides[slides["n_pairs"] > 0]
    column = "log10_isotropy" if scored.empty else "spearman"
    rows = slides if scored.empty else scored
    rows = rows[rows["setup"] == rows["setup"].iloc[0]]
    values = rows.set_index("title")[column]
    named = SHORT | {GLOBAL: "global", RANDOM: "random parts"}
    texts = (f"{text} {print_minus(f'{values[name]:.3g}')}" for name, text in named.items()
             if name in values)  # fmt: skip
    figure = Figure(figsize=(4.8, 3.0))
    axes = figure.subplots()
    mark_status(axes, rows)
    axes.set_xlabel(ISOTROPY if scored.empty else CORRELATION)
    figure.suptitle(", ".join(texts).capitalize())
    between = (f"{column}_low", f"{column}_high")
    for i, (method, style) in enumerate(looks(rows["title"], "").items()):
        selected = rows[rows["title"] == method].assign(row=i)
        curve(axes, selected, column, "row", None, style, between, orient="y")
    axes.set_yticks(range(len(rows)), rows["title"])
    axes.invert_yaxis()
    n = (
        f"{rows['n_tokens'].iloc[0]:,} vectors"
        if scored.empty
        else f"{rows['n_pairs'].iloc[0]:,} pairs"
    )
    footnote(figure, f"{rows['setup'].iloc[0]}. n = {n}. {sources(rows)}")
    return figure


@figure(
    "scale",
    title="Isotropy by method: as published, at equal norm, and by IsoScore",
    tables=["slides", "measurements"],
    section="4",
)
def isotropy_and_scale(slides: pd.DataFrame, measurements: pd.DataFrame) -> Figure:
    """How much of the gain in isotropy is scale, and how much are clusters: log10 of I(W) as
    published, the same with all clouds at the norm that they had before, and IsoScore.
    """
    methods = list(dict.fromkeys(slides["title"]))
    runs = measurements[measurements["setup"].isin(slides["setup"])]
    runs = runs[runs["part"].isin(["methods", "controls"])]
    runs = runs.assign(row=runs["title"].map(methods.index) + 0.0, place=_place(runs))
    runs = runs.drop_duplicates(["place", "title", "seed", "log10_isotropy"])  # one vocabulary
    places = list(runs.groupby("place", sort=False))
    figure = Figure(figsize=(1.7 * len(places) + 2.2, 4.2))
    every = figure.subplots(2, len(places), sharey=True, squeeze=False)
    published, matched = look(0, ""), look(1, "")
    for (above, below), (place, rows) in zip(every.T, places, strict=True):
        _ranges(above, rows, "log10_isotropy", "row", "I(W) as published", published, orient="y")
        at_norm = "I(W) at the norm before"
        ring: dict[str, Any] = {"markerfacecolor": "none", "markersize": 8, "orient": "y"}
        _ranges(above, rows, "log10_isotropy_matched", "row", at_norm, matched, **ring)
        _ranges(below, rows, "isoscore", "row", "IsoScore", look(2, ""), orient="y")
        heading(above, textwrap.fill(str(place).replace("layer ", "layer\u00a0"), 24), rows)
        label(above, xlabel="log₁₀ I(W)", ylabel="")
        label(below, xlabel="IsoScore", ylabel="", xlim=(0, 1.06 * runs["isoscore"].max()))
    every[0, 0].set(
        yticks=range(len(methods)), yticklabels=methods, ylim=(len(methods) - 0.5, -0.5)
    )
    legend(figure)
    score = runs.pivot_table(index="place", columns="title", values="isoscore")
    score = score.reindex(columns=[GLOBAL, CLUSTER_BASED, RANDOM, EQUAL]).dropna()
    if len(score):
        gains = score.sub(score[GLOBAL], axis=0).agg(["min", "max"])
        added = {name: print_minus("{:.2f} to {:.2f}".format(*gains[name])) for name in gains}
        figure.suptitle(
            f"Over the global method clusters add {added[CLUSTER_BASED]} IsoScore, "
            f"random parts {added[RANDOM]}, equal variance {added[EQUAL]}"
        )
    by_signs = (slides["log10_isotropy_high"] - slides["log10_isotropy_low"]).max()
    about = (
        "Methods that subtract means and components shorten vectors, and I(W) rises with that "
        "alone; at the norm before, clouds have their root mean square norm again. "
        "IsoScore does not depend on scale. Controls: random parts as large as the clusters, and "
        "the global method with the variance that k-means leaves. I(W) "
        "is by one rule for the signs of eigenvectors, which bars do not include: over all signs "
        f"its logarithm has a range of up to {by_signs:.1f}. "
    )
    footnote(figure, f"{about}{_clusterings(slides)}. {sources(slides)}")
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
    figure = Figure(figsize=(4.8, 2.8))
    axes = figure.subplots()
    styles = looks(table5["embedding"])
    for model, rows in table5.groupby("embedding", sort=False):
        style, ends = styles[str(model)], rows[BY_SIGNS]
        curve(axes, rows, "layer", "log10_isotropy", str(model), style)
        axes.fill_between(rows["layer"], *ends.to_numpy().T, color=style.color, alpha=0.15, lw=0)
        _published(axes, rows, "layer", f"{model}, paper", style.color)
    label(axes, xlabel="layer (0: embedding layer)", ylabel=ISOTROPY)
    _compress(axes, table5["log10_isotropy"])
    mark_status(axes, table5)
    legend(figure)
    lowest = table5.nsmallest(1, "log10_isotropy").iloc[0]
    of_model = table5[table5["embedding"] == lowest["embedding"]]
    possible = of_model[of_model["log10_isotropy_low"] <= lowest["log10_isotropy"]]
    layers = " or ".join(f"{layer:.0f}" for layer in possible["layer"])
    by_signs = ", by the signs of eigenvectors" * (len(possible) > 1)
    figure.suptitle(f"Least isotropic: layer {layers}{by_signs}")
    about = (
        f"n = {number_range(table5['n_tokens'])} token vectors without post-processing. Shaded: "
        "with any signs of eigenvectors, which are arbitrary; the line has those of one rule. "
    )
    footnote(figure, about + sources(table5))
    return figure


@figure(
    "clusters",
    title="Isotropy by number of clusters whose means are subtracted",
    tables=["table1", "measurements"],
    explore=True,
    needs="cluster-counts",
    section="Table 1",
)
def effect_of_clusters(table1: pd.DataFrame, measurements: pd.DataFrame) -> Figure:
    """Isotropy against the number of clusters whose means are subtracted. The paper finds that it
    rises.
    """
    figure, drawn = panels(table1.assign(place=_place(table1)), "place", ylabel=ISOTROPY)
    for axes, rows in drawn:
        runs = measurements[measurements["setup"].isin(rows["setup"])]
        clustered = runs[runs["part"] == "clusters"]
        text = "means of k-means subtracted"
        _ranges(axes, clustered, "n_clusters", "log10_isotropy", text, look(0))
        means = clustered.groupby("n_clusters")[BY_SIGNS].mean()
        band: dict[str, Any] = {"color": look(0).color, "alpha": 0.15, "lw": 0}
        axes.fill_between(means.index, means[BY_SIGNS[0]], means[BY_SIGNS[1]], **band)
        before = rows.loc[rows["method"] == "none", "log10_isotropy"].iloc[0]
        axes.axhline(before, color="black", ls="--", lw=1, label="none")
        _published(axes, rows[rows["method"] != "none"], "n_clusters", "paper", "black")
        label(axes, xlabel="clusters", ylim=(None, 0))
        axes.set_xticks(sorted(clustered["n_clusters"].unique()))
        _compress(axes, rows["log10_isotropy"])
    share_scale(axes for axes, _ in drawn)
    counted = table1[table1["method"] != "none"].pivot_table(
        index="n_clusters", columns="setup", values=["log10_isotropy", *BY_SIGNS]
    )
    (one, first), (most, last) = counted.iloc[[0, -1]].iterrows()
    rises = last["log10_isotropy"] > first["log10_isotropy"]
    surely = (last[BY_SIGNS[0]] > first[BY_SIGNS[1]]).sum()
    figure.suptitle(
        f"From {one:.0f} to {most:.0f} clusters mean log₁₀ I(W) rises in {rises.sum()} of "
        f"{len(rises)} clouds, for every choice of eigenvectors' signs in {surely}"
    )
    legend(figure)
    about = f"{_clusterings(table1)}. "
    about += (
        "The sign of an eigenvector is arbitrary but changes I(W): line and bars are by one rule, "
        "shaded are any signs, mean of clusterings (not drawn without clusters). Shorter vectors "
        "alone raise I(W). "
    )
    footnote(figure, about + sources(table1))
    return figure


@figure(
    "words",
    title="Figures 1 and 2: Tokens before and after the cluster-based method",
    tables=["words"],
    needs="plotted",
    section="slides; Figures 1 and 2",
)
def words_before_and_after(words: pd.DataFrame) -> Figure:
    """Tokens in the plane of their first two principal components, by frequency before and after
    the cluster-based method, and by cluster. The paper finds that it removes what frequency and
    clusters make.
    """
    figure, drawn = grid(words, "setup", len(VIEWS), size=(1.8, 1.8))
    for row, rows in drawn:
        counts = rows["frequency"]
        norm = LogNorm(max(1, counts.min()), max(2, counts.max()))
        colours: dict[str, Any] = {"frequency": GRADIENT(norm(counts))}
        colours["cluster"] = largest_in_colour(rows["cluster"])
        for axes, (when, by) in zip(row, VIEWS, strict=True):
            axes.scatter(rows[f"x_{when}"], rows[f"y_{when}"], c=colours[by], **DOTS)
            axes.axhline(0, color="#777777", lw=0.6)
            axes.axvline(0, color="#777777", lw=0.6)
            heading(axes, f"{when}, by {by}")
            axes.set_xlabel("first component" if row is drawn[-1][0] else "")
        of_words = rows["layer"].isna().iloc[0]
        text = "rank of the word" if of_words else "occurrences of the type"
        colour_bar(figure, list(row), norm, text, aspect=15, pad=0.01)
        place = _place(rows).iloc[0].replace(", ", ",\n")
        row[0].set_ylabel(f"{place}\nsecond component", fontsize=8)
    mark_status(drawn[0][0][-1], words)
    of_setups = [
        rows[["x_before", "x_after"]].corrwith(rows["frequency"], method="spearman").abs()
        for _, rows in words.groupby("setup", sort=False)
    ]
    before = ", ".join(f"{rho['x_before']:.2f}" for rho in of_setups)
    after = max(rho["x_after"] for rho in of_setups)
    title = "|ρ| of the first component with frequency"
    figure.suptitle(f"{title}: {before} before, at most {after:.2f} after")
    about = (
        f"n = {number_range(words.groupby('setup').size())} of all tokens, drawn with a seed; "
        "units of the embedding. Each plane is that of the first two principal components of all "
        f"tokens, anew after the method. {OF_CLUSTERS} "
    )
    footnote(figure, about + sources(words))
    return figure


@figure(
    "convergence",
    title="Figure 4: Classification by epoch and post-processing",
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
            means = selected.groupby("epoch")["score"].agg(["mean", "std"]).reset_index()
            axes.plot(means["epoch"], means["mean"], label=name, **style._asdict())
            low, high = (means["mean"] + sign * means["std"] for sign in (-1, 1))
            last_epoch = means.assign(low=low, high=high).tail(1)
            whiskers(axes, last_epoch, ("epoch", "mean"), ("low", "high"), color=style.color)
            record(axes, selected, "epoch", "score", name, colour=style.color)
        chance = rows["chance"].iloc[0]
        axes.axhline(chance, color=GREY, ls=":", lw=1.2, label="most frequent class in training")
        axes.set_ylabel(SCORES[rows["metric"].iloc[0]])
    last = convergence[convergence["epoch"] == convergence["epoch"].max()]
    groups = last[last["classifier"] == "mlp"].groupby(["title", "clustering"], sort=False)
    best = groups["score"].mean()
    texts = (
        f"{SHORT[title]} {score:.0f}" + f" ({clustering})" * (clustering != "none")
        for (title, clustering), score in best.items()
        if title in SHORT
    )
    figure.suptitle("Last epoch: " + ", ".join(texts))
    forbid_verdict(figure, too_short=bool(best.max() <= last["chance"].mean()))
    legend(figure)
    about = (
        f"MLP on the first {convergence['max_length'].max()} token vectors; "
        f"{number_range(convergence['n_train'])} training and "
        f"{number_range(convergence['n_validation'])} validation items; "
        f"{repeats_per_setup(convergence)}, bars at the last epoch. "
    )
    footnote(figure, about + sources(convergence))
    return figure


@figure(
    "cls",
    title="Isotropy of first tokens by layer, after fine-tuning",
    tables=["cls_layers", "finetuning"],
    explore=True,
    needs="finetuning",
    section="slides, fine-tuning analysis",
)
def first_tokens_per_layer(cls_layers: pd.DataFrame, finetuning: pd.DataFrame) -> Figure:
    """Isotropy of first tokens in each layer after fine-tuning, without and with the method
    inside.
    """
    names = {"none": "fine-tuned", "cluster": "fine-tuned, cluster-based method inside"}
    styles = dict(zip(names, looks(["none", CLUSTER_BASED]).values(), strict=True))
    styles["none"] = styles["none"]._replace(linestyle="--")  # over the other where they agree
    figure, drawn = panels(cls_layers, title=_task, xlabel="layer", ylabel=ISOTROPY)
    for axes, rows in drawn:
        for method in ("cluster", "none"):
            selected, style = rows[rows["method"] == method], styles[method]
            curve(axes, selected, "layer", "log10_isotropy", names[method], style)
    last = cls_layers[cls_layers["layer"] == cls_layers["layer"].max()]
    mean = last.groupby("method")["log10_isotropy"].mean()
    values = f"{mean.get('none'):.2g}, with the method inside {mean.get('cluster'):.2g}"
    figure.suptitle(f"Last layer's log₁₀ I(W): {print_minus(values)}")
    forbid_verdict(figure, too_short=bool((finetuning["too_short"] != "").any()))
    legend(figure)
    about = (
        f"First tokens of the validation set after {number_range(cls_layers['updates'])} updates; "
        f"{repeats_per_setup(cls_layers)}. With the method inside, "
        "the last layer is what the head reads. "
    )
    footnote(figure, about + sources(cls_layers))
    return figure


def _clusterings(table: pd.DataFrame) -> str:
    """Number of token vectors and of clusterings, and what bars are."""
    n_runs = int(table["n_runs"].max())
    n = f"n = {number_range(table['n_tokens'])} vectors"
    return n + (f"; mean and range of {n_runs} clusterings" if n_runs > 1 else "; one clustering")


def _ranges(
    axes: Axes, runs: pd.DataFrame, x: str, y: str, name: str, style: Look, **options: Any
) -> None:
    """A line through the mean of all runs at each place, with the smallest and the largest."""
    place, value = (y, x) if options.get("orient") == "y" else (x, y)
    grouped = runs.groupby(["setup", place], sort=False)[value]
    ranges = {value: grouped.mean(), "low": grouped.min(), "high": grouped.max()}
    rows = pd.DataFrame(ranges).reset_index()
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
