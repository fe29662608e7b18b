"""Figures of Ethayarajh 2019, drawn from tables alone."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from replication.figures.draw import (
    GREY,
    Look,
    Panels,
    card,
    curve,
    footnote,
    grid,
    heading,
    label,
    look,
    looks,
    mark_status,
    panels,
    record,
    share_scale,
    sources,
)
from replication.figures.names import legend
from replication.papers.declare import figure

VARIANTS = {
    "all": "all words",
    "no-first": "without first words",
    "no-massive": "without massive activations",
    "standardized": "standardized",
}
ESTIMATES = {
    "uncentred": "the paper's formula",
    "centred": "about the mean (PCA)",
    "truncated_svd": "TruncatedSVD (first code)",
}
BASELINE = "baseline_cosine"
PUBLISHED = "published"
"""Title of the panel with the paper's own models."""
BETWEEN = ("value_low", "value_high")
"""Columns of the 95 % intervals."""


@figure(
    "card",
    title="Mean cosine of words of different sentences, by layer",
    tables=["measures", "published_layers"],
    section="4.1",
)
def anisotropy_card(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Mean cosine of words of different sentences, layer by layer, of the first model here and as
    published for three others. The paper finds that all layers but the input's are anisotropic.
    """
    rows = _rows(_main(measures), BASELINE)
    rows = rows[rows["setup"] == rows["setup"].iloc[0]]
    printed = published_layers[published_layers["quantity"] == BASELINE]
    largest, published = rows["value"].max(), printed["value"].max()
    title = f"Cosine of random words: up to {largest:.2f} (paper: {published:.2f})"
    xlabel = "layer, as a share of the last"
    figure, axes = card(rows, title, xlabel=xlabel, ylabel="mean cosine")
    styles = looks([*rows["embedding"], *printed["model"]])
    lines = {f"{m}, paper": (part, ":") for m, part in printed.groupby("model", sort=False)}
    for name, (part, dashes) in ({rows["embedding"].iloc[0]: (rows, "-")} | lines).items():
        style = styles[name.removesuffix(", paper")]._replace(linestyle=dashes)
        shares = part.assign(depth=part["layer"] / part["layer"].max())
        curve(axes, shares, "depth", "value", name, style)
    axes.set_ylim(min(0, axes.get_ylim()[0]))
    legend(figure)
    footnote(figure, f"{rows['setup'].iloc[0]}. {sources(rows)}")
    return figure


@figure(
    "figure1",
    title="Mean cosine of words of different sentences, by layer",
    tables=["measures", "published_layers"],
    explore=True,
    section="Figure 1",
)
def anisotropy(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Mean cosine of words of different sentences, layer by layer: published, and here. The paper
    finds that all layers but the input's are anisotropic.
    """
    figure, drawn = _with_published(measures, published_layers, BASELINE, "mean cosine")
    for axes, rows in drawn:
        _variants(axes, rows, BASELINE, "")
    about = "Mean cosine between words of different sentences, exact over all pairs. "
    return _finished(figure, measures, about)


@figure(
    "figure2",
    title="Self-similarity of words less the mean cosine, by layer",
    tables=["measures", "published_layers"],
    explore=True,
    section="Figure 2",
)
def self_similarity(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Self-similarity of words, less the mean cosine of the layer. The paper finds that it falls
    with depth.
    """
    name = "self_similarity_adjusted"
    figure, drawn = _with_published(measures, published_layers, name, "cosine")
    for axes, rows in drawn:
        _variants(axes, rows, name, "adjusted, ")
        _line(axes, rows, "self_similarity", "raw", look(4, ":"))
    about = (
        "Mean cosine between occurrences of a word in different sentences, mean over words; "
        "adjusted: less the mean cosine of words of different sentences. "
    )
    return _finished(figure, measures, about)


@figure(
    "figure3",
    title="Intra-sentence similarity less the mean cosine, by layer",
    tables=["measures", "published_layers"],
    explore=True,
    section="Figure 3",
)
def intra_sentence(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Intra-sentence similarity, less the mean cosine of the layer as published, and over shuffled
    sentences.
    """
    name = "intra_adjusted"
    figure, drawn = _with_published(measures, published_layers, name, "cosine")
    for axes, rows in drawn:
        _line(axes, rows, name, "adjusted, as published", look(0))
        _line(axes, rows, "intra_excess", "over shuffled sentences", look(1))
        _line(axes, rows, "intra_loo_excess", "leave-one-out, over shuffled", look(2))
        null, base = (_rows(rows, q).set_index("layer")["value"] for q in ("intra_null", BASELINE))
        text = "shuffled sentences, adjusted as published"
        axes.plot(null.index, null - base, ":", color=look(0).color, label=text)
        shuffled = (null - base).reset_index().assign(setup=rows["setup"].iloc[0])
        record(axes, shuffled, "layer", "value", text)
        axes.axhline(0, color=GREY, lw=0.8, ls=":")
    about = (
        "Mean cosine between the words of a sentence and their mean; adjusted: less the mean "
        "cosine of words of different sentences. A word is a part of the mean, so shuffled "
        "sentences are above 0 as well: what the words of a sentence have in common is the excess "
        "over them. "
    )
    return _finished(figure, measures, about)


@figure(
    "figure4",
    title="Maximum explainable variance by layer, by three estimates",
    tables=["measures", "published_layers"],
    explore=True,
    section="Figure 4",
)
def explainable_variance(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Maximum explainable variance of words by three estimates, each with its baselines. The paper
    finds less than 5 % everywhere, which one of the estimates gives.
    """
    figure, drawn = grid(_main(measures), "setup", len(ESTIMATES), size=(2.3, 2.1))
    for row, rows in drawn:
        printed = published_layers[published_layers["model"] == rows["embedding"].iloc[0]]
        printed, setup = printed[printed["quantity"] == "mev"], rows["setup"].iloc[0]
        for axes, (name, title) in zip(row, ESTIMATES.items(), strict=True):
            mev = f"mev_{name}"
            _line(axes, rows, mev, "words", look(0))
            _line(axes, rows, f"{mev}_baseline", "random words, all together", look(1, "--"))
            matched = "random words, as many as of the word"
            _line(axes, rows, f"{mev}_matched", matched, look(2, "--"))
            _stars(axes, printed.assign(setup=setup), "value", "published: words")
            axes.axhline(0.05, color=GREY, lw=0.9, ls=":")
            axes.set_ylim(0, max(0.1, 1.05 * axes.get_ylim()[1]))
            heading(axes, title, rows)
            label(axes, xlabel="layer", ylabel="")
        row[0].set_ylabel(f"{rows['setup'].iloc[0]}\nshare of variance")
    legend(figure)
    about = (
        "Share of the first principal component of a word's occurrences, mean over words. The "
        "paper says that it is below 5 % (dotted) once the baseline is subtracted. Its formula is "
        "about the origin; the published numbers are the variance about the mean along the "
        "direction of the mean. "
    )
    footnote(figure, about + sources(measures))
    return figure


@figure(
    "dimensions",
    title="Mean cosine without its largest dimensions, and their shares",
    tables=["measures", "dimensions"],
    explore=True,
    section="Timkey & van Schijndel (2021)",
)
def dimensions(measures: pd.DataFrame, dimensions: pd.DataFrame) -> Figure:
    """Mean cosine with and without the dimensions that contribute most, and the shares of the
    three largest.
    """
    figure, drawn = grid(_main(measures), "setup", 2, size=(3.0, 2.4))
    lines = {"mean_cosine": "all dimensions"} | {
        f"mean_cosine_without_{k}": f"without the largest\u00a0{k}"
        if k > 1
        else "without the largest"
        for k in (1, 3, 5)
    }
    shares = dimensions[dimensions["variant"] == "all"]
    for row, rows in drawn:
        setup = rows["setup"].iloc[0]
        for i, (quantity, name) in enumerate(lines.items()):
            _line(row[0], rows, quantity, name, look(i))
        for rank in (1, 2, 3):
            selected = shares[(shares["setup"] == setup) & (shares["rank"] == rank)]
            name = f"dimension of rank {rank}"
            curve(row[1], selected, "layer", "share", name, look(rank + 3))
        label(row[0], xlabel="layer", ylabel=f"{setup}\nmean cosine of all words")
        label(row[1], xlabel="layer", ylabel="share of the mean cosine")
        for axes in row:
            axes.set_ylim(min(0, axes.get_ylim()[0]))
        mark_status(row[1], rows)
    legend(figure)
    about = "Contribution of single dimensions to the mean cosine over all pairs of words, exact. "
    footnote(figure, about + sources(measures))
    return figure


def _with_published(
    measures: pd.DataFrame, published: pd.DataFrame, quantity: str, ylabel: str
) -> tuple[Figure, Panels]:
    """A panel of the paper's models, and one for each setup, which are returned."""
    printed = published[published["quantity"] == quantity][["model", "layer", "value"]]
    every = pd.concat([printed.assign(setup=PUBLISHED), measures[measures["main"]]])
    figure, drawn = panels(every, xlabel="layer", ylabel=ylabel)
    styles = looks(printed["model"])
    for model, rows in printed.groupby("model", sort=False):
        curve(drawn[0][0], rows, "layer", "value", f"{model} (paper)", styles[str(model)])
    return figure, drawn[1:]


def _main(measures: pd.DataFrame) -> pd.DataFrame:
    return measures[measures["main"] & (measures["variant"] == "all")]


def _rows(rows: pd.DataFrame, quantity: str, variant: str = "all") -> pd.DataFrame:
    return rows[(rows["quantity"] == quantity) & (rows["variant"] == variant)]


def _line(
    axes: Axes, rows: pd.DataFrame, quantity: str, name: str, style: Look, variant: str = "all"
) -> None:
    """A quantity with its 95 % intervals against the layer."""
    selected = _rows(rows, quantity, variant)
    curve(axes, selected, "layer", "value", name, style, BETWEEN)


def _variants(axes: Axes, rows: pd.DataFrame, quantity: str, prefix: str) -> None:
    """A line per variant; and the paper's own numbers for this model, where it has them."""
    for i, (variant, name) in enumerate(VARIANTS.items()):
        if (rows["variant"] == variant).any():
            _line(axes, rows, quantity, prefix + name, look(i), variant)
    printed = _rows(rows, quantity).dropna(subset="published")
    _stars(axes, printed, "published", "published, same model")


def _stars(axes: Axes, printed: pd.DataFrame, column: str, name: str) -> None:
    """Published numbers against the layer, where there are some."""
    if len(printed):
        axes.plot(printed["layer"], printed[column], "k*", ms=8, label=name)
        record(axes, printed, "layer", column, name)


def _finished(figure: Figure, measures: pd.DataFrame, about: str) -> Figure:
    """Add a legend for all panels, one scale, and a note."""
    legend(figure)
    bars = "Bars: 95 % intervals over words or sentences. "
    footnote(figure, about + bars + sources(measures))
    share_scale(figure.axes)
    return figure
