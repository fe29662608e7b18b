"""Scores interpolated over windows of updates, compared with direct evaluation, and the certified
error bound, compared with the actual difference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from isotropy.errors import IsotropyError
from replication.optimize.descent import Items
from replication.optimize.optimize import optimize
from replication.optimize.spec import NODES, Evaluation
from replication.optimize.windows import MIN_WIDTH, interpolation_weights, place_nodes
from tests.unit.factories import DIRECT
from tests.unit.factories import optimize_spec as spec
from tests.unit.test_optimize import CPU

RNG = np.random.default_rng(0)
SCORES = ["isoscore", "silhouette"]


@pytest.mark.parametrize("width", [MIN_WIDTH, 17, 40, 200, 997])
def test_interpolation_nodes_and_weights_reproduce_polynomials(width: int) -> None:
    """Nodes are distinct and include both ends; weights reproduce polynomials of the nodes' degree,
    and give their two highest coefficients."""
    nodes, steps = place_nodes(width), np.arange(width + 1)
    assert len(set(nodes)) == NODES
    assert (nodes[0], nodes[-1]) == (0, width)
    weights, tails = interpolation_weights(nodes, steps)
    rng = np.random.default_rng(width)
    coefficients = rng.standard_normal(NODES)
    polynomial = np.polynomial.chebyshev.Chebyshev(coefficients, domain=[0, width])
    assert np.allclose(weights @ polynomial(nodes), polynomial(steps), atol=1e-10)
    assert np.allclose(tails @ polynomial(nodes), coefficients[-2:], atol=1e-10)
    assert np.allclose(weights.sum(axis=1), 1)


def clouds() -> dict[str, tuple[Items, dict[str, object]]]:
    n = 240
    vectors = (RNG.standard_normal((n, 24)) / 5).astype(np.float32)
    single, pairs = np.arange(n)[:, None], RNG.integers(0, n, (300, 2))
    indicators = (RNG.random((n, 8)) < 0.25).astype(np.float32)
    return {
        "two classes": (Items(vectors, single, RNG.integers(0, 2, n)), {}),
        "pairs, three classes": (Items(vectors, pairs, RNG.integers(0, 3, 300)), {"bias": True}),
        "many label vectors": (
            Items(vectors, single, indicators),
            {"loss": "binary_cross_entropy", "bias": True},
        ),
        "fast": (Items(vectors, single, RNG.integers(0, 2, n)), {"learning_rate": 0.01}),
    }


CLOUDS = clouds()


@pytest.mark.parametrize("name", CLOUDS)
@pytest.mark.parametrize("tolerance", [1e-3, 1e-5])
def test_windows_equal_direct_evaluation(name: str, tolerance: float, tmp_path: Path) -> None:
    """At every step of a run, the difference is below the certified bound, and the bound is below
    the tolerance."""
    items, changes = CLOUDS[name]
    n_labels = int(items.targets.max()) + 1 if items.targets.ndim == 1 else items.targets.shape[1]
    measure = Evaluation(tolerance=tolerance, sample_size=None)
    windowed, facts, _ = optimize(
        spec(updates=300, measure=measure, **changes), items, n_labels, CPU, tmp_path / "w"
    )
    direct, _, _ = optimize(
        spec(updates=300, measure=DIRECT, **changes), items, n_labels, CPU, tmp_path / "d"
    )
    difference = (windowed - direct)[SCORES].abs().to_numpy().max()
    assert facts["windows"] > 0
    assert facts["evaluations"] < 300
    assert difference <= facts["error_bound"] + 1e-7 <= tolerance + 1e-7
    assert facts["error_checked"] <= facts["error_bound"]


def test_unreachable_tolerance_falls_back_to_direct_evaluation(tmp_path: Path) -> None:
    """If no window meets the tolerance, each step is evaluated, with the same result as a direct
    run."""
    items, changes = CLOUDS["two classes"]
    out_of_reach = Evaluation(tolerance=1e-15, sample_size=None)
    windowed, facts, _ = optimize(
        spec(updates=40, measure=out_of_reach, **changes), items, 2, CPU, tmp_path / "w"
    )
    direct, _, _ = optimize(
        spec(updates=40, measure=DIRECT, **changes), items, 2, CPU, tmp_path / "d"
    )
    assert (facts["windows"], facts["error_bound"]) == (0, 0.0)
    assert facts["walked_again"] >= 1
    pd.testing.assert_frame_equal(windowed, direct, check_exact=True)


def test_error_names_a_sample_without_a_score(tmp_path: Path) -> None:
    """A sample without two items of a class has no silhouette; the error says what to change."""
    items, changes = CLOUDS["two classes"]
    with pytest.raises(IsotropyError, match=r"items drawn at step .* choose a larger sample_size"):
        optimize(
            spec(updates=50, measure=Evaluation(tolerance=None, sample_size=3), **changes),
            items,
            2,
            CPU,
            tmp_path,
        )
