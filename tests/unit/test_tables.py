"""Tables of Mickus et al. 2024 from synthetic trajectories, against NumPy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from replication.optimize.spec import Objectives, TrajectoryFacts
from replication.papers.mickus2024 import tables


def run(
    setup: str, seed: int, sign: float = -1, **changes: object
) -> tuple[TrajectoryFacts, pd.DataFrame]:
    """Return a trajectory whose scores move together (sign 1) or in opposite directions (-1)."""
    rng = np.random.default_rng(seed)
    isoscore = np.linspace(0.5, 0.1, 6) + rng.random(6) / 100
    frame = pd.DataFrame({"step": np.arange(6), "loss": 1.0, "accuracy": 1.0, "isoscore": isoscore})
    frame["silhouette"] = sign * isoscore + rng.random(6) / 100
    facts: dict[str, object] = {"setup": setup, "base": setup, "variant": None, "seed": seed}
    facts |= {"dataset": "polarity", "model": "all-MiniLM-L6-v2", "status": "original"}
    facts |= dict.fromkeys(("data", "embedding", "evaluation", "loss"), "")
    facts |= dict.fromkeys(("n_items", "n_vectors", "dim", "n_labels", "n_classes"), 2)
    facts |= {"n_params": 7, "error_bound": 0.0, "bias": False, "learning_rate": 0.001}
    sampled = {"sample_triplet": 1.0, "sample_hinged": -1.0}
    facts["objectives"] = [
        Objectives(step=i, silhouette=2.0, triplet=3.0, **sampled) for i in (0, 5)
    ]
    return TrajectoryFacts.model_validate(facts | changes), frame


@pytest.fixture
def published(project: Path) -> pd.DataFrame:
    return pd.read_csv(project / "replication/papers/mickus2024/published.csv")


def test_correlations_over_seeds(published: pd.DataFrame) -> None:
    """Mean and sd over seeds, with and without step 0; only the paper's own model has published
    values."""
    runs = [run("mine", 0), run("mine", 1)]
    table = tables.correlations(tables.trajectories(runs), published).set_index("seed")
    expected = [np.corrcoef(f["isoscore"], f["silhouette"])[0, 1] for _, f in runs]
    assert list(table.loc[["0", "1"], "pearson_r"]) == pytest.approx(expected)
    assert table.loc["mean", "pearson_r"] == pytest.approx(np.mean(expected))
    assert table.loc["sd", "pearson_r"] == pytest.approx(np.std(expected, ddof=1))
    without = [np.corrcoef(f["isoscore"][1:], f["silhouette"][1:])[0, 1] for _, f in runs]
    assert table.loc["mean", "pearson_r_without_step_0"] == pytest.approx(np.mean(without))
    first = runs[0][1]["isoscore"]
    assert table.loc["0", "isoscore_change"] == first.iloc[-1] - first.iloc[0]
    printed = table.loc["mean", ["published_pearson_r", "published_spearman_below"]]
    assert printed.tolist() == [-0.808, -0.998]
    other = [(r.model_copy(update={"model": "mine"}), f) for r, f in runs]
    again = tables.correlations(tables.trajectories(other), published).set_index("seed")
    assert np.isnan(again.loc["mean", "published_pearson_r"])
    table1 = tables.table1(runs, published)
    assert table1.loc[0, ["n_params", "published_n_params"]].tolist() == [7, 4094976]


def test_spread_over_seeds() -> None:
    runs = [run("mine", seed) for seed in range(3)]
    table = tables.seeds(tables.trajectories(runs)).loc[0]
    sd = np.std([f["isoscore"] for _, f in runs], axis=0, ddof=1)
    assert table["isoscore_sd_max"] == pytest.approx(sd.max())
    assert table["isoscore_sd_mean"] == pytest.approx(sd.mean())
    assert table["n_seeds"] == 3


def test_glue_tables_have_every_cell_of_the_paper(published: pd.DataFrame) -> None:
    """24 cells of the paper, of which one was run and the others have a reason, and a run that the
    paper does not have."""
    runs = [run("a", 0, dataset="cola"), run("b", 0, dataset="cola", model="mine")]
    table2 = tables.table2(runs, published).set_index(["task", "encoder"])
    assert len(table2) == 25
    assert table2.loc[("cola", "miniLM"), "n_params"] == 7
    assert table2.loc[("qqp", "roberta"), "published_n_params"] == 379298306
    assert pd.isna(table2.loc[("qqp", "roberta"), "n_params"])
    correlations = tables.correlations(tables.trajectories(runs), published)
    table3 = tables.table3(correlations, published).set_index(["task", "encoder"])
    assert len(table3) == 25
    assert table3.loc[("cola", "miniLM"), "pearson_r"] < -0.9
    assert table3.loc[("cola", "miniLM"), "n_seeds"] == 1
    assert "not attempted" in table3.loc[("cola", "mpnet"), "status"]
    assert table3.loc[("cola", "mine"), "n_seeds"] == 1


def test_sensitivity_marks_variants_that_change_the_trend(published: pd.DataFrame) -> None:
    """Variants are compared with the same seeds of their setup; one in which both scores fall
    changes the trend."""
    main = tables.trajectories([run("mine", 0), run("mine", 1)])
    slow = run("mine--slow", 0, base="mine", variant="slow")
    fast = run("mine--fast", 0, sign=1, base="mine", variant="fast")
    table = tables.sensitivity(main, tables.trajectories([slow, fast]), published)
    assert list(table["variant"]) == ["as configured", "without step 0", "slow", "fast"]
    assert list(table["trend"]) == ["holds", "holds", "holds", "does not hold"]
    assert list(table["changes_the_trend"]) == [False, False, False, True]
    assert table["n_seeds"][0] == 1


def test_appendix_b_compares_objectives_before_and_after() -> None:
    table = tables.appendix_b([run("mine", 0)])
    assert list(table["when"]) == ["before", "after"]
    assert table.loc[0, ["above_equation_1", "above_triplet_objective"]].tolist() == [1.0, 2.0]
