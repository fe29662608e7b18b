"""Figures of Ethayarajh 2019, drawn from tables alone."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
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


@figure(
    "figure1",
    tables=["measures", "published_layers"],
    section="Figure 1",
    caption=(
        "Mean cosine of words of different sentences, layer by layer: published, and here. The "
        "paper finds that all layers but the input's are anisotropic."
    ),
)
def anisotropy(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Mean cosine of words of different sentences, layer by layer (Figure 1)."""
    figure, grid = _with_published(measures, published_layers, BASELINE, "mean cosine")
    for axes, own in grid:
        _variants(axes, own, BASELINE, "")
    about = "Mean cosine between words of different sentences, exact over all pairs. "
    return _finished(figure, grid, measures, about)


@figure(
    "figure2",
    tables=["measures", "published_layers"],
    section="Figure 2",
    caption=(
        "Self-similarity of words, less the mean cosine of the layer. The paper finds that it "
        "falls with depth."
    ),
)
def self_similarity(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Self-similarity less the mean cosine of its layer (Figure 2)."""
    name = "self_similarity_adjusted"
    figure, grid = _with_published(measures, published_layers, name, "cosine")
    for axes, own in grid:
        _variants(axes, own, name, "adjusted, ")
        _line(axes, _rows(own, "self_similarity"), "raw", COLOURS[4], ":o")
    about = (
        "Mean cosine between occurrences of a word in different sentences, mean over words; "
        "adjusted: less the mean cosine of words of different sentences. "
    )
    return _finished(figure, grid, measures, about)


@figure(
    "figure3",
    tables=["measures", "published_layers"],
    section="Figure 3",
    caption=(
        "Intra-sentence similarity, less the mean cosine of the layer as published, and over "
        "shuffled sentences."
    ),
)
def intra_sentence(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Intra-sentence similarity less the mean cosine (Figure 3), and over its null."""
    name = "intra_adjusted"
    figure, grid = _with_published(measures, published_layers, name, "cosine")
    lines = {
        name: ("adjusted, as published", 0, "-o"),
        "intra_excess": ("over shuffled sentences", 1, "-s"),
        "intra_loo_excess": ("leave-one-out, over shuffled", 2, "-D"),
    }
    for axes, own in grid:
        for quantity, (label, colour, form) in lines.items():
            _line(axes, _rows(own, quantity), label, COLOURS[colour], form)
        nothing = _rows(own, "intra_null").set_index("layer")["value"]
        base = _rows(own, BASELINE).set_index("layer")["value"]
        axes.plot(
            nothing.index,
            nothing - base,
            ":",
            color=COLOURS[0],
            label="shuffled sentences, adjusted as published",
        )
        axes.axhline(0, color="#555555", lw=0.8, ls=":")
    about = (
        "Mean cosine between the words of a sentence and their mean; adjusted: less the mean "
        "cosine of words of different sentences. A word is a part of the mean, so shuffled "
        "sentences are above 0 as well: what the words of a sentence have in common is the excess "
        "over them. "
    )
    return _finished(figure, grid, measures, about)


@figure(
    "figure4",
    tables=["measures", "published_layers"],
    section="Figure 4",
    caption=(
        "Maximum explainable variance of words by three estimates, each with its baselines. The "
        "paper finds less than 5 % everywhere, which one of the estimates gives."
    ),
)
def explainable_variance(measures: pd.DataFrame, published_layers: pd.DataFrame) -> Figure:
    """Maximum explainable variance by its three estimates, each with its baselines (Figure 4)."""
    setups = list(_main(measures).groupby("setup", sort=False))
    figure = Figure(figsize=(4.1 * len(ESTIMATES) + 0.4, 3.0 * len(setups) + 1.4))
    grid = figure.subplots(len(setups), len(ESTIMATES), squeeze=False)
    for row, (setup, own) in zip(grid, setups, strict=True):
        printed = published_layers[published_layers["model"] == own["embedding"].iloc[0]]
        for axes, (name, title) in zip(row, ESTIMATES.items(), strict=True):
            lines = {
                "": ("words", 0, "-o"),
                "_baseline": ("random words, all together", 1, "--s"),
                "_matched": ("random words, as many as of the word", 2, "--D"),
            }
            for end, (label, colour, form) in lines.items():
                _line(axes, _rows(own, f"mev_{name}{end}"), label, COLOURS[colour], form)
            of_paper = printed[printed["quantity"] == "mev"]
            if len(of_paper):
                axes.plot(
                    of_paper["layer"], of_paper["value"], "k*", ms=8, label="published: words"
                )
            axes.axhline(0.05, color="#555555", lw=0.9, ls=":")
            axes.set_ylim(0, max(0.1, 1.05 * axes.get_ylim()[1]))
            axes.set_title(title, loc="left", fontsize=9.5)
            mark_status(axes, own)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel("layer")
        row[0].set_ylabel(f"{setup}\nshare of variance")
    common_legend(figure, grid.flat, frameon=False, loc="outside upper left", ncols=4)
    about = (
        "Share of the first principal component of a word's occurrences, mean over words. The "
        "paper says that it is below 5 % (dotted) once the baseline is subtracted. Its formula is "
        "about the origin; the published numbers are the variance about the mean along the "
        "direction of the mean. "
    )
    footnote(figure, about + _sources(measures), width=150)
    return figure


@figure(
    "dimensions",
    tables=["measures", "dimensions"],
    section="Timkey & van Schijndel (2021)",
    caption=(
        "Mean cosine with and without the dimensions that contribute most, and the shares of "
        "the three largest."
    ),
)
def dimensions(measures: pd.DataFrame, dimensions: pd.DataFrame) -> Figure:
    """Mean cosine with and without the largest dimensions, and their shares (Timkey & van Schijndel
    2021).
    """
    setups = list(_main(measures).groupby("setup", sort=False))
    figure = Figure(figsize=(9.8, 3.1 * len(setups) + 1.2))
    grid = figure.subplots(len(setups), 2, squeeze=False)
    lines = {"mean_cosine": "all dimensions"} | {
        f"mean_cosine_without_{k}": f"without the largest {k}" if k > 1 else "without the largest"
        for k in (1, 3, 5)
    }
    for row, (setup, own) in zip(grid, setups, strict=True):
        for i, (quantity, label) in enumerate(lines.items()):
            _line(row[0], _rows(own, quantity), label, COLOURS[i], f"-{MARKERS[i]}")
        row[0].set_ylabel(f"{setup}\nmean cosine of all words")
        of_setup = dimensions[(dimensions["setup"] == setup) & (dimensions["variant"] == "all")]
        for i, rank in enumerate((1, 2, 3)):
            of_rank = of_setup[of_setup["rank"] == rank]
            row[1].plot(
                of_rank["layer"],
                of_rank["share"],
                f"-{MARKERS[i + 4]}",
                color=COLOURS[i + 4],
                label=f"dimension of rank {rank}",
                ms=4.5,
            )
        row[1].set_ylabel("share of the mean cosine")
        for axes in row:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
            axes.set_xlabel("layer")
            axes.set_ylim(min(0, axes.get_ylim()[0]))
        mark_status(row[1], own)
    common_legend(figure, grid.flat, frameon=False, loc="outside upper left", ncols=4)
    about = "Contribution of single dimensions to the mean cosine over all pairs of words, exact. "
    footnote(figure, about + _sources(measures), width=130)
    return figure


@figure(
    "table1",
    tables=["table1"],
    needs="benchmarks",
    section="Table 1",
    caption="Static vectors made from each layer on word similarity, beside other static vectors.",
)
def static_vectors(table1: pd.DataFrame) -> Figure:
    """Static vectors on benchmarks (Table 1): Spearman's rho by layer, beside other vectors."""
    figure, grid = panels(
        table1.assign(panel=table1["setup"] + "\n" + table1["benchmark"]), "panel", 4.2, 3.2
    )
    kinds = {
        "first component": ("first component", 0, "-o"),
        "first component, centred": ("first component about the mean", 1, "-s"),
        "mean": ("mean of occurrences", 2, "-D"),
    }
    for axes, own in grid:
        for kind, (label, colour, form) in kinds.items():
            rows = own[own["vectors"] == kind].rename(
                columns={
                    "rho_covered": "value",
                    "rho_covered_low": "value_low",
                    "rho_covered_high": "value_high",
                }
            )
            _line(axes, rows, label, COLOURS[colour], form)
        for i, other in enumerate(own[own["layer"] < 0].to_dict("records")):
            rho, name = other["rho_covered"], other["static"]
            axes.axhline(rho, color=line_style(i + 3)[0], ls="--", label=name)
        n = int(own["n_items_covered"].iloc[0])
        axes.set_title(
            f"{own['panel'].iloc[0]}, {n} pairs", loc="left", fontsize=9, fontweight="bold"
        )
        mark_status(axes, own)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="layer", ylabel="Spearman's rho")
    common_legend(figure, [axes for axes, _ in grid], frameon=False, loc="outside right upper")
    about = (
        "Cosines of static vectors against people's scores, on the pairs whose words all vectors "
        "have; bars are 95 % bootstrap intervals over pairs. "
    )
    footnote(figure, about + _sources(table1), width=100)
    return figure


def _with_published(
    measures: pd.DataFrame, published: pd.DataFrame, quantity: str, y: str
) -> tuple[Figure, list[tuple[Axes, pd.DataFrame]]]:
    """A panel of the paper's models, and one for each setup, which are returned."""
    own = _main(measures, every_variant=True)
    printed = published[published["quantity"] == quantity]
    first = printed[["model", "layer", "value"]].assign(setup=PUBLISHED)
    both = pd.concat([first, own], ignore_index=True)
    figure, grid = panels(both, "setup", 4.0, 3.1)
    axes = grid[0][0]
    for i, (model, rows) in enumerate(printed.groupby("model", sort=False)):
        grey = ("#222222", "#6b6b6b", "#a0a0a0")[i % 3]
        axes.plot(
            rows["layer"],
            rows["value"],
            f"-{MARKERS[i]}",
            color=grey,
            ms=4,
            label=f"{model} (paper)",
        )
    axes.set_title(PUBLISHED, loc="left", fontweight="bold", fontsize=9.5)
    for axes, rows in grid:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="layer", ylabel=y)
        if rows["setup"].iloc[0] != PUBLISHED:
            axes.set_title(
                rows["setup"].iloc[0].replace(", ", ",\n"),
                loc="left",
                fontweight="bold",
                fontsize=9.5,
            )
            mark_status(axes, rows[rows["variant"] == "all"])
    return figure, grid[1:]


def _main(measures: pd.DataFrame, *, every_variant: bool = False) -> pd.DataFrame:
    own = measures[measures["main"]]
    return own if every_variant else own[own["variant"] == "all"]


def _rows(own: pd.DataFrame, quantity: str, variant: str = "all") -> pd.DataFrame:
    return own[(own["quantity"] == quantity) & (own["variant"] == variant)]


def _variants(axes: Axes, own: pd.DataFrame, quantity: str, prefix: str) -> None:
    """A line per variant; and the paper's own numbers for this model, where it has them."""
    there = [name for name in VARIANTS if (own["variant"] == name).any()]
    for i, variant in enumerate(there):
        rows = _rows(own, quantity, variant)
        _line(axes, rows, prefix + VARIANTS[variant], COLOURS[i], f"-{MARKERS[i]}")
    printed = _rows(own, quantity).dropna(subset="published")
    if len(printed):
        axes.plot(printed["layer"], printed["published"], "k*", ms=8, label="published, same model")


def _line(axes: Axes, rows: pd.DataFrame, label: str, colour: str, form: str) -> None:
    """Values with their 95 % intervals against the layer."""
    low, high = (
        (rows["value"] - rows["value_low"]).abs(),
        (rows["value_high"] - rows["value"]).abs(),
    )
    errors = None if low.isna().all() else [low.fillna(0), high.fillna(0)]
    axes.errorbar(
        rows["layer"],
        rows["value"],
        errors,
        fmt=form,
        color=colour,
        label=label,
        ms=4.5,
        lw=1.2,
        capsize=2,
    )


def _finished(
    figure: Figure, grid: list[tuple[Axes, pd.DataFrame]], measures: pd.DataFrame, about: str
) -> Figure:
    """With a legend for all panels, and a note."""
    common_legend(figure, figure.axes, frameon=False, loc="outside right upper")
    bars = "Bars: 95 % intervals over words or sentences. "
    footnote(figure, about + bars + _sources(measures), width=52 * min(len(grid) + 1, 3) + 10)
    return figure


def _sources(table: pd.DataFrame) -> str:
    return f"Data: {titles(table, 'data')}. Models: {titles(table, 'model')}."
