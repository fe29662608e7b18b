"""Figures of Ethayarajh 2019, drawn from tables alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isotropy.printable import print_minus
from replication.figures.draw import (
    GREY,
    Look,
    Panels,
    curve,
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
TITLES = {
    BASELINE: "Mean cosine of random words",
    "self_similarity_adjusted": "Self-similarity above the mean cosine",
    "intra_adjusted": "Sentences' similarity above the mean cosine",
}
"""Beginnings of the figures' titles, which numbers of the first model complete."""
WORDS = {
    "": ("words", look(0)),
    "_baseline": ("random words", look(2, "--")),
    "_adjusted": ("words less random words", look(1)),
}
"""Suffix of a share of variance -> its name and look."""
BETWEEN = ("value_low", "value_high")
"""Columns of the 95 % intervals."""


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
        _variants(axes, rows, BASELINE)
    about = "Mean cosine between words of different sentences, exact over all pairs. "
    return _finished(figure, measures, about, BASELINE)


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
    figure, drawn = _with_published(
        measures, published_layers, name, "self-similarity − mean cosine"
    )
    for axes, rows in drawn:
        _variants(axes, rows, name)
        _line(axes, rows, "self_similarity", "not adjusted", Look("black", "", ":"))
    about = (
        "Mean cosine between occurrences of a word in different sentences, mean over words, less "
        "the mean cosine of words of different sentences. "
    )
    return _finished(figure, measures, about, name)


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
    figure, drawn = _with_published(measures, published_layers, name, "similarity − mean cosine")
    for axes, rows in drawn:
        _variants(axes, rows[rows["variant"] == "all"], name, "less the mean cosine")
        _line(axes, rows, "intra_excess", "less that of shuffled sentences", look(1))
        null, base = (_rows(rows, q).set_index("layer")["value"] for q in ("intra_null", BASELINE))
        shuffled = (null - base).rename("value").reset_index()
        shuffled["setup"] = rows["setup"].iloc[0]
        text = "shuffled sentences, less the mean cosine"
        curve(axes, shuffled, "layer", "value", text, look(2, ":")._replace(marker=""))
        axes.axhline(0, color=GREY, lw=0.8)
    about = (
        "Mean cosine between the words of a sentence and their mean. A word is a part of the mean, "
        "so shuffled sentences are above 0 as well: what the words of a sentence have in common is "
        "the difference. "
    )
    _finished(figure, measures, about, name)
    excess = _rows(_main(measures), "intra_excess")["value"]
    between = print_minus(f"{excess.min():.2f} to {excess.max():.2f}")
    figure.suptitle(f"{figure.get_suptitle()}; above shuffled sentences {between}")
    return figure


@figure(
    "figure4",
    title="Maximum explainable variance by layer, by three estimates",
    tables=["measures", "published_layers"],
    explore=True,
    section="Figure 4",
)
def explainable_variance(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Maximum explainable variance of words by three estimates, that of random words, and the
    difference. The paper finds that the difference is below 5 % everywhere.
    """
    columns = len(ESTIMATES) + 1
    figure, drawn = grid(_main(measures), "setup", columns, size=(1.9, 2.1), sharey=True)
    for row, rows in drawn:
        for axes, (name, title) in zip(row, ESTIMATES.items(), strict=False):
            for suffix, (text, style) in WORDS.items():
                _line(axes, rows, f"mev_{name}{suffix}", text, style)
            heading(axes, title, rows)
            label(axes, xlabel="layer", ylabel="")
        row[0].set_ylabel(f"{rows['setup'].iloc[0]}\nshare of variance")
        _published_variance(row[-1], published_layers)
        for axes in row:
            axes.axhline(0.05, color=GREY, lw=0.9, ls=":")
        lowest = min(axes.get_ylim()[0] for axes in row)
        row[0].set_ylim(min(-0.1, lowest), 1)
    counts, matched = (_below_a_twentieth(measures, suffix) for suffix in ("adjusted", "excess"))
    figure.suptitle(f"Words less random words are below 5 % in {counts}")
    legend(figure)
    about = (
        "Share of the first principal component of a word's occurrences, mean over words. The "
        "paper says that it is below 5 % (dotted) once the baseline is subtracted. Its formula is "
        "about the origin; the published numbers are the variance about the mean along the "
        "direction of the mean. Layer 0 is left out. Random words are one "
        "large sample, as the authors'; smaller ones have larger shares. Less the share of as many "
        f"random words as a word has occurrences, it is below 5 % in {matched}. "
        "Published numbers compare with the third panel. Intervals are within the marks. "
    )
    footnote(figure, about + _items(measures, "mev_centred") + sources(measures))
    return figure


def _below_a_twentieth(measures: pd.DataFrame, suffix: str) -> str:
    """In how many hidden layers each estimate is below 5 %, in words."""
    names = {"uncentred": "formula", "centred": "PCA", "truncated_svd": "first code"}
    texts = []
    for estimate, name in names.items():
        rows = _rows(_main(measures), f"mev_{estimate}_{suffix}").query("hidden")
        texts.append(f"{(rows['value'] < 0.05).sum()} of {len(rows)} layers ({name})")
    return ", ".join(texts)


def _published_variance(axes: Axes, published: pd.DataFrame) -> None:
    """The shares of variance that the authors' files have, of words and of random words."""
    words, random = (published[published["quantity"] == f"mev{s}"] for s in ("", "_baseline"))
    for model, style in looks(words["model"]).items():
        marks: dict[str, Any] = {"color": style.color, "marker": style.marker, "ls": ""}
        of_words, of_random = (rows[rows["model"] == model] for rows in (words, random))
        axes.plot(of_words["layer"], of_words["value"], **marks, label=f"{model}, words")
        if len(of_random):
            text = f"{model}, random words"
            axes.plot(of_random["layer"], of_random["value"], **marks, mfc="none", label=text)
        record(axes, of_words.assign(setup=PUBLISHED), "layer", "value", model, join=False)
    heading(axes, PUBLISHED)
    label(axes, xlabel="layer", ylabel="", xlim=(-0.6, 12.6))


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
    largest, d = shares.nlargest(1, "share").iloc[0], number_range(shares["d"])
    figure.suptitle(
        f"One dimension of {d} makes up to {100 * largest['share']:.0f} % of the mean cosine "
        f"(layer {largest['layer']:.0f})"
    )
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
    about = (
        "Contribution of single dimensions to the mean cosine over all pairs of words, exact. "
        "Without a dimension, cosines are those of the vectors that are left. "
    )
    footnote(figure, about + _items(measures, BASELINE) + sources(measures))
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
        curve(drawn[0][0], rows, "layer", "value", str(model), styles[str(model)])
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


def _variants(axes: Axes, rows: pd.DataFrame, quantity: str, name: str = VARIANTS["all"]) -> None:
    """All words as a line with marks, other variants as dashes over it, which hide nothing; and
    the paper's own numbers for this model, where it has them.
    """
    _line(axes, rows, quantity, name, look(0))
    for i, (variant, text) in enumerate(VARIANTS.items()):
        if i and (rows["variant"] == variant).any():
            style = Look(look(2 * i - 1).color, "", "--" if i % 2 else ":")
            curve(axes, _rows(rows, quantity, variant), "layer", "value", text, style)
    printed = _rows(rows, quantity).dropna(subset="published")
    if len(printed):
        marks: dict[str, Any] = {"ms": 11, "mfc": "none", "label": "published, same model"}
        axes.plot(printed["layer"], printed["published"], "k*", **marks)
        record(axes, printed, "layer", "published", "published, same model")


def _items(measures: pd.DataFrame, quantity: str) -> str:
    """Number of words or sentences that a quantity is a mean over, in words."""
    n = number_range(_rows(_main(measures), quantity)["n_items"].dropna())
    of_words = quantity.startswith(("self_similarity", "mev"))
    return f"n = {n} {'words' if of_words else 'sentences'}. "


def _finished(figure: Figure, measures: pd.DataFrame, about: str, quantity: str) -> Figure:
    """Add a title, a legend for all panels, one scale, and a note."""
    rows = _rows(_main(measures), quantity)
    values = rows[rows["setup"] == rows["setup"].iloc[0]].set_index("layer")["value"].sort_index()
    ends = values.index[[0, -1]]
    turn = (values - values[ends].mean()).abs().idxmax()  # where it is farthest from both ends
    texts = [f"{values[k]:.2f} in layer {k}" for k in dict.fromkeys([ends[0], turn, ends[1]])]
    figure.suptitle(f"{TITLES[quantity]}: {print_minus(', '.join(texts))}")
    legend(figure)
    bars = f"Bars, mostly within the marks: 95 % intervals; {_items(measures, quantity)}"
    footnote(figure, about + bars + sources(measures))
    share_scale(figure.axes)
    return figure
