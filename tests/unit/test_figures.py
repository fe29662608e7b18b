"""Figures: reproducible files, and texts that state status, seeds, scale and methods."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.figure import Figure

from isotropy.claims import figures as claims
from isotropy.claims.scales import COUNTS, scale_of
from isotropy.figures import style as figure_style
from isotropy.figures.draw import (
    Look,
    curve,
    finish,
    footnote,
    look,
    note,
    repeats_per_setup,
    whiskers,
)
from isotropy.figures.style import save, use_style
from isotropy.papers.cai2021 import figures as cai2021
from isotropy.papers.ethayarajh2019 import figures as ethayarajh2019
from isotropy.papers.locations import OF_ALL, package
from isotropy.papers.mickus2024 import figures as mickus2024
from isotropy.papers.rajaee2021 import figures as rajaee2021
from isotropy.papers.registry import KEYS
from isotropy.papers.rudman2024 import figures as rudman2024
from isotropy.provenance.identity import MARK
from isotropy.provenance.record import read_record
from isotropy.tables.write import format_cell, write_markdown
from tests.conftest import Workflow
from tests.unit.entries import FIGURES, TABLES
from tests.unit.test_figure_rules import assert_rules


def texts(figure: Figure) -> str:
    inside = (" ".join(t.get_text().split()) for t in figure.findobj(plt.Text))
    return " ".join([*inside, note(figure)])


@pytest.fixture(scope="module")
def tables(smoke: Workflow) -> dict[str, pd.DataFrame]:
    folder = smoke.folder / "results"
    tables = {name: pd.read_parquet(folder / f"tables/{name}.parquet") for name in TABLES}
    return tables | {name: pd.read_parquet(folder / f"{name}.parquet") for name in OF_ALL}


@pytest.mark.parametrize("name", FIGURES)
def test_figure_files_are_reproducible(
    name: str, smoke: Workflow, tables: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    """A figure drawn here has the bytes that the workflow's job wrote in another process, and keeps
    the rules for all figures.
    """
    use_style()
    entry = FIGURES[name]
    module = import_module(f"{package(name.split('/')[0])}.figures")
    figure = getattr(module, entry.function)(*(tables[t] for t in entry.tables))
    finish(figure, entry.title)
    mark = MARK + read_record(smoke.folder / f"results/figures/{name}.record.json").id
    for kind in ("pdf", "svg", "png"):
        save(figure, tmp_path / f"f.{kind}", mark)
        assert (tmp_path / f"f.{kind}").read_bytes() == (
            smoke.folder / f"results/figures/{name}.{kind}"
        ).read_bytes()
    assert_rules(name, figure)
    plt.close(figure)


def test_lines_differ_in_colour_or_marker() -> None:
    assert len({look(i) for i in range(49)}) == 49


def test_notes_keep_names_whole_and_count_the_seeds_of_each_setup() -> None:
    figure = plt.figure(figsize=(2, 1))
    footnote(figure, "The model of these embeddings is all-MiniLM-L6-v2.")
    assert note(figure).endswith("all-MiniLM-L6-v2.")
    runs = pd.DataFrame({"setup": [*"aaab"], "seed": [0, 1, 2, 5]})
    assert repeats_per_setup(runs) == "mean ± sd over 1 to 3 seeds"
    assert repeats_per_setup(runs[runs["setup"] == "a"]) == "mean ± sd over 3 seeds"


def test_lines_and_intervals_are_those_of_the_table() -> None:
    """The mean ± sd of rows with the same x (seeds), or the interval that the table has."""
    use_style()
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"layer": np.repeat([0, 1, 6], 4), "score": draws.normal(size=12)})
    scores = rows.groupby("layer")["score"]
    for band in (False, True):
        axes = Figure().subplots()
        curve(axes, rows, "layer", "score", "model", Look("#0072B2", "o"), band=band)
        line = axes.get_lines()[0]
        assert line.get_label() == "model"
        assert np.allclose(line.get_xydata(), np.c_[[0, 1, 6], scores.mean()])
        drawn = axes.collections[0]
        ends = drawn.get_paths()[0].vertices if band else np.concatenate(drawn.get_segments())
        expected = np.stack(
            [scores.mean() - scores.std(ddof=1), scores.mean() + scores.std(ddof=1)]
        )
        assert np.allclose(ends[:, 1].min(), expected.min())
        assert np.allclose(ends[:, 1].max(), expected.max())
    one = scores.mean().reset_index().assign(low=[-3.0, np.nan, -1.0], high=[3.0, 2.0, 5.0])
    axes = Figure().subplots()
    curve(axes, one, "layer", "score", "model", Look("#0072B2"), ("low", "high"))
    (bars,) = axes.collections
    segments = [segment.tolist() for segment in bars.get_segments()]
    assert np.allclose(segments, [[[0, -3], [0, 3]], [[6, -1], [6, 5]]])  # none without an end
    axes = Figure().subplots()
    whiskers(axes, one, ("score", "layer"), ("low", "high"), horizontal=True)
    (bars,) = axes.collections
    assert np.allclose(bars.get_segments()[1], [[-1, 6], [5, 6]])


def test_figure_of_published_numbers_has_a_panel_per_unit(smoke: Workflow) -> None:
    """It shows each verdict of all papers once, with its statement and interval; only counts are
    shown as ratios."""
    verdicts = pd.read_parquet(smoke.folder / "results/claims.parquet")
    value = 0.9 * verdicts["published"]
    filled = verdicts.assign(
        obtained=value, low=value - 0.05, high=value + 0.05, status="original", setup="s"
    )
    with_published = filled.dropna(subset=["published"])
    labels = with_published["column"].map(lambda column: scale_of(column).label)
    assert set(with_published["paper"]) == set(KEYS)
    figure = claims.published_against_obtained(filled)
    panels = {axes.get_xlabel(): axes for axes in figure.findobj(Axes) if axes.get_visible()}
    assert set(panels) == set(labels)
    for scale, axes in panels.items():
        rows = with_published[labels == scale]
        named = [" ".join(text.get_text().split()) for text in axes.get_yticklabels()]
        statements = [re.sub(r" \(.*\)$", "", text) for text in rows["statement"]]
        assert [name.removesuffix(" (s)") for name in named] == statements
        unit = rows["published"] if scale == COUNTS.label else 1
        diamonds, bars, dots, *runs = axes.collections
        assert np.allclose(diamonds.get_offsets()[:, 0], rows["published"] / unit)
        assert np.allclose(dots.get_offsets()[:, 0], rows["obtained"] / unit)
        assert np.allclose(
            [bar.vertices[:, 0] for bar in bars.get_paths()], (rows[["low", "high"]].T / unit).T
        )
        values = [float(value) for of_claim in rows["runs"] for value in of_claim.split()]
        drawn = np.concatenate([part.get_offsets()[:, 0] for part in runs] or [np.empty(0)])
        assert np.allclose(drawn, values)
        low, high = axes.get_xlim()
        assert (
            (rows["obtained"] / unit).between(low, high)
            & (rows["published"] / unit).between(low, high)
        ).all()


def test_figures_state_status_seeds_and_schedule(tables: dict[str, pd.DataFrame]) -> None:
    figure = mickus2024.scores_over_updates(tables["mickus2024/trajectories"])
    shown = texts(figure)
    for part in (
        "stand-in",
        "2 seeds",
        "each of 40 updates",
        "IsoScore",
        "Silhouette",
        "Loss",
        "update",
        "Mean ± sd over 2 seeds",
    ):
        assert part in shown
    # The band shows the standard deviation over seeds of the table's numbers.
    table = tables["mickus2024/trajectories"]
    sd = table[table["setup"] == "polarity"].groupby("step")["isoscore"].std(ddof=1)
    first = list(dict.fromkeys(table["setup"])).index("polarity")
    band = figure.axes[first].collections[0].get_paths()[0].vertices
    assert np.ptp(band[band[:, 0] == 30][:, 1]) == pytest.approx(2 * sd[30], rel=1e-6)


def test_figures_of_fine_tuning_state_methods_status_and_scale(
    tables: dict[str, pd.DataFrame],
) -> None:
    runs, stability = tables["rudman2024/runs"], tables["rudman2024/stability"]
    shown = texts(rudman2024.performance_against_isoscore(runs))
    for part in (
        "stand-in",
        "λ = −1, ζ = 0.2",
        "CosReg",
        "none",
        "Accuracy (%)",
        "IsoScore*",
        "48 training items, 6 updates",
    ):
        assert part in shown
    shown = texts(rudman2024.stability_of_isoscore(stability))
    assert "without bias" in shown
    for part in ("ζ = 0 (IsoScore)", "whole cloud: 0.860", "stand-in", "samples", "shrinkage ζ"):
        assert part in shown
    figure = rudman2024.dimension_per_layer(tables["rudman2024/layers"])
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    drawn = (
        tables["rudman2024/layers"]
        .query("kind == 'none'")
        .groupby("layer")["sentence_two_nn"]
        .mean()
    )
    assert lines["none"].get_ydata().tolist() == drawn.tolist()
    assert "average cosine" in texts(rudman2024.point_clouds(tables["rudman2024/points"], runs))
    assert "seed 0" in texts(rudman2024.activation_diagrams(tables["rudman2024/activations"]))
    averages = tables["rudman2024/averages"]
    assert "no task was learned" in texts(rudman2024.average_performance(averages))
    well = averages.assign(
        istar=50.0,
        istar_mean=50.5,
        istar_best=51.0,
        none=52.0,
        cosreg=49.0,
        n_tasks=1,
        not_learned="",
    )
    shown = texts(rudman2024.average_performance(well))
    for part in ("dots: seeds", "One task", "I-STAR, mean over λ < 0"):
        assert part in shown
    several = pd.concat([runs, runs.assign(seed=1, performance=runs["performance"] + 1)])
    assert "Mean ± sd over 2 seeds" in texts(rudman2024.performance_against_isoscore(several))


def test_figure1_has_exact_numbers() -> None:
    """Its numbers are defect and IsoScore of the drawn variances by definition."""
    shown = texts(mickus2024.chord_and_angle())
    variances = np.sqrt(2) * np.array([np.cos(np.deg2rad(27)), np.sin(np.deg2rad(27))])
    defect = np.linalg.norm(variances - 1) / np.sqrt(2 * (2 - np.sqrt(2)))
    score = variances.sum() ** 2 / (variances**2).sum() - 1
    assert f"δ = {defect:.2f}, IsoScore = {score:.2f}" in shown
    assert "no data" in shown


def test_markdown_tables_are_formatted_and_escaped(tmp_path: Path) -> None:
    assert [format_cell(v) for v in (1234567, 0.123456, np.nan, True, "a|b")] == [
        "1,234,567",
        "0.1235",
        "",
        "yes",
        "a|b",
    ]
    write_markdown(tmp_path / "t.md", pd.DataFrame({"a": ["x|y"]}), "isotropy-record:0")
    assert (
        tmp_path / "t.md"
    ).read_text() == "| a |\n| --- |\n| x\\|y |\n\n<!-- isotropy-record:0 -->\n"


def test_figures_of_post_processing_state_methods_status_and_scale(
    tables: dict[str, pd.DataFrame],
) -> None:
    slides = tables["rajaee2021/slides"]
    shown = texts(rajaee2021.similarity_by_method(slides))
    for part in (
        "stand-in",
        "Spearman correlation (×100)",
        "GMM + mean + PCA",
        "wordsim353",
        "95 % intervals over pairs; means over 2 clusterings",
    ):
        assert part in shown
    assert "no pairs of sentences with scores" in texts(
        rajaee2021.similarity_by_method(slides[slides["n_pairs"] == 0])
    )
    interval = rajaee2021.similarity_by_method(slides).axes[0].containers[0].lines[2][0]
    scored = slides[(slides["n_pairs"] > 0) & (slides["title"] == slides["title"].iloc[0])]
    assert interval.get_segments()[0][:, 1] == pytest.approx(
        scored[["spearman_low", "spearman_high"]].iloc[0]
    )
    isotropy = texts(rajaee2021.isotropy_by_method(slides))
    assert "log₁₀ I(W) (0: isotropic)" in isotropy
    assert "all-MiniLM-L6-v2, layer 6" in isotropy
    figure = rajaee2021.isotropy_per_layer(tables["rajaee2021/table5"])
    line = figure.axes[0].get_lines()[0]
    assert list(line.get_xdata()) == [0, 1, 6]
    drawn = tables["rajaee2021/table5"].sort_values("layer")["log10_isotropy"]
    assert list(line.get_ydata()) == list(drawn)
    assert "Dashed: without" in texts(rajaee2021.effect_of_clusters(tables["rajaee2021/table1"]))
    wide = tables["rajaee2021/table1"].assign(log10_isotropy_sd=50.0)
    for axes in rajaee2021.effect_of_clusters(wide).axes:
        bars = [bar for drawn in axes.containers for bar in drawn.lines[2][0].get_segments()]
        assert max(high for (_, _), (_, high) in bars) == 0
    scaled = rajaee2021.isotropy_and_scale(slides).axes
    assert scaled[0].get_xlim() == scaled[1].get_xlim()
    words = texts(rajaee2021.words_before_and_after(tables["rajaee2021/words"]))
    for part in ("before, by frequency", "after, by cluster", "occurrences of the type"):
        assert part in words
    assert "48 training and 60" in " ".join(
        texts(rajaee2021.convergence(tables["rajaee2021/convergence"])).split()
    )
    assert "fine-tuned, method inside" in texts(
        rajaee2021.first_tokens_per_layer(tables["rajaee2021/cls_layers"])
    )


def test_figures_of_layers_state_scores_status_and_scale(tables: dict[str, pd.DataFrame]) -> None:
    layers, points = tables["cai2021/layers"], tables["cai2021/points"]
    figure = cai2021.cosines_per_layer(layers)
    shown = texts(figure)
    for part in (
        "stand-in",
        "brown, all-MiniLM-L6-v2",
        "mean cosine",
        "$S_{inter}$, adjusted",
        "Mean ± sd over 2 seeds",
    ):
        assert part in shown
    subwords = layers[layers["types"] == "subwords"]
    drawn = figure.axes[0].get_lines()[0]
    assert list(drawn.get_xdata()) == [1, 6]
    assert list(drawn.get_ydata()) == pytest.approx(
        list(subwords.groupby("layer")["s_inter"].mean())
    )
    silhouettes = texts(cai2021.clusters_per_layer(layers, tables["cai2021/silhouettes"]))
    for part in (
        "Ringed: the number that is taken",
        "depth: layer over the last layer",
        "brown, all-MiniLM-L6-v2",
    ):
        assert part in silhouettes
    clusters = texts(cai2021.isolated_clusters(points, layers))
    assert "layer 6" in clusters
    assert "cluster" in clusters
    rolls = texts(cai2021.manifolds(points))
    for part in (
        "position in the window",
        "occurrences of the type",
        "symbol",
        "third component",
        "layer 1",
    ):
        assert part in rolls
    dimension = texts(cai2021.dimension_per_layer(layers))
    for part in ("as published", "20 exact neighbours", "Euclidean distance"):
        assert part in dimension


def test_figures_of_contexts_include_published_curves(tables: dict[str, pd.DataFrame]) -> None:
    measures, printed = (tables[f"ethayarajh2019/{t}"] for t in ("measures", "published_layers"))
    figure = ethayarajh2019.anisotropy(measures, printed)
    shown = texts(figure)
    for part in ("published", "bert-base-cased (paper)", "brown,", "stand-in", "standardized"):
        assert part in shown
    bert = printed[
        (printed["model"] == "bert-base-cased") & printed["quantity"].eq("baseline_cosine")
    ]
    lines = {line.get_label(): line for line in figure.axes[0].get_lines()}
    assert list(lines["bert-base-cased (paper)"].get_ydata()) == bert["value"].tolist()
    assert len({axes.get_ylim() for axes in figure.axes}) == 1
    main = measures[measures["main"] & measures["variant"].eq("all")].set_index("quantity")
    drawn = figure.axes[1].get_lines()[0]
    assert list(drawn.get_xdata()) == [0, 1, 6]
    assert list(drawn.get_ydata()) == main.loc["baseline_cosine", "value"].tolist()
    for drawing, part in (
        (ethayarajh2019.self_similarity, "raw"),
        (ethayarajh2019.intra_sentence, "shuffled sentences, adjusted as published"),
        (ethayarajh2019.explainable_variance, "TruncatedSVD (first code)"),
    ):
        assert part in texts(drawing(measures, printed))
    dimension_texts = texts(
        ethayarajh2019.dimensions(measures, tables["ethayarajh2019/dimensions"])
    )
    assert "without the largest 3" in dimension_texts
    assert "dimension of rank 1" in dimension_texts
    static = texts(ethayarajh2019.static_vectors(tables["ethayarajh2019/table1"]))
    assert "Too few to draw" in static
    table1 = tables["ethayarajh2019/table1"].assign(n_items_covered=30.0)
    static = texts(ethayarajh2019.static_vectors(table1))
    assert "spaCy en_core_web_md 3.7.1 vectors, 300-d" in static
    assert "wordsim353, 30 pairs" in static


def test_many_rasterized_panels_share_one_raster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """matplotlib makes a raster of the whole page for each panel. Above a size limit one raster is
    made, and its parts are placed where the points were."""
    use_style()

    def panels() -> Figure:
        draws = np.random.default_rng(0)
        figure = Figure(figsize=(2, 3))
        for axes in figure.subplots(4, 3).flat:
            x, y = draws.standard_normal((2, 500))
            axes.scatter(x, y, s=5, lw=0, rasterized=True, label="points")
            axes.set_aspect("equal", adjustable="datalim")
        return figure

    raster_sizes: list[tuple[int, int]] = []

    class Counting(RendererAgg):
        def __init__(self, width: int, height: int, dpi: float) -> None:
            raster_sizes.append((width, height))
            super().__init__(width, height, dpi)

    for module in ("backend_agg", "backend_mixed"):  # the latter may be loaded already
        monkeypatch.setattr(f"matplotlib.backends.{module}.RendererAgg", Counting)
    for figure, name, largest in ((panels(), "a", 2**40), (panels(), "b", 2**18)):
        monkeypatch.setattr("isotropy.figures.style.LARGEST_RASTER", largest)
        raster_sizes.clear()
        save(figure, tmp_path / f"{name}.pdf", "m")
        assert (len(raster_sizes) < 12) == (name == "b")
        save(figure, tmp_path / f"{name}.svg", "m")
        assert (tmp_path / f"{name}.svg").read_text().count("<image") == 12
    figure.set_layout_engine("none")
    with figure_style._merge_rasterized(figure, skip=False):
        figure.savefig(tmp_path / "b.png", dpi=200)
    figure.savefig(tmp_path / "a.png", dpi=200)
    merged, separate = (plt.imread(tmp_path / f"{name}.png") for name in "ab")
    assert merged.min() < 0.5
    assert np.abs(merged - separate).mean() < 0.01
    again = tmp_path / "again.pdf"
    save(panels(), again, "m")
    assert again.read_bytes() == (tmp_path / "b.pdf").read_bytes()
