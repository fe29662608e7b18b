"""Figures of Cai, Huang, Bian & Church 2021, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.colors import ListedColormap, LogNorm, Normalize
from matplotlib.figure import Figure

from isotropy.printable import print_minus
from replication.figures.draw import (
    DOTS,
    GREY,
    OF_CLUSTERS,
    colour_bar,
    curve,
    footnote,
    grid,
    heading,
    hide_unused,
    label,
    largest_in_colour,
    look,
    looks,
    mark_status,
    number_range,
    panels,
    record,
    repeats_per_setup,
    sources,
)
from replication.figures.names import legend
from replication.figures.style import COLOURS, GRADIENT
from replication.papers.declare import figure

VIEWS = 4  # layers of a model in the pictures of clusters
LOW = 2  # the layer in which the paper shows the manifold
IN_SPACE = {"projection": "3d"}
KINDS = {"word": COLOURS[0], "symbol": COLOURS[1], "special": COLOURS[2]}
BARS = {
    "position": "position in the window",
    "frequency": "occurrences of the type",
    "kind": "kind of token",
}
COSINES = {
    "s_inter": ("$S_{inter}$", look(0)),
    "s_intra": ("$S_{intra}$", look(1)),
    "s_inter_adjusted": ("$S_{inter}$, within clusters", look(5, "--")),
    "s_intra_adjusted": ("$S_{intra}$, within clusters", look(4, "--")),
    "s_inter_centred": ("$S_{inter}$, one mean", look(2, ":")),
    "s_inter_random_parts": ("$S_{inter}$, random parts", look(3, ":")),
}


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
        for layer in rows.loc[rows["n_clusters"] > 1, "layer"].unique():
            axes.axvspan(layer - 0.4, layer + 0.4, color=GREY, alpha=0.12, lw=0)
        axes.set_ylim(min(-0.05, axes.get_ylim()[0]), 1.03)
    legend(figure)
    one = _first_seed(layers)["n_clusters"] == 1
    clustered = layers[layers["n_clusters"] > 1]
    scores = ["s_inter", "s_inter_adjusted", "s_inter_centred", "s_inter_random_parts"]
    means = (layers if clustered.empty else clustered)[scores].mean()
    before, inside, centred, random = (f"{value:.2f}" for value in means)
    where = "no layer has clusters" if clustered.empty else "in layers with clusters"
    figure.suptitle(
        f"One mean lowers S_inter from {before} to {centred}, random parts to {random}, clusters "
        f"to {inside} ({where})"
    )
    about = (
        "Cosines between tokens of different types (S_inter) and of the same type "
        "(S_intra), exact over all pairs; "
        f"types are {layers['types'].iloc[0]}. Within clusters: the mean of each "
        "cluster is subtracted; mean over clusters. Dotted, as controls: one mean for all tokens, "
        "and means of random parts as large as the clusters. "
        f"{one.sum()} of {len(one)} layers have one cluster, where all three are the same; "
        "the others are shaded. "
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
    first = silhouettes["seed"].min()
    shown = _subwords(silhouettes[silhouettes["seed"] == first])
    chosen = _subwords(layers)[["setup", "layer", "seed", "n_clusters"]]
    rings = shown.merge(chosen, on=["setup", "layer", "seed"]).query("k == n_clusters and k > 1")
    labels: dict[str, Any] = {"xlabel": "clusters of k-means", "ylabel": "layer"}
    figure, drawn = panels(shown, size=(3.2, 2.2), **labels)
    colours = Normalize(shown["silhouette"].min(), shown["silhouette"].max())
    for axes, rows in drawn:
        of_layers = rows.pivot(index="layer", columns="k", values="silhouette")
        n, ks = range(len(of_layers)), list(of_layers.columns)
        axes.pcolormesh(ks, n, of_layers, norm=colours, cmap=GRADIENT, rasterized=True)
        selected = rings[rings["setup"] == rows["setup"].iloc[0]]
        places = [list(of_layers.index).index(layer) for layer in selected["layer"]]
        axes.scatter(selected["k"], places, 60, "none", edgecolors="#D55E00", lw=2, label="taken")
        axes.set_yticks(n, of_layers.index)
        axes.grid(visible=False)
        for layer, of_layer in rows.groupby("layer"):
            record(axes, of_layer, "k", "silhouette", f"layer {layer}")
    legend(figure)
    bar = colour_bar(figure, [axes for axes, _ in drawn], colours, "silhouette", pad=0.02)
    threshold, n_layers = layers["threshold"].iloc[0], len(shown.groupby(["setup", "layer"]))
    bar.ax.axhline(threshold, color="#D55E00", lw=2)
    figure.suptitle(
        f"k-means reaches a silhouette of {threshold:g} in {len(rings)} of {n_layers} layers"
    )
    about = (
        "Ringed: the number that is taken, that of the largest silhouette; none where it is below "
        f"{threshold:g} (line on the bar). "
    )
    n_tokens = number_range(layers["n_tokens"])
    footnote(figure, f"{about}n = {n_tokens} tokens, seed {first}. {sources(layers)}")
    return figure


@figure(
    "clusters",
    title="Tokens of four layers on their first three components",
    tables=["points", "layers"],
    section="4",
)
def isolated_clusters(points: pd.DataFrame, layers: pd.DataFrame) -> Figure:
    """Tokens of a layer on its first three principal components. The paper finds that isolated
    clusters dominate.
    """
    facts = layers.set_index(["setup", "types", "layer"]).sort_index()
    figure, drawn = grid(points, "setup", VIEWS, size=(1.9, 1.7), subplot_kw=IN_SPACE)
    for row, rows in drawn:
        setup, types = rows[["setup", "types"]].iloc[0]
        every = sorted(rows["layer"].unique())
        places = np.linspace(0, len(every) - 1, min(VIEWS, len(every))).round().astype(int)
        hide_unused(row, len(places))
        for axes, layer in zip(row, (every[i] for i in places), strict=False):
            of_layer = rows[rows["layer"] == layer]
            _dots(axes, of_layer, "", largest_in_colour(of_layer["cluster"]))
            fact = facts.xs((setup, types, layer)).iloc[0]
            k, silhouette = fact["n_clusters"], print_minus(f"{fact['silhouette']:.2f}")
            heading(axes, f"{setup}\nlayer {layer}: silhouette {silhouette}, k = {k}")
        mark_status(row[len(places) - 1], rows)
    first, threshold = _first_seed(_subwords(layers)), layers["threshold"].iloc[0]
    figure.suptitle(
        f"In {(first['n_clusters'] == 1).sum()} of {len(first)} layers no silhouette reaches "
        f"{threshold:g}: k-means counts one cluster, islands or not"
    )
    n = number_range(points.groupby(["setup", "layer"]).size())
    about = f"n = {n} of all tokens of a layer, drawn with a seed; k clusters. {OF_CLUSTERS} "
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
    low = points.groupby("setup")["layer"].transform(lambda n: min(n, key=lambda k: abs(k - LOW)))
    shown = points[(points["layer"] == low) & points["x_largest"].notna()]
    figure, drawn = grid(shown, "setup", 3, size=(2.4, 2.6), subplot_kw=IN_SPACE)
    kinds = list(KINDS)
    names: dict[str, Any] = {"ticks": range(len(kinds)), "format": lambda i, _: kinds[int(i)]}
    for row, rows in drawn:
        setup, layer = rows[["setup", "layer"]].iloc[0]
        rows = rows.assign(kind=rows["kind"].map(kinds.index))
        scales: dict[str, Any] = {
            "position": Normalize(*rows["position"].agg(["min", "max"])),
            "frequency": LogNorm(1, max(2, rows["frequency"].max())),
            "kind": Normalize(-0.5, len(kinds) - 0.5),
        }
        for axes, (column, norm) in zip(row, scales.items(), strict=True):
            palette = ListedColormap(list(KINDS.values())) if column == "kind" else GRADIENT
            _dots(axes, rows, "_largest", palette(norm(rows[column])))
            options = names if column == "kind" else {}
            below: dict[str, Any] = {"location": "bottom", "shrink": 0.8} | options
            colour_bar(figure, axes, norm, BARS[column], palette, **below)
            heading(axes, f"{setup}\nlayer {layer}, by {column}")
        mark_status(row[-1], rows)
    components = shown[[f"{axis}_largest" for axis in "xyz"]].set_axis([1, 2, 3], axis=1)
    texts = []
    for column in ("position", "frequency"):
        of_components = components.corrwith(shown[column], method="spearman").abs()
        largest = f"{of_components.max():.2f}"
        texts.append(f"{column} goes with component {of_components.idxmax()} (|ρ| {largest})")
    figure.suptitle(", ".join(texts).capitalize())
    about = (
        f"n = {number_range(shown.groupby('setup').size())} tokens of the largest cluster on its "
        "own first three principal components. A Swiss roll that is wound along the text shows as "
        "a band of colours from the first to the last position. "
    )
    footnote(figure, about + sources(points))
    return figure


def _dots(axes: Any, rows: pd.DataFrame, suffix: str, colours: Any) -> None:
    """Tokens on three principal components, columns `x`, `y` and `z` with a suffix."""
    axes.scatter(*(rows[f"{axis}{suffix}"] for axis in "xyz"), c=colours, depthshade=False, **DOTS)
    for i, axis in enumerate((axes.xaxis, axes.yaxis, axes.zaxis), 1):
        axis.set_ticklabels([])
        axis.set_label_text(f"component {i}", fontsize=7)
        axis.labelpad = -14


def _wrapped(setup: str) -> str:
    return setup.replace(", ", ",\n")


def _subwords(table: pd.DataFrame) -> pd.DataFrame:
    """The rows whose types are subwords; all rows of a study without subwords."""
    subwords = table[table["types"] == "subwords"]
    return subwords if len(subwords) else table


def _first_seed(layers: pd.DataFrame) -> pd.DataFrame:
    return layers.query("seed == seed.min()")


def _seeds(layers: pd.DataFrame) -> str:
    n = f"n = {number_range(layers['n_tokens'])} tokens. " if "n_tokens" in layers else ""
    return f"{n}{repeats_per_setup(layers).capitalize()} of k-means and samples."


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
            curve(axes, rows, "layer", lid, f"{setup}, distances", style)
            dotted = style._replace(linestyle=":")
            curve(
                axes,
                rows,
                "layer",
                f"{lid}_published",
                f"{setup}, squared distances (the paper's code)",
                dotted,
            )
        heading(axes, title, layers)
        label(axes, xlabel="layer", ylabel="")
    grid[0].set_ylabel("local intrinsic dimension")
    grid[0].set_ylim(0)
    legend(figure)
    ends = layers.sort_values("layer").groupby("layer")[["lid_euclidean", "lid_cosine"]].mean()
    (euclidean, cosine), (last_euclidean, last_cosine) = ends.iloc[[0, -1]].to_numpy()
    figure.suptitle(
        f"First to last layer: {euclidean:.0f} to {last_euclidean:.0f} by Euclidean distance; "
        f"{cosine:.0f} to {last_cosine:.0f} by cosine, at most {ends['lid_cosine'].max():.0f}"
    )
    k = int(layers["lid_k"].max())
    about = f"Mean over tokens, {k} exact neighbours. Squared distances halve the estimate. "
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
    of_layers = contextual.groupby(["place", "setup", "layer"])["lid_cosine"].mean()
    once, every = (of_layers[place].agg(["min", "max"]) for place in (0, len(names) - 1))
    vectors = static["lid_cosine"].mean()
    figure.suptitle(
        f"Static vectors: {vectors:.0f}. Contextual: {once['min']:.0f} to {once['max']:.0f} with "
        f"{names[0]} token per type, {every['min']:.0f} to {every['max']:.0f} with {names[-1]}"
    )
    about = "By cosines, conventional estimate, samples of equal size. Grey: static vectors. "
    footnote(figure, f"{about}{_seeds(measured)} {sources(measured)}")
    return figure
