"""Scores interpolated over windows of updates, compared with direct evaluation, and the certified
error bound, compared with the actual difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isotropy.errors import IsotropyError
from replication.optimize.descent import Items
from replication.optimize.optimize import optimize
from replication.optimize.spec import Evaluation
from tests.unit.factories import DIRECT
from tests.unit.factories import optimize_spec as spec
from tests.unit.test_optimize import CPU

RNG = np.random.default_rng(0)
SCORES = ["isoscore", "silhouette"]


def clouds() -> dict[str, tuple[Items, dict[str, object]]]:
    n = 240
    vectors = (RNG.standard_normal((n, 24)) / 5).astype(np.float32)
    single, pairs = np.arange(n)[:, None], RNG.integers(0, n, (300, 2))
    indicators = (RNG.random((n, 8)) < 0.25).astype(np.float32)
    many_labels = {"loss": "binary_cross_entropy", "bias": True}
    return {
        "two classes": (Items(vectors, single, RNG.integers(0, 2, n)), {}),
        "pairs, three classes": (Items(vectors, pairs, RNG.integers(0, 3, 300)), {"bias": True}),
        "many label vectors": (Items(vectors, single, indicators), many_labels),
        "fast": (Items(vectors, single, RNG.integers(0, 2, n)), {"learning_rate": 0.01}),
    }


CLOUDS = clouds()


def run(
    name: str, evaluation: Evaluation, updates: int, folder: Path
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return the scores of a trajectory of a cloud, and the facts about it."""
    items, changes = CLOUDS[name]
    n_labels = int(items.targets.max()) + 1 if items.targets.ndim == 1 else items.targets.shape[1]
    asked = spec(updates=updates, measure=evaluation, **changes)
    return optimize(asked, items, n_labels, CPU, folder)[:2]


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_windows_equal_direct_evaluation(name: str, tolerance: float, tmp_path: Path) -> None:
    """At every step of a run, the difference is below the certified bound, and the bound is below
    the tolerance."""
    measure = Evaluation(tolerance=tolerance, sample_size=None)
    windowed, facts = run(name, measure, 300, tmp_path / "w")
    direct, _ = run(name, DIRECT, 300, tmp_path / "d")
    difference = (windowed - direct)[SCORES].abs().to_numpy().max()
    assert facts["windows"] > 0
    assert facts["evaluations"] < 300
    assert difference <= facts["error_bound"] + 1e-7 <= tolerance + 1e-7
    assert facts["error_checked"] <= facts["error_bound"]


def test_unreachable_tolerance_falls_back_to_direct_evaluation(tmp_path: Path) -> None:
    """If no window meets the tolerance, each step is evaluated, with the same result as a direct
    run."""
    out_of_reach = Evaluation(tolerance=1e-15, sample_size=None)
    windowed, facts = run("two classes", out_of_reach, 40, tmp_path / "w")
    direct, _ = run("two classes", DIRECT, 40, tmp_path / "d")
    assert (facts["windows"], facts["error_bound"]) == (0, 0.0)
    assert facts["walked_again"] >= 1
    pd.testing.assert_frame_equal(windowed, direct, check_exact=True)


def test_error_names_a_sample_without_a_score(tmp_path: Path) -> None:
    """A sample without two items of a class has no silhouette."""
    with pytest.raises(IsotropyError, match="larger sample_size"):
        run("two classes", Evaluation(tolerance=None, sample_size=3), 50, tmp_path)
