"""Figures: reproducible files, and texts that state status, seeds, scale and methods."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from replication.figures.draw import (
    Look,
    curve,
    finish,
    footnote,
    forbid_verdict,
    look,
    note,
    whiskers,
)
from replication.figures.names import name_lines
from replication.figures.style import save, use_style
from replication.papers.locations import OF_ALL, package
from replication.papers.mickus2024 import figures as mickus2024
from replication.provenance.identity import MARK
from replication.provenance.record import read_record
from replication.tables.write import format_cell, write_markdown
from tests.conftest import Workflow
from tests.unit.entries import FIGURES, TABLES
from tests.unit.test_figure_rules import assert_rules

KINDS = ("svg", "pdf", "png")
"""Formats in another order than that in which a job writes them."""
RASTERIZED = "rajaee2021/words"


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
    the rules for all figures. Cards, and one figure with rasterized points, are compared in all
    formats, the others in vector formats."""
    use_style()
    entry = FIGURES[name]
    module = import_module(f"{package(name.split('/')[0])}.figures")
    figure = getattr(module, entry.function)(*(tables[t] for t in entry.tables))
    finish(figure)
    mark = MARK + read_record(smoke.folder / f"results/figures/{name}.record.json").id
    for kind in KINDS if name == RASTERIZED else KINDS[:2]:
        save(figure, tmp_path / f"f.{kind}", mark)
        written = smoke.folder / f"results/figures/{name}.{kind}"
        assert (tmp_path / f"f.{kind}").read_bytes() == written.read_bytes()
    figure.supxlabel("")  # the note of a PDF
    assert_rules(name, figure)
    plt.close(figure)


def test_file_does_not_depend_on_what_was_saved_before(tmp_path: Path) -> None:
    """The note of a PDF makes its panels smaller, and only its panels."""
    use_style()
    figure = Figure(figsize=(4, 2))
    for axes in figure.subplots(1, 2):
        axes.plot([0, 1.23456], [-1e5, 1e5], label="a line")
        name_lines(axes, axes.lines)
    footnote(figure, "A note of several lines. " * 20)
    figure.suptitle("What is seen")
    finish(figure)
    paths = [tmp_path / name for name in ("1.svg", "2.pdf", "3.svg", "4.png", "5.pdf", "6.png")]
    for path in paths:
        save(figure, path, MARK)
    svg, pdf, again, png, pdf_again, png_again = (path.read_bytes() for path in paths)
    assert (svg, pdf, png) == (again, pdf_again, png_again)


def test_lines_differ_in_colour_or_marker() -> None:
    assert len({look(i) for i in range(49)}) == 49


def test_lines_and_intervals_are_those_of_the_table() -> None:
    """The mean ± sd of rows with the same x (seeds), or the interval that the table has."""
    use_style()
    draws = np.random.default_rng(0)
    rows = pd.DataFrame({"layer": np.repeat([0, 1, 6], 4), "score": draws.normal(size=12)})
    scores = rows.groupby("layer")["score"]
    mean, sd = scores.mean(), scores.std(ddof=1)
    for band in (False, True):
        axes = Figure().subplots()
        curve(axes, rows, "layer", "score", "model", Look("#0072B2", "o"), band=band)
        line = axes.get_lines()[0]
        assert line.get_label() == "model"
        assert np.allclose(line.get_xydata(), np.c_[[0, 1, 6], mean])
        drawn = axes.collections[0]
        ends = drawn.get_paths()[0].vertices if band else np.concatenate(drawn.get_segments())
        assert np.allclose(ends[:, 1].min(), (mean - sd).min())
        assert np.allclose(ends[:, 1].max(), (mean + sd).max())
    one = mean.reset_index().assign(low=[-3.0, np.nan, -1.0], high=[3.0, 2.0, 5.0])
    axes = Figure().subplots()
    curve(axes, one, "layer", "score", "model", Look("#0072B2"), ("low", "high"))
    (bars,) = axes.collections
    segments = [segment.tolist() for segment in bars.get_segments()]
    assert np.allclose(segments, [[[0, -3], [0, 3]], [[6, -1], [6, 5]]])  # none without an end
    axes = Figure().subplots()
    whiskers(axes, one, ("score", "layer"), ("low", "high"), horizontal=True)
    (bars,) = axes.collections
    assert np.allclose(bars.get_segments()[1], [[-1, 6], [5, 6]])


def test_figure_of_short_training_says_that_there_is_no_verdict() -> None:
    figure = Figure()
    figure.suptitle("What is seen")
    forbid_verdict(figure, too_short=False)
    assert figure.get_suptitle() == "What is seen"
    forbid_verdict(figure, too_short=True)
    assert figure.get_suptitle().startswith("Training too short: no verdict on performance. What")


def test_figure1_has_exact_numbers() -> None:
    """Its numbers are defect and IsoScore of the drawn variances by definition."""
    shown = texts(mickus2024.chord_and_angle())
    variances = np.sqrt(2) * np.array([np.cos(np.deg2rad(27)), np.sin(np.deg2rad(27))])
    defect = np.linalg.norm(variances - 1) / np.sqrt(2 * (2 - np.sqrt(2)))
    score = variances.sum() ** 2 / (variances**2).sum() - 1
    assert f"δ = {defect:.2f}, IsoScore = {score:.2f}" in shown
    assert "no data" in shown


def test_markdown_tables_are_formatted_and_escaped(tmp_path: Path) -> None:
    cells = [format_cell(v) for v in (1234567, 0.123456, np.nan, True, "a|b")]
    assert cells == ["1,234,567", "0.1235", "", "yes", "a|b"]
    write_markdown(tmp_path / "t.md", pd.DataFrame({"a": ["x|y"]}), "isotropy-record:0")
    expected = "| a |\n| --- |\n| x\\|y |\n\n<!-- isotropy-record:0 -->\n"
    assert (tmp_path / "t.md").read_text() == expected
