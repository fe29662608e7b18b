"""Figures of Rajaee & Sheikhi 2020 (slides) and Rajaee & Pilehvar 2021, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotropy.figures.style import (
    PANELS_PER_ROW,
    common_legend,
    footnote,
    line_style,
    mark_status,
    panels,
    titles,
)
from isotropy.papers.declare import figure

ISOTROPY = "log₁₀ I(W) (0: isotropic)"
SCORES = {"accuracy": "Accuracy (%)", "matthews": "Matthews correlation (×100)", "f1": "F1 (%)"}


_VIEWS = [
    ("before", "frequency"),
    ("after", "frequency"),
    ("before", "cluster"),
    ("after", "cluster"),
]


@figure(
    "similarity",
    tables=["slides"],
    section="slides; Table 2",
    caption=(
        "Correlation of cosines with people's scores, before and after each method. The paper "
        "finds that it rises on every set, and most with the cluster-based method."
    ),
)
def similarity_by_method(slides: pd.DataFrame) -> Figure:
    """Spearman correlation per data set and method, one panel per model and layer; bars are sd over
    clusterings.
    """
    known = slides[slides["n_pairs"] > 0]
    if known.empty:
        figure = Figure(figsize=(6, 1.6))
        figure.text(0.5, 0.6, "This study has no pairs of sentences with scores.", ha="center")
        return figure
    return _by_method(
        known,
        "spearman",
        "Spearman correlation (×100)",
        "cosine of sentences against people's scores",
    )


@figure(
    "isotropy",
    tables=["slides"],
    section="slides; Table 6",
    caption=(
        "Isotropy of all token vectors before and after each method. The paper finds that it "
        "rises by orders of magnitude."
    ),
)
def isotropy_by_method(slides: pd.DataFrame) -> Figure:
    """log10 of I(W) of all token vectors per data set and method, one panel per model and layer."""
    return _by_method(
        slides,
        "log10_isotropy",
        ISOTROPY,
        "I(W) of all tokens of a data set, or of the whole vocabulary",
    )


@figure(
    "scale",
    tables=["slides"],
    section="4",
    caption=(
        "How much of the gain in isotropy is scale: log10 of I(W) as published, the same with "
        "all clouds at the norm that they had before, and IsoScore."
    ),
)
def isotropy_and_scale(slides: pd.DataFrame) -> Figure:
    """Isotropy per method: I(W) as published, I(W) of clouds at an equal norm, and IsoScore; one
    line per data set, model and layer.
    """
    shown = {
        "log10_isotropy": "log₁₀ I(W), as published",
        "log10_isotropy_matched": "log₁₀ I(W), at the norm before",
        "isoscore": "IsoScore",
    }
    methods = list(dict.fromkeys(slides["title"]))
    figure = Figure(figsize=(10.4, 3.4 + 0.2 * slides["setup"].nunique()))
    grid = figure.subplots(1, len(shown), sharey=True)
    for axes, (column, label) in zip(grid, shown.items(), strict=True):
        for i, (setup, rows) in enumerate(slides.groupby("setup", sort=False)):
            colour, marker = line_style(i)
            ordered = rows.set_index("title").reindex(methods)
            sd = ordered[f"{column}_sd"].fillna(0)
            style: dict[str, Any] = {"color": colour, "marker": marker, "ms": 5, "lw": 0.8}
            axes.errorbar(ordered[column], range(len(methods)), xerr=sd, label=setup, **style)
        axes.set_yticks(range(len(methods)), methods)
        axes.set_xlabel(label)
    both = slides[["log10_isotropy", "log10_isotropy_matched"]]
    for axes in grid[:2]:
        axes.set_xscale("symlog", linthresh=1)
        axes.set_xlim(1.3 * min(both.min().min(), -1.0), 0.3)
    grid[0].invert_yaxis()
    mark_status(grid[-1], slides)
    common_legend(figure, [grid[0]], frameon=False, loc="outside upper left", ncols=2)
    about = (
        "Methods that subtract means and components shorten vectors, and I(W) rises with that "
        "alone. Middle: clouds brought back to the root mean square norm that they had before. "
        "IsoScore does not depend on scale. Bars: sd over clusterings. "
    )
    footnote(figure, f"{about}Data: {titles(slides, 'data')}. {_models(slides)}", width=150)
    return figure


@figure(
    "layers",
    tables=["table5"],
    needs="isotropy-by-layer",
    section="Table 5",
    caption="Isotropy of every layer without post-processing.",
)
def isotropy_per_layer(table5: pd.DataFrame) -> Figure:
    """log10 of I(W) against the layer, one line per model; published values as crosses, where there
    are some.
    """
    figure = Figure(figsize=(6.8, 4.2))
    axes = figure.subplots()
    for i, (model, rows) in enumerate(table5.groupby("embedding", sort=False)):
        rows, (colour, marker) = rows.sort_values("layer"), line_style(i)
        axes.plot(
            rows["layer"], rows["log10_isotropy"], f"{marker}-", color=colour, label=model, ms=5
        )
        printed = rows.dropna(subset="published_log10_isotropy")
        if len(printed):
            axes.plot(
                printed["layer"],
                printed["published_log10_isotropy"],
                "x",
                color=colour,
                label=f"{model}, paper",
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="layer (0: embedding layer)", ylabel=ISOTROPY)
    _wide(axes, table5["log10_isotropy"])
    mark_status(axes, table5)
    common_legend(figure, [axes], frameon=False, loc="outside upper left", ncols=2)
    footnote(
        figure,
        f"All token vectors without post-processing. Data: {titles(table5, 'data')}. "
        f"{_models(table5)}",
        width=96,
    )
    return figure


@figure(
    "clusters",
    tables=["table1"],
    needs="cluster-counts",
    section="Table 1",
    caption=(
        "Isotropy against the number of clusters whose means are subtracted. The paper finds "
        "that it rises."
    ),
)
def effect_of_clusters(table1: pd.DataFrame) -> Figure:
    """log10 of I(W) against the number of clusters whose means are subtracted; dashed, before."""
    figure = Figure(figsize=(6.8, 4.2))
    axes = figure.subplots()
    for i, (_, rows) in enumerate(table1.groupby("setup", sort=False)):
        first = rows.iloc[0]
        colour, marker = line_style(i)
        clustered = rows[rows["method"] == "kmeans-mean"].sort_values("n_clusters")
        x = clustered["n_clusters"].astype(float)
        name = f"{first['embedding']}, layer {first['layer']:.0f}"
        sd = clustered["log10_isotropy_sd"].fillna(0)
        axes.errorbar(
            x,
            clustered["log10_isotropy"],
            sd,
            fmt=f"{marker}-",
            color=colour,
            label=name,
            capsize=2,
            ms=5,
        )
        axes.axhline(
            rows.loc[rows["method"] == "none", "log10_isotropy"].iloc[0],
            color=colour,
            ls="--",
            lw=0.9,
        )
        printed = clustered.dropna(subset="published_log10_isotropy")
        if len(printed):
            axes.plot(
                printed["n_clusters"].astype(float),
                printed["published_log10_isotropy"],
                "x",
                color=colour,
            )
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="clusters", ylabel=ISOTROPY)
    _wide(axes, table1["log10_isotropy"])
    mark_status(axes, table1)
    common_legend(figure, [axes], frameon=False, loc="outside upper left", ncols=2)
    runs = int(table1["n_runs"].max())
    about = (
        f"k-means and the mean of each cluster; {_over(runs, 'clustering')}. "
        "Dashed: without post-processing. "
    )
    footnote(figure, f"{about}Data: {titles(table1, 'data')}. {_models(table1)}", width=96)
    return figure


@figure(
    "words",
    tables=["words"],
    needs="plotted",
    section="slides; Figures 1 and 2",
    caption=(
        "Tokens in the plane of their first two principal components, before and after the "
        "cluster-based method, by frequency and by cluster."
    ),
)
def words_before_and_after(words: pd.DataFrame) -> Figure:
    """Tokens before and after, by frequency (log scale) and by cluster; one row per model and
    layer.
    """
    setups = list(words.groupby("setup", sort=False))
    figure = Figure(figsize=(13.2, 3.1 * len(setups) + 1.0))
    grid = figure.subplots(len(setups), 4, squeeze=False)
    for row, (_, own) in zip(grid, setups, strict=True):
        layer = own["layer"].iloc[0]
        name = f"{own['embedding'].iloc[0]}, " + (
            "words" if pd.isna(layer) else f"layer {layer:.0f}"
        )
        norm = LogNorm(max(1, own["frequency"].min()), max(2, own["frequency"].max()))
        for axes, (when, colour) in zip(row, _VIEWS, strict=True):
            by_frequency = colour == "frequency"
            shown: dict[str, Any] = {"c": own["frequency"], "cmap": "cividis", "norm": norm}
            if not by_frequency:
                shown = {"c": own["cluster"] % 20, "cmap": "tab20", "vmin": 0, "vmax": 19}
            drawn = axes.scatter(
                own[f"x_{when}"], own[f"y_{when}"], s=5, lw=0, alpha=0.8, rasterized=True, **shown
            )
            axes.axhline(0, color="#777777", lw=0.6)
            axes.axvline(0, color="#777777", lw=0.6)
            axes.set_title(f"{when}, by {colour}", loc="left", fontsize=9)
            axes.set_xlabel("first principal component", fontsize=8)
            if by_frequency and when == "after":
                figure.colorbar(
                    drawn,
                    ax=axes,
                    label="rank of the word" if pd.isna(layer) else "occurrences of the type",
                )
        row[0].set_ylabel(f"{name}\nsecond component", fontsize=8.5)
    mark_status(grid[0, -1], words)
    about = (
        "A seeded part of all tokens; units of the embedding. Each plane is that of the first two "
        "principal components of all "
        "tokens, anew after the method. Colours of clusters repeat after 20; they are not those "
        "of a legend. "
    )
    footnote(figure, f"{about}Data: {titles(words, 'data')}. {_models(words)}", width=190)
    return figure


@figure(
    "convergence",
    tables=["convergence"],
    needs="classification",
    section="Figure 4",
    caption=(
        "Score of the authors' classifier on frozen features after each epoch. The paper finds "
        "that it rises faster and a little higher with the cluster-based method."
    ),
)
def convergence(convergence: pd.DataFrame) -> Figure:
    """Validation score of the MLP per epoch, one panel per task and model; mean and sd over
    seeds.
    """
    figure, grid = panels(convergence, "setup", 4.2, 3.3)
    for axes, own in grid:
        methods = own[own["classifier"] == "mlp"].groupby(["title", "clustering"], sort=False)
        for i, ((title, clustering), rows) in enumerate(methods):
            per_epoch = rows.groupby("epoch")["score"]
            mean, sd = per_epoch.mean(), per_epoch.std(ddof=1).fillna(0)
            label = title if clustering == "none" else f"{title}, {clustering}"
            colour, marker = line_style(i)
            axes.plot(mean.index, mean, f"{marker}-", color=colour, ms=4, lw=1.2, label=label)
            axes.fill_between(mean.index, mean - sd, mean + sd, color=colour, alpha=0.15, lw=0)
        first = own.iloc[0]
        axes.axhline(first["chance"], color="#555555", ls=":", lw=1.2, label="most frequent class")
        axes.set_title(
            f"{first['task']}, {first['embedding']}", loc="left", fontweight="bold", fontsize=9.5
        )
        mark_status(axes, own)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="epoch", ylabel=SCORES[first["metric"]])
    common_legend(figure, [axes for axes, _ in grid], frameon=False, loc="outside right upper")
    n_train, n_validation, seeds = (
        sorted({int(n) for n in convergence[c]}) for c in ("n_train", "n_validation", "seed")
    )
    about = (
        f"MLP on the first {convergence['max_length'].max()} token vectors; {_listed(n_train)} "
        "training and "
        f"{_listed(n_validation)} validation items; {_over(len(seeds), 'seed')}. "
    )
    footnote(
        figure, f"{about}Data: {titles(convergence, 'data')}. {_models(convergence)}", width=110
    )
    return figure


@figure(
    "cls",
    tables=["cls_layers"],
    needs="finetuning",
    section="slides, fine-tuning analysis",
    caption=(
        "Isotropy of first tokens in each layer after fine-tuning, without and with the method "
        "inside."
    ),
)
def first_tokens_per_layer(cls_layers: pd.DataFrame) -> Figure:
    """log10 of I(W) of first tokens per layer after fine-tuning, one panel per task and model."""
    names = {"none": "fine-tuned", "cluster": "fine-tuned, method inside"}
    figure, grid = panels(cls_layers, "setup", 4.2, 3.3)
    for axes, own in grid:
        for i, (method, rows) in enumerate(own.groupby("method", sort=False)):
            per_layer = rows.groupby("layer")["log10_isotropy"]
            mean, sd = per_layer.mean(), per_layer.std(ddof=1).fillna(0)
            colour, marker = line_style(i)
            axes.errorbar(
                mean.index,
                mean,
                sd,
                fmt=f"{marker}-",
                color=colour,
                ms=5,
                capsize=2,
                label=names[str(method)],
            )
        first = own.iloc[0]
        axes.set_title(
            f"{first['task']}, {first['embedding']}", loc="left", fontweight="bold", fontsize=9.5
        )
        mark_status(axes, own)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="layer", ylabel=ISOTROPY)
    common_legend(figure, [axes for axes, _ in grid], frameon=False, loc="outside right upper")
    seeds, updates = cls_layers["seed"].nunique(), sorted({int(u) for u in cls_layers["updates"]})
    about = (
        f"First tokens of the validation set after {_listed(updates)} updates; "
        f"{_over(seeds, 'seed')}. With the method inside, "
        "the last layer is what the head reads. "
    )
    footnote(figure, f"{about}Data: {titles(cls_layers, 'data')}. {_models(cls_layers)}", width=110)
    return figure


def _by_method(table: pd.DataFrame, column: str, label: str, about: str) -> Figure:
    """Points per data set and method with sd over clusterings, one panel per model and layer."""
    titles = list(dict.fromkeys(table["title"]))
    place = table["embedding"] + np.where(
        table["layer"].isna(), ", words", ", layer " + table["layer"].map("{:.0f}".format)
    )
    figure, grid = panels(table.assign(place=place), "place", 4.4, 3.4)
    for axes, own in grid:
        datasets = list(dict.fromkeys(own["dataset"]))
        for i, title in enumerate(titles):
            rows = own[own["title"] == title]
            colour, marker = line_style(i)
            x = [datasets.index(d) + 0.12 * (i - (len(titles) - 1) / 2) for d in rows["dataset"]]
            axes.errorbar(
                x,
                rows[column],
                rows[f"{column}_sd"].fillna(0),
                fmt=marker,
                color=colour,
                ms=5,
                lw=1,
                label=title,
            )
        axes.set_xticks(range(len(datasets)), datasets, rotation=30, ha="right", fontsize=8)
        axes.set_xlim(-0.6, len(datasets) - 0.4)
        axes.grid(axis="x", visible=False)
        axes.set_title(own["place"].iloc[0], loc="left", fontweight="bold", fontsize=9.5)
        mark_status(axes, own)
        axes.set_ylabel(label)
        if column == "log10_isotropy":
            _wide(axes, own[column])
    common_legend(
        figure,
        [axes for axes, _ in grid],
        frameon=False,
        loc="outside right upper",
        title="post-processing",
    )
    runs = int(table["n_runs"].max())
    note = f"{about[0].upper()}{about[1:]}; {_over(runs, 'clustering')}. {_models(table)}"
    footnote(figure, note, width=58 * min(len(grid), PANELS_PER_ROW) + 24)
    return figure


def _wide(axes: Axes, values: pd.Series) -> None:
    """Beside a decoder's thousands of orders of magnitude, others would lie on one line: a scale
    that is linear from -1 on.
    """
    if values.min() < -100:
        axes.set_yscale("symlog", linthresh=1)
        axes.set_ylim(top=0.3)


def _models(table: pd.DataFrame) -> str:
    return f"Models: {titles(table, 'model')}."


def _over(n: int, name: str) -> str:
    return f"one {name}" if n == 1 else f"mean and sd of {n} {name}s"


def _listed(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"{numbers[0]:,}"
    return f"{numbers[0]:,} to {numbers[-1]:,}"
