"""Figures of Cai, Huang, Bian & Church 2021, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isotropy.figures.style import (
    COLOURS,
    MARKERS,
    common_legend,
    footnote,
    line_style,
    mark_status,
    panels,
    titles,
)
from isotropy.papers.declare import figure

VIEWS = 4  # layers of a model in the pictures of clusters
LOW = 2  # the layer in which the paper shows the manifold
KINDS = {"word": COLOURS[0], "symbol": COLOURS[1], "special": COLOURS[2]}


_DOTS: dict[str, Any] = {"s": 4, "lw": 0, "alpha": 0.8, "rasterized": True}


@figure(
    "cosines",
    tables=["layers"],
    section="3, 4",
    caption=(
        "Cosines between and within types, layer by layer, before and after clustering and "
        "centring. The paper finds that both are high everywhere, and that S_inter is near zero "
        "within clusters."
    ),
)
def cosines_per_layer(layers: pd.DataFrame) -> Figure:
    """S_inter and S_intra per layer, before and after clustering and centring, one panel per corpus
    and model.
    """
    figure, grid = panels(_subwords(layers), "setup", 4.2, 3.2)
    lines = {
        "s_inter": ("$S_{inter}$", 0, "-", 0),
        "s_intra": ("$S_{intra}$", 1, "-", 1),
        "s_inter_adjusted": ("$S_{inter}$, adjusted", 0, "--", 2),
        "s_intra_adjusted": ("$S_{intra}$, adjusted", 1, "--", 3),
        "s_inter_centred": ("$S_{inter}$, one mean", 2, ":", 4),
        "s_inter_random_parts": ("$S_{inter}$, random parts", 3, ":", 5),
    }
    for axes, own in grid:
        for column, (label, colour, line, marker) in lines.items():
            _per_layer(axes, own, column, label, COLOURS[colour], MARKERS[marker] + line)
        axes.axhline(0, color="#555555", lw=0.8, ls=":")
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.03)
        _named(axes, own, "layer", "mean cosine")
    common_legend(figure, [axes for axes, _ in grid], frameon=False, loc="outside right upper")
    about = (
        "Cosines between tokens of different types ($S_{inter}$) and of the same type "
        "($S_{intra}$), exact over all pairs; "
        f"types are {_subwords(layers)['types'].iloc[0]}. Adjusted: within clusters, each moved "
        "to its own mean; mean over clusters. Dotted, as controls: one mean for all tokens, and "
        "means of random parts as large as the clusters. "
    )
    footnote(figure, about + _over(layers) + _sources(layers), width=_width(grid))
    return figure


@figure(
    "silhouettes",
    tables=["layers", "silhouettes"],
    section="4",
    caption="How many clusters a layer has: the silhouette for each number of clusters.",
)
def clusters_per_layer(layers: pd.DataFrame, silhouettes: pd.DataFrame) -> Figure:
    """Silhouette for each number of clusters, a line per layer, darker with depth; the chosen
    numbers are ringed.
    """
    figure, grid = panels(_subwords(silhouettes), "setup", 4.2, 3.2)
    chosen = _subwords(layers)
    first = silhouettes["seed"].min()
    depth = ScalarMappable(
        Normalize(0, 1), ListedColormap(colormaps["cividis"](np.linspace(0.85, 0, 256)))
    )
    for axes, own in grid:
        for layer, rows in own[own["seed"] == first].groupby("layer"):
            shade = depth.to_rgba(layer / own["layer"].max())
            axes.plot(rows["k"], rows["silhouette"], "-", color=shade, lw=1.2)
            of_layer = chosen[
                (chosen["setup"] == rows["setup"].iloc[0])
                & (chosen["layer"] == layer)
                & (chosen["seed"] == first)
            ]
            k = int(of_layer["n_clusters"].iloc[0])
            if k > 1:
                value = rows.loc[rows["k"] == k, "silhouette"].iloc[0]
                axes.plot([k], [value], "o", mfc="none", mec=shade, ms=8, mew=1.4)
        axes.axhline(layers["threshold"].iloc[0], color="#555555", lw=0.9, ls=":")
        _named(axes, own, "clusters of k-means", "silhouette")
    figure.colorbar(
        depth, ax=[axes for axes, _ in grid], label="depth: layer over the last layer", pad=0.02
    )
    about = (
        "Ringed: the number that is taken, that of the largest silhouette; none where it is below "
        "the dotted line. "
    )
    footnote(figure, f"{about}Seed {first}. " + _sources(layers), width=_width(grid))
    return figure


@figure(
    "clusters",
    tables=["points", "layers"],
    section="4",
    caption=(
        "Tokens of a layer on its first two principal components. The paper finds that isolated "
        "clusters dominate."
    ),
)
def isolated_clusters(points: pd.DataFrame, layers: pd.DataFrame) -> Figure:
    """Tokens in the plane of their first two principal components, coloured by cluster; one row per
    corpus and model.
    """
    setups = list(points.groupby("setup", sort=False))
    figure = Figure(figsize=(3.0 * VIEWS + 0.6, 2.9 * len(setups) + 0.9))
    grid = figure.subplots(len(setups), VIEWS, squeeze=False)
    for row, (setup, own) in zip(grid, setups, strict=True):
        there = sorted(own["layer"].unique())
        shown = (
            [there[round(i * (len(there) - 1) / (VIEWS - 1))] for i in range(VIEWS)]
            if len(there) > VIEWS
            else there
        )
        for axes in row[len(shown) :]:
            axes.set_visible(False)
        for axes, layer in zip(row, shown, strict=False):
            rows = own[own["layer"] == layer]
            same = (
                (layers["setup"] == setup)
                & (layers["layer"] == layer)
                & (layers["types"] == rows["types"].iloc[0])
            )
            n = int(layers.loc[same, "n_clusters"].iloc[0])
            axes.scatter(
                rows["x"], rows["y"], c=rows["cluster"] % 20, cmap="tab20", vmin=0, vmax=19, **_DOTS
            )
            axes.set_title(f"layer {layer}: {n} cluster" + "s" * (n > 1), loc="left", fontsize=9)
            axes.set_xlabel("first component", fontsize=8)
            axes.xaxis.set_major_locator(MaxNLocator(4))
        row[0].set_ylabel(f"{setup}\nsecond component", fontsize=8.5)
        mark_status(row[len(shown) - 1], own)
    about = (
        "A seeded part of all tokens; units of the embedding. Colours are clusters of k-means; "
        "they are not those of a legend. "
    )
    footnote(figure, about + _sources(points), width=150)
    return figure


@figure(
    "manifolds",
    tables=["points"],
    section="5",
    caption=(
        "The largest cluster of a low layer, by position, frequency and kind of token. The "
        "paper finds a Swiss roll in GPT and GPT-2."
    ),
)
def manifolds(points: pd.DataFrame) -> Figure:
    """The largest cluster of a low layer: by position in 2-D and 3-D, by frequency and by kind; a
    row per corpus and model.
    """
    setups = list(points.groupby("setup", sort=False))
    figure = Figure(figsize=(14.4, 3.4 * len(setups) + 1.0))
    for i, (setup, own) in enumerate(setups):
        layer = min(own["layer"].unique(), key=lambda n: abs(n - LOW))
        rows = own[(own["layer"] == layer) & own["x_largest"].notna()]
        flat = [figure.add_subplot(len(setups), 4, 4 * i + j) for j in (1, 3, 4)]
        deep: Any = figure.add_subplot(len(setups), 4, 4 * i + 2, projection="3d")
        x, y, z = (rows[f"{c}_largest"] for c in "xyz")
        by_position: dict[str, Any] = {"c": rows["position"], "cmap": "cividis"}
        drawn = flat[0].scatter(x, y, **by_position, **_DOTS)
        figure.colorbar(drawn, ax=flat[0], label="position in the window")
        deep.scatter(x, y, z, s=3, lw=0, **by_position)
        deep.set_title("3-D, by position", loc="left", fontsize=9)
        deep.set_box_aspect(None, zoom=0.8)
        for axis, name in ((deep.xaxis, "first"), (deep.yaxis, "second"), (deep.zaxis, "third")):
            axis.set_tick_params(labelsize=6)
            axis.set_label_text(f"{name} component", fontsize=7)
        norm = LogNorm(1, max(2, rows["frequency"].max()))
        drawn = flat[1].scatter(x, y, c=rows["frequency"], cmap="cividis", norm=norm, **_DOTS)
        figure.colorbar(drawn, ax=flat[1], label="occurrences of the type")
        for kind, colour in KINDS.items():
            of_kind = rows["kind"] == kind
            if of_kind.any():
                flat[2].scatter(x[of_kind], y[of_kind], color=colour, label=kind, **_DOTS)
        flat[2].legend(fontsize=7, markerscale=3, title="tokens", title_fontsize=7)
        for axes, name in zip(flat, ("2-D, by position", "by frequency", "by kind"), strict=True):
            axes.set_title(name, loc="left", fontsize=9)
            axes.set_xlabel("first component", fontsize=8)
        flat[0].set_ylabel(f"{setup}, layer {layer}\nsecond component", fontsize=8.5)
        mark_status(flat[2], own)
    about = (
        "Tokens of the largest cluster on its own first three principal components; units of the "
        "embedding. A Swiss roll that "
        "is wound along the text shows as a band of colours from the first to the last position. "
    )
    footnote(figure, about + _sources(points), width=190)
    return figure


def _per_layer(
    axes: Axes, rows: pd.DataFrame, column: str, label: str, colour: str, form: str
) -> None:
    """Mean and sd over seeds of a column against the layer."""
    per_layer = rows.groupby("layer")[column]
    mean, sd = per_layer.mean(), per_layer.std(ddof=1).fillna(0)
    axes.errorbar(
        mean.index, mean, sd, fmt=form, color=colour, label=label, ms=4.5, lw=1.2, capsize=2
    )


def _named(axes: Axes, own: pd.DataFrame, x: str, y: str) -> None:
    """Title, status and labels of a panel over whole numbers."""
    axes.set_title(
        own["setup"].iloc[0].replace(", ", ",\n"), loc="left", fontweight="bold", fontsize=9.5
    )
    mark_status(axes, own)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel=x, ylabel=y)


def _subwords(table: pd.DataFrame) -> pd.DataFrame:
    own = table[table["types"] == "subwords"]
    return own if len(own) else table


def _over(layers: pd.DataFrame) -> str:
    n = layers["seed"].nunique()
    return (
        "One seed of k-means and samples. "
        if n == 1
        else f"Mean and sd of {n} seeds of k-means and samples. "
    )


def _sources(table: pd.DataFrame) -> str:
    return f"Data: {titles(table, 'data')}. Models: {titles(table, 'model')}."


def _width(grid: list[tuple[Axes, pd.DataFrame]]) -> int:
    return 52 * min(len(grid), 3) + 30


@figure(
    "figure9",
    tables=["layers"],
    section="Figure 9",
    caption="Local intrinsic dimension, layer by layer. The paper finds that it rises with depth.",
)
def dimension_per_layer(layers: pd.DataFrame) -> Figure:
    """Local intrinsic dimension per layer by Euclidean distances (Figure 9) and by cosines, a line
    per corpus and model.
    """
    figure = Figure(figsize=(9.6, 4.2 + 0.2 * layers["setup"].nunique()))
    grid = figure.subplots(1, 2, sharey=True)
    own = _subwords(layers)
    for axes, metric in zip(grid, ("euclidean", "cosine"), strict=True):
        for i, (setup, rows) in enumerate(own.groupby("setup", sort=False)):
            colour, marker = line_style(i)
            _per_layer(axes, rows, f"lid_{metric}", f"{setup}, conventional", colour, f"{marker}-")
            _per_layer(
                axes,
                rows,
                f"lid_{metric}_published",
                f"{setup}, as published",
                colour,
                f"{marker}:",
            )
        axes.set_title(
            {"euclidean": "Euclidean distance", "cosine": "cosine"}[metric], loc="left", fontsize=10
        )
        mark_status(axes, own)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel("layer")
    grid[0].set_ylabel("local intrinsic dimension")
    grid[0].set_ylim(0)
    common_legend(figure, [grid[0]], frameon=False, loc="outside upper left", ncols=2)
    k = int(layers["lid_k"].max())
    about = (
        f"Mean over tokens, {k} exact neighbours. As published: with squares of distances, which "
        "halves the estimate. "
    )
    footnote(figure, about + _over(layers) + _sources(layers), width=140)
    return figure
