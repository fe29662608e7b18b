"""Figures of Cai, Huang, Bian & Church 2021, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from replication.figures.draw import (
    CLUSTERS,
    GREY,
    card,
    colour_bar,
    curve,
    dots,
    footnote,
    grid,
    heading,
    hide_unused,
    label,
    look,
    looks,
    mark_status,
    panels,
    record,
    repeats_per_setup,
    sources,
)
from replication.figures.names import legend
from replication.figures.style import COLOURS
from replication.papers.declare import figure

VIEWS = 4  # layers of a model in the pictures of clusters
LOW = 2  # the layer in which the paper shows the manifold
KINDS = {"word": COLOURS[0], "symbol": COLOURS[1], "special": COLOURS[2]}
COSINES = {
    "s_inter": ("$S_{inter}$", look(0)),
    "s_intra": ("$S_{intra}$", look(1)),
    "s_inter_adjusted": ("$S_{inter}$, adjusted", look(0, "--")),
    "s_intra_adjusted": ("$S_{intra}$, adjusted", look(1, "--")),
    "s_inter_centred": ("$S_{inter}$, one mean", look(2, ":")),
    "s_inter_random_parts": ("$S_{inter}$, random parts", look(3, ":")),
}


@figure(
    "card",
    title="Cosines of different types before and after clustering",
    tables=["layers"],
    section="4",
)
def cosines_within_clusters(layers: pd.DataFrame) -> Figure:
    """Mean cosine of tokens of different types (S_inter) in each layer of the first model, and
    within clusters that are each moved to their own mean. The paper finds that it is near zero
    there.
    """
    layers = _subwords(layers)
    layers = layers[layers["setup"] == layers["setup"].iloc[0]]
    before, after = layers[["s_inter", "s_inter_adjusted"]].mean()
    title = f"Cosine of words: {before:.2f}, within clusters {after:.2f}"
    figure, axes = card(layers, title, xlabel="layer", ylabel="mean cosine")
    curve(axes, layers, "layer", "s_inter", "as they are", COSINES["s_inter"][1])
    inside = COSINES["s_inter_adjusted"][1]
    curve(axes, layers, "layer", "s_inter_adjusted", "within clusters, centred", inside)
    axes.set_ylim(min(0, axes.get_ylim()[0]), 1.1 * max(0.1, layers["s_inter"].max()))
    legend(figure)
    footnote(figure, f"{layers['setup'].iloc[0]}. {_seeds(layers)} {sources(layers)}")
    return figure


@figure(
    "cosines",
    title="Cosines between and within types by layer",
    tables=["layers"],
    explore=True,
    section="3, 4",
)
def cosines_per_layer(layers: pd.DataFrame) -> Figure:
    """Cosines between and within types, layer by layer, before and after clustering and centring.
    The paper finds that both are high everywhere, and that S_inter is near zero within
    clusters.
    """
    layers = _subwords(layers)
    figure, drawn = panels(layers, xlabel="layer", ylabel="mean cosine")
    for axes, rows in drawn:
        for column, (name, style) in COSINES.items():
            curve(axes, rows, "layer", column, name, style)
        axes.axhline(0, color=GREY, lw=0.8, ls=":")
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.03)
    legend(figure)
    about = (
        "Cosines between tokens of different types (S_inter) and of the same type "
        "(S_intra), exact over all pairs; "
        f"types are {layers['types'].iloc[0]}. Adjusted: within clusters, each moved "
        "to its own mean; mean over clusters. Dotted, as controls: one mean for all tokens, and "
        "means of random parts as large as the clusters. "
    )
    footnote(figure, f"{about}{_seeds(layers)} {sources(layers)}")
    return figure


@figure(
    "silhouettes",
    title="Silhouette of k-means for each number of clusters, by layer",
    tables=["layers", "silhouettes"],
    explore=True,
    section="4",
)
def clusters_per_layer(layers: pd.DataFrame, silhouettes: pd.DataFrame) -> Figure:
    """How many clusters a layer has: the silhouette for each number of clusters."""
    import seaborn as sns

    first = silhouettes["seed"].min()
    shown = _subwords(silhouettes[silhouettes["seed"] == first])
    shown = shown.assign(depth=shown["layer"] / shown.groupby("setup")["layer"].transform("max"))
    chosen = _subwords(layers)[["setup", "layer", "seed", "n_clusters"]]
    rings = shown.merge(chosen, on=["setup", "layer", "seed"]).query("k == n_clusters and k > 1")
    figure, drawn = panels(shown, xlabel="clusters of k-means", ylabel="silhouette")
    palette = ListedColormap(colormaps["cividis"](np.linspace(0.85, 0, 256)))
    hue: dict[str, Any] = {"hue": "depth", "hue_norm": (0, 1), "palette": palette, "legend": False}
    for axes, rows in drawn:
        sns.lineplot(rows, x="k", y="silhouette", lw=1.2, errorbar=None, ax=axes, **hue)
        for layer, of_layer in rows.groupby("layer"):
            record(axes, of_layer, "k", "silhouette", f"layer {layer}")
        selected = rings[rings["setup"] == rows["setup"].iloc[0]]
        shades = palette(selected["depth"])
        axes.scatter(selected["k"], selected["silhouette"], 64, "none", edgecolors=shades, lw=1.4)
        axes.axhline(layers["threshold"].iloc[0], color=GREY, lw=0.9, ls=":")
    colour_bar(
        figure,
        [axes for axes, _ in drawn],
        Normalize(0, 1),
        "depth: layer over the last layer",
        palette,
        pad=0.02,
    )
    about = (
        "Ringed: the number that is taken, that of the largest silhouette; none where it is below "
        "the dotted line. "
    )
    footnote(figure, f"{about}Seed {first}. {sources(layers)}")
    return figure


@figure(
    "clusters",
    title="Tokens of four layers in the plane of their first two components",
    tables=["points", "layers"],
    section="4",
)
def isolated_clusters(points: pd.DataFrame, layers: pd.DataFrame) -> Figure:
    """Tokens of a layer on its first two principal components. The paper finds that isolated
    clusters dominate.
    """
    counts = layers.set_index(["setup", "types", "layer"])["n_clusters"].sort_index()
    figure, drawn = grid(points, "setup", VIEWS, size=(1.8, 1.8))
    for row, rows in drawn:
        setup, types = rows[["setup", "types"]].iloc[0]
        every = sorted(rows["layer"].unique())
        places = np.linspace(0, len(every) - 1, min(VIEWS, len(every))).round().astype(int)
        hide_unused(row, len(places))
        for axes, layer in zip(row, (every[i] for i in places), strict=False):
            _dots(axes, rows[rows["layer"] == layer], "", hue="cluster", **CLUSTERS)
            n = int(counts[setup, types, layer].iloc[0])
            heading(axes, f"layer {layer}: {n} cluster" + "s" * (n > 1))
        row[0].set_ylabel(f"{_wrapped(setup)}\nsecond component", fontsize=8)
        mark_status(row[len(places) - 1], rows)
    about = (
        "A seeded part of all tokens; units of the embedding. Colours are clusters of k-means; "
        "they are not those of a legend. "
    )
    footnote(figure, about + sources(points))
    return figure


@figure(
    "manifolds",
    title="The largest cluster of a low layer, by position, frequency and kind of token",
    tables=["points"],
    section="5",
)
def manifolds(points: pd.DataFrame) -> Figure:
    """The largest cluster of a low layer, by position, frequency and kind of token. The paper
    finds a Swiss roll in GPT and GPT-2.
    """
    import seaborn as sns

    figure, drawn = grid(points, "setup", 4, size=(1.85, 2.4))
    for row, rows in drawn:
        layer = min(rows["layer"].unique(), key=lambda n: abs(n - LOW))
        rows = rows[(rows["layer"] == layer) & rows["x_largest"].notna()]
        flat, deep, counted, kinds = row
        positions = Normalize(rows["position"].min(), rows["position"].max())
        frequencies = LogNorm(1, max(2, rows["frequency"].max()))
        hue: dict[str, Any] = {"palette": "cividis", "legend": False}
        below: dict[str, Any] = {"location": "bottom"}
        for axes, height in ((flat, "y"), (deep, "z")):
            _dots(axes, rows, "_largest", height, hue="position", hue_norm=positions, **hue)
            colour_bar(figure, axes, positions, "position in the window", **below)
        _dots(counted, rows, "_largest", hue="frequency", hue_norm=frequencies, **hue)
        colour_bar(figure, counted, frequencies, "occurrences of the type", **below)
        _dots(kinds, rows, "_largest", hue="kind", hue_order=list(KINDS), palette=KINDS)
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.3)}
        sns.move_legend(kinds, **place, ncols=2, title=None, handletextpad=0, frameon=False)
        for handle in kinds.get_legend().legend_handles:
            handle.set_markersize(6)
        names = ("by position", "third component", "by frequency", "by kind")
        for axes, name in zip(row, names, strict=True):
            heading(axes, name)
        setup = _wrapped(str(rows["setup"].iloc[0]))
        flat.set_ylabel(f"{setup}, layer {layer}\nsecond component", fontsize=8)
        mark_status(kinds, rows)
    about = (
        "Tokens of the largest cluster on its own first three principal components; units of the "
        "embedding. A Swiss roll that "
        "is wound along the text shows as a band of colours from the first to the last position. "
    )
    footnote(figure, about + sources(points))
    return figure


def _dots(axes: Axes, rows: pd.DataFrame, suffix: str, height: str = "y", **hue: Any) -> None:
    """Tokens on two principal components, columns `x` and `y` (or `z`) with a suffix."""
    dots(axes, rows, f"x{suffix}", f"{height}{suffix}", "first component", **hue)
    axes.xaxis.set_major_locator(MaxNLocator(4))


def _wrapped(setup: str) -> str:
    return setup.replace(", ", ",\n")


def _subwords(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose types are subwords; all rows of a study without subwords."""
    subwords = table[table["types"] == "subwords"]
    return subwords if len(subwords) else table


def _seeds(layers: pd.DataFrame) -> str:
    return f"{repeats_per_setup(layers).capitalize()} of k-means and samples."


@figure(
    "figure9",
    title="Local intrinsic dimension by layer, with two distances",
    tables=["layers"],
    explore=True,
    section="Figure 9",
)
def dimension_per_layer(layers: pd.DataFrame) -> Figure:
    """Local intrinsic dimension, layer by layer. The paper finds that it rises with depth."""
    layers = _subwords(layers)
    figure = Figure(figsize=(6.6, 2.6 + 0.2 * layers["setup"].nunique()))
    grid = figure.subplots(1, 2, sharey=True)
    metrics = {"euclidean": "Euclidean distance", "cosine": "cosine"}
    of_models = looks(layers["embedding"])
    for axes, (metric, title) in zip(grid, metrics.items(), strict=True):
        for setup, rows in layers.groupby("setup", sort=False):
            lid, style = f"lid_{metric}", of_models[rows["embedding"].iloc[0]]
            curve(axes, rows, "layer", lid, f"{setup}, conventional", style)
            dotted = style._replace(linestyle=":")
            curve(axes, rows, "layer", f"{lid}_published", f"{setup}, as published", dotted)
        heading(axes, title, layers)
        label(axes, xlabel="layer", ylabel="")
    grid[0].set_ylabel("local intrinsic dimension")
    grid[0].set_ylim(0)
    legend(figure)
    k = int(layers["lid_k"].max())
    about = (
        f"Mean over tokens, {k} exact neighbours. As published: with squares of distances, which "
        "halves the estimate. "
    )
    footnote(figure, f"{about}{_seeds(layers)} {sources(layers)}")
    return figure


@figure(
    "repeated_types",
    title="Local intrinsic dimension by tokens per type",
    tables=["repeated_types"],
    explore=True,
    section="5",
)
def dimension_per_type_count(repeated_types: pd.DataFrame) -> Figure:
    """Local intrinsic dimension against the number of tokens per type, at an equal number of
    points. The paper, with all tokens, finds it below that of static vectors.
    """
    measured = repeated_types.dropna(subset="lid_cosine")
    names = list(dict.fromkeys(repeated_types["tokens_per_type"]))
    measured = measured.assign(place=measured["tokens_per_type"].map(names.index))
    contextual, static = (measured[measured["layer"].isna() == is_static] for is_static in (0, 1))
    figure, drawn = panels(
        contextual, xlabel="tokens per type, at most", ylabel="local intrinsic dimension"
    )
    for axes, rows in drawn:
        for i, (layer, of_layer) in enumerate(rows.groupby("layer")):
            curve(axes, of_layer, "place", "lid_cosine", f"layer {layer:.0f}", look(i))
        for i, (name, of_vectors) in enumerate(static.groupby("model", sort=False)):
            mean = of_vectors["lid_cosine"].mean()
            axes.axhline(mean, color=GREY, ls=("--", ":")[i % 2], lw=1.2, label=str(name))
        axes.set_xticks(range(len(names)), names)
        axes.set_ylim(0)
    legend(figure)
    about = "By cosines, conventional estimate, samples of equal size. Grey: static vectors. "
    footnote(figure, f"{about}{_seeds(measured)} {sources(measured)}")
    return figure
