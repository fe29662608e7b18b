"""Values of figures that readers can explore: the points that are drawn."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from replication.figures.draw import curve, look, panels
from replication.figures.interactive import MOST_POINTS, values_script


def views(figure: Figure) -> list[dict[str, Any]]:
    match = re.fullmatch(
        r'\(globalThis\.figureValues \?\?= \{\}\)\["p/f"\] = (.*);\n', values_script("p/f", figure)
    )
    assert match
    data: list[dict[str, Any]] = json.loads(match[1])
    return data


def drawn(table: pd.DataFrame) -> dict[str, Any]:
    """Values of a figure with one curve per seed."""
    figure = Figure()
    axes = figure.subplots()
    axes.set(xlabel="update", ylabel="score")
    curve(axes, table, "step", "score", "line", look(0))
    (view,) = views(figure)
    return view


def trajectories(n_steps: int, n_seeds: int) -> pd.DataFrame:
    steps, seeds = np.meshgrid(np.arange(n_steps), np.arange(n_seeds))
    score = np.random.default_rng(0).normal(size=steps.size)
    return pd.DataFrame({"step": steps.ravel(), "seed": seeds.ravel(), "score": score})


def test_few_points_are_all_there_with_four_digits() -> None:
    table = trajectories(5, 2)
    data = drawn(table)
    assert len(data["values"]["update"]) == 10
    seeds = np.array(data["levels"]["seed"]["places"])
    for seed, rows in table.groupby("seed"):
        shown = np.array(data["values"]["score"])[seeds == seed]
        np.testing.assert_allclose(shown, rows["score"], rtol=5e-4)


@pytest.mark.parametrize(("n_steps", "n_seeds"), [(1001, 5), (2000, 1), (2, 900), (1, 5000)])
def test_many_points_are_thinned_to_points_of_the_table(n_steps: int, n_seeds: int) -> None:
    """The first and the last point of each curve stay, and gaps grow; the note counts them."""
    table = trajectories(n_steps, n_seeds)
    data = drawn(table)
    seeds = data["levels"].get("seed", {"places": 0, "names": ["0"]})
    shown = pd.DataFrame(data["values"] | {"place": seeds["places"]})
    assert len(shown) <= MOST_POINTS
    assert f"{len(shown):,} of {len(table):,}" in data["note"]
    shown["seed"] = shown["place"].map(lambda place: int(seeds["names"][place]))
    shown = shown.rename(columns={"update": "step"})
    merged = shown.merge(table, on=["seed", "step"], suffixes=("", "_table"))
    assert len(merged) == len(shown)
    np.testing.assert_allclose(merged["score"], merged["score_table"], rtol=5e-4)
    if n_steps > 2:
        gaps = shown[shown["seed"] == 0]["step"].diff().dropna()
        assert (gaps.diff().dropna() >= -1).all()
        ends = shown.groupby("seed")["step"].agg(["min", "max"])
        assert (ends == [0, n_steps - 1]).all(axis=None)


def test_panels_are_told_apart_and_named_ticks_stay_names() -> None:
    """A chart per vertical label, a switch per panel, and the texts of the horizontal axis."""
    table = pd.DataFrame({"setup": ["a", "a", "b", "b"], "place": [0, 1, 0, 1]})
    table = table.assign(status="original", mean=[1.0, 2.0, 3.0, 4.0], low=0.5, high=5.0)
    figure, grid = panels(table, xlabel="tokens", ylabel="mean cosine")
    for axes, rows in grid:
        curve(axes, rows, "place", "mean", "$S_{inter}$", look(0), ("low", "high"))
        axes.set_xticks([0, 1], ["3", "all"])
    (view,) = views(figure)
    assert (view["x"], view["y"], view["names"]) == ("tokens", ["mean cosine"], ["3", "all"])
    assert view["levels"]["line"]["names"] == ["S_inter"]
    assert view["levels"]["setup"] == {"names": ["a", "b"], "places": [0, 1, 0, 1]}
    assert view["values"] == {"tokens": [0, 0, 1, 1], "mean cosine": [1, 3, 2, 4]}
    assert view["texts"] == {"from": ["0.5"] * 4, "to": ["5"] * 4}


def test_colours_are_those_of_the_figure() -> None:
    """None where one thing has several colours, or several things have one: they get others."""
    table = pd.DataFrame({"setup": "a", "place": [0, 1], "mean": [1.0, 2.0]})
    for places, shown in (((5, 2), True), ((3, 3), False)):
        figure = Figure()
        axes = figure.subplots()
        axes.set(xlabel="x", ylabel="y")
        for name, place in zip("ba", places, strict=True):
            curve(axes, table, "place", "mean", name, look(place))
        (view,) = views(figure)
        colours = [look(place).color.lower() for place in places] if shown else []
        assert view["levels"]["line"]["names"] == ["b", "a"]
        assert view["colours"] == colours
