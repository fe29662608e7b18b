"""Values of interactive figures, and the library that draws them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isotropy.figures.interactive import MOST_POINTS, values_script
from isotropy.figures.spec import FigureSpec, Interactive
from isotropy.papers.registry import papers
from isotropy.report.explore import explore_script

REPORT = Path(__file__).parents[2] / "isotropy/report"
UPLOT = "uplot@1.6.32"


def script_data(*tables: pd.DataFrame, **fields: Any) -> dict[str, Any]:
    (data,) = scripts_data(tables, fields)
    return data


def scripts_data(tables: Sequence[pd.DataFrame], *views: dict[str, Any]) -> list[dict[str, Any]]:
    """Values of a figure with several views."""
    figure = FigureSpec(
        id="p/f",
        function="f",
        tables=["t"] * len(tables),
        title="Scores",
        interactive=[
            Interactive(**{"x": "step", "y": ["score"], "by": ["seed"]} | view) for view in views
        ],
        section="1",
        caption="What.",
    )
    text = values_script(figure, list(tables))
    match = re.fullmatch(r'\(globalThis\.figureValues \?\?= \{\}\)\["p/f"\] = (.*);\n', text)
    assert match
    data: list[dict[str, Any]] = json.loads(match[1])
    return data


def trajectories(n_steps: int, n_seeds: int) -> pd.DataFrame:
    steps, seeds = np.meshgrid(np.arange(n_steps), np.arange(n_seeds))
    score = np.random.default_rng(0).normal(size=steps.size)
    return pd.DataFrame({"step": steps.ravel(), "seed": seeds.ravel(), "score": score})


def test_few_points_are_all_there_with_four_digits() -> None:
    table = trajectories(5, 2)
    data = script_data(table)
    assert len(data["values"]["step"]) == 10
    seeds = np.array(data["levels"]["seed"]["places"])
    for seed, rows in table.groupby("seed"):
        shown = np.array(data["values"]["score"])[seeds == seed]
        np.testing.assert_allclose(shown, rows["score"], rtol=5e-4)


@pytest.mark.parametrize(("n_steps", "n_seeds"), [(1001, 5), (2000, 1), (2, 900), (1, 5000)])
def test_many_points_are_thinned_to_points_of_the_table(n_steps: int, n_seeds: int) -> None:
    """The first and the last point of each curve stay, and gaps grow; the note counts them."""
    table = trajectories(n_steps, n_seeds)
    data = script_data(table)
    shown = pd.DataFrame(data["values"] | {"place": data["levels"]["seed"]["places"]})
    assert len(shown) <= MOST_POINTS
    assert f"{len(shown):,} of {len(table):,}" in data["note"]
    shown["seed"] = shown["place"].map(lambda place: int(data["levels"]["seed"]["names"][place]))
    merged = shown.merge(table, on=["seed", "step"], suffixes=("", "_table"))
    assert len(merged) == len(shown)
    np.testing.assert_allclose(merged["score"], merged["score_table"], rtol=5e-4)
    if n_steps > 2:
        gaps = shown[shown["seed"] == 0]["step"].diff().dropna()
        assert gaps.is_monotonic_increasing or (gaps.diff().dropna() >= -1).all()
        assert (shown.groupby("seed")["step"].agg(["min", "max"]) == [0, n_steps - 1]).all(
            axis=None
        )


def test_columns_together_are_curves_and_missing_values_have_a_name() -> None:
    table = pd.DataFrame(
        {"layer": [0, 1], "a": [0.5, np.nan], "b": [-1.0, 2.0], "strength": [np.nan, -3.0]}
    )
    data = script_data(table, x="layer", y=["a", "b"], by=["strength"], together="cosine")
    assert data["levels"]["curve"] == {"names": ["a", "b"], "places": [0, 1, 1]}
    assert data["levels"]["strength"] == {"names": ["−3", "none"], "places": [1, 1, 0]}
    assert data["values"]["value"] == [0.5, -1.0, 2.0]
    assert data["labels"]["value"] == "cosine"


def test_rows_and_the_order_of_switches_follow_the_declaration() -> None:
    table = trajectories(3, 1).assign(kind=["x", "y", "z"])
    data = script_data(table, by=["kind"], where={"kind": ["z", "x"]}, show=["seed"])
    assert data["levels"]["kind"] == {"names": ["z", "x"], "places": [1, 0]}
    assert data["texts"]["seed"] == ["0", "0"]


def test_views_of_a_figure_share_its_points_and_have_titles() -> None:
    views = {"title": "by step"}, {"title": "by score", "x": "score", "y": ["step"]}
    by_step, by_score = scripts_data([trajectories(1000, 2)], *views)
    assert (by_step["title"], by_score["title"]) == ("by step", "by score")
    n_points = len(by_step["values"]["step"]) + len(by_score["values"]["step"])
    assert MOST_POINTS // 2 < n_points <= MOST_POINTS


def test_texts_on_the_x_axis_stand_in_the_order_of_the_table() -> None:
    table = pd.DataFrame({"step": ["3", "10", "all"] * 2, "seed": [0] * 3 + [1] * 3})
    data = script_data(table.assign(score=range(6)))
    assert data["names"] == ["3", "10", "all"]
    pairs = sorted(zip(data["values"]["step"], data["values"]["score"], strict=True))
    assert pairs == [(0, 0), (0, 3), (1, 1), (1, 4), (2, 2), (2, 5)]


def test_rows_of_another_table_are_curves_with_a_name_that_can_be_switched() -> None:
    """They come after those of the first table, with its columns."""
    ours = pd.DataFrame({"step": [0, 1], "kind": "a", "setup": "mine", "score": [0.1, 0.2]})
    theirs = pd.DataFrame({"step": [0, 1, 1], "model": ["m", "m", "n"], "score": [0.3, 0.4, 0.5]})
    beside = {
        "table": 1,
        "where": {"model": ["m"]},
        "texts": {"kind": "published", "setup": "{model}, published"},
    }
    by = ["kind", "setup"]
    data = script_data(ours, theirs, by=by, where={"kind": ["a"]}, beside=beside)
    assert data["levels"]["kind"]["names"] == ["a", "published"]
    assert data["levels"]["setup"]["names"] == ["mine", "m, published"]
    published = [place == 1 for place in data["levels"]["kind"]["places"]]
    scores = zip(published, data["values"]["score"], strict=True)
    assert sorted(score for of_paper, score in scores if of_paper) == [0.3, 0.4]


def test_each_declaration_names_tables_of_its_figure() -> None:
    figures = [figure for paper in papers() for figure in paper.figures if figure.interactive]
    assert {figure.id.split("/")[0] for figure in figures} == {paper.key for paper in papers()}
    for figure in figures:
        for twin in figure.interactive:
            tables = [twin.table] + ([twin.beside.table] if twin.beside else [])
            assert set(tables) <= set(range(len(figure.tables)))
            assert twin.together is None or len(twin.y) > 1
            assert bool(twin.title) == (len(figure.interactive) > 1)


@pytest.mark.study
def test_the_library_is_that_of_npm(tmp_path: Path) -> None:
    """Byte for byte, with its licence."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("uPlot is compared with npm's package, and npm is not installed")
    done = subprocess.run(
        [npm, "pack", "--silent", UPLOT], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    if done.returncode != 0:
        pytest.skip(f"npm cannot get {UPLOT} here")
    with tarfile.open(next(tmp_path.glob("*.tgz"))) as archive:
        archive.extractall(tmp_path, filter="data")
    package = tmp_path / "package"
    for suffix, name in (("js", "uPlot.iife.min.js"), ("css", "uPlot.min.css")):
        shipped = REPORT / f"explore.uPlot.{suffix}"
        assert shipped.read_bytes() == (package / "dist" / name).read_bytes()
    script = explore_script()
    assert (package / "LICENSE").read_text("utf8").strip() in script
    assert (package / "dist/uPlot.iife.min.js").read_text("utf8") in script
