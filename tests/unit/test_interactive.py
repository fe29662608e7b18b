"""Values of interactive figures, and the library that draws them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from replication.figures.interactive import MOST_POINTS, values_script
from replication.figures.spec import FigureSpec, Interactive

REPORT = Path(__file__).parents[2] / "replication/report"


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


def test_texts_on_the_x_axis_stand_in_the_order_of_the_table() -> None:
    table = pd.DataFrame({"step": ["3", "10", "all"] * 2, "seed": [0] * 3 + [1] * 3})
    data = script_data(table.assign(score=range(6)))
    assert data["names"] == ["3", "10", "all"]
    pairs = sorted(zip(data["values"]["step"], data["values"]["score"], strict=True))
    assert pairs == [(0, 0), (0, 3), (1, 1), (1, 4), (2, 2), (2, 5)]
