"""Tables of fine-tuned models, on made runs whose directions are known."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from isotropy.finetune.spec import FinetuneFacts, Method, Probe
from isotropy.geometry.spec import PointCloud, StabilityFacts
from isotropy.papers.rudman2024 import tables
from isotropy.tables.answers import performance_draws
from isotropy.tables.items import has_learned

SCORE = {-5: 0.1, -1: 0.2, 0: 0.3, 2: 0.6}


def run(
    task: str, method: Method, seed: int, score: float, performance: float, **changes: object
) -> tuple[FinetuneFacts, pd.DataFrame]:
    facts = {
        "run": f"{task}--m--{method.name}",
        "task": task,
        "model": "m",
        "method": method,
        "seed": seed,
        "data": f"data of {task}",
        "embedding": "model",
        "status": "original",
        "metric": "accuracy",
        "performance": performance,
        "metrics": {"accuracy": performance, "matthews": 1.0},
        "chance": 50.0,
        "isoscore": score,
        "isoscore_star": score,
        "mean_cosine": 0.5,
        "zeta": 0.75,
        "n_train": 10,
        "n_validation": 600,
        "n_tokens": 60,
        "n_layers": 2,
        "updates": 5,
        "final_loss": 0.1,
        "probes": [],
        "activations": [0.5, -0.25],
    }
    layers = pd.DataFrame(
        {
            "layer": [1, 2],
            "isoscore": score,
            "sentence_mean_cosine": 0.5,
            "sentence_two_nn": [10 * score, 30 * score],
            "sentence_silhouette": -score,
        }
    )
    return FinetuneFacts.model_validate(facts | changes), layers


def study(
    tasks: tuple[str, ...] = ("a", "b"), seeds: int = 2
) -> list[tuple[FinetuneFacts, pd.DataFrame]]:
    """IsoScore* rises with lambda, performance falls with it, by 1 per seed; CosReg is one worse
    than no penalty."""
    runs = []
    for task in tasks:
        for seed in range(seeds):
            runs.append(run(task, Method(kind="none"), seed, SCORE[0], 80 + seed))
            runs.append(run(task, Method(kind="cosreg", strength=1.0), seed, 0.31, 79 + seed))
            for strength in (-5, -1, 2):
                method = Method(kind="istar", strength=float(strength), zeta=0.2)
                runs.append(run(task, method, seed, SCORE[strength], 80 + seed - strength))
    return runs


def test_directions_are_those_of_the_runs() -> None:
    found = tables.directions(tables.runs(study()))
    assert list(found["setup"]) == ["a--m", "a--m", "b--m", "b--m"]
    assert list(found["seed"]) == ["0", "1"] * 2
    row = found.iloc[0]
    assert row["n_lambdas"] == 4
    assert row["lambda_isoscore_rho"] == 1
    assert row["isoscore_star_change_positive"] == pytest.approx(0.3)
    assert row["isoscore_star_change_negative"] == pytest.approx(0.15 - 0.3)
    assert row["isoscore_performance_r"] == pytest.approx(
        np.corrcoef([0.1, 0.2, 0.3, 0.6], [85, 81, 80, 78])[0, 1]
    )
    assert row["isoscore_performance_rho"] == -1
    assert row["performance_change_negative"] == pytest.approx(3)
    assert row["performance_change_cosreg"] == -1
    assert (row["lambda_two_nn_rho"], row["isoscore_silhouette_rho"]) == (1, -1)


def test_directions_per_zeta_and_where_something_is_missing() -> None:
    """Each zeta with the same model without penalty; no silhouette of a regression, so no
    correlation with it."""
    runs = study(("a",), 1)
    other = [
        run("a", Method(kind="istar", strength=float(s), zeta=0.6), 0, SCORE[s], 80.0)
        for s in (-5, -1, 2)
    ]
    for _, layers in other:
        layers["sentence_silhouette"] = np.nan
    found = tables.directions(tables.runs(runs + other)).set_index("setup")
    assert list(found.index) == ["a--m, zeta 0.2", "a--m, zeta 0.6"]
    assert found.loc["a--m, zeta 0.6", "lambda_isoscore_rho"] == 1
    assert np.isnan(found.loc["a--m, zeta 0.6", "isoscore_silhouette_rho"])
    # Performance does not vary
    assert np.isnan(found.loc["a--m, zeta 0.6", "isoscore_performance_r"])
    assert found["n_lambdas"].tolist() == [4, 4]


def answered(runs: list[tuple[FinetuneFacts, pd.DataFrame]]) -> pd.DataFrame:
    """`averages` of runs, with answers of which as many are right as the performance says."""
    given = []
    for facts, _ in runs:
        right = np.arange(facts.n_validation) % 2
        wrong = np.arange(facts.n_validation) >= facts.performance * facts.n_validation / 100
        table = pd.DataFrame({"predicted": np.where(wrong, 1 - right, right), "label": right})
        given.append((facts, table.astype(np.float32)))
    return tables.averages(given, tables.runs(runs))


def test_averages_over_tasks_and_the_best_negative_lambda() -> None:
    runs = tables.runs(study())
    found = answered(study()).set_index("seed")
    names = ["istar", "istar_mean", "istar_best", "none", "cosreg", "n_tasks"]
    assert found.loc["0", names].tolist() == [85, 83, 85, 80, 79, 2]
    names = ["istar_minus_none", "istar_mean_minus_none", "istar_minus_cosreg", "none_minus_cosreg"]
    assert found.loc["1", names].tolist() == [5, 3, 6, 1]
    assert found["status"].tolist() == ["stand-in"] * 2  # two tasks of nine
    assert found["deviations"].iloc[0].startswith("without the tasks sst2, qnli")
    table1 = tables.table1(runs).set_index(["task", "method"])
    assert table1.loc[("b", "I-STAR"), ["strength", "zeta", "performance", "n_seeds"]].tolist() == [
        -5,
        0.2,
        85.5,
        2,
    ]
    assert table1.loc[("a", "none"), "performance_sd"] == pytest.approx(np.std([80, 81], ddof=1))
    other = [r for r in study() if r[0].method.kind != "istar" or r[0].method.strength > 0]
    alone = answered(other)
    assert alone[["istar", "istar_best", "istar_minus_none_items_error"]].isna().all(axis=None)
    assert alone["none_minus_cosreg_items_error"].notna().all()
    assert list(tables.table1(tables.runs(other))["method"]) == ["none", "CosReg"] * 2


def test_items_of_averages() -> None:
    """The standard error over items of a difference of two averages: of models that differ on 5 of
    100 items, in each of two tasks (McNemar's variance)."""
    error = answered(study())["istar_minus_none_items_error"].iloc[0]
    share = 0.05
    assert error == pytest.approx(100 * np.sqrt((share - share**2) / 600 / 2), rel=0.1)
    facts, _ = run("squad", Method(kind="none"), 0, 0.1, 50.0, metric="f1")
    nothing = [np.nan] * 3
    scores = pd.DataFrame({"predicted": nothing, "label": nothing, "f1": [50.0, np.nan, 100.0]})
    assert set(performance_draws(facts, scores)) == {50, 75, 100}


def test_what_chooses_lambda_is_not_what_is_reported() -> None:
    """Each of two lambdas is best on one seed by chance: on the other it is worse, and that is what
    counts."""
    runs = [run("a", Method(kind="none"), s, 0.3, 80.0) for s in (0, 1)]
    for strength, scores in ((-5.0, (90.0, 70.0)), (-1.0, (70.0, 90.0))):
        method = Method(kind="istar", strength=strength, zeta=0.2)
        runs += [run("a", method, s, 0.2, score) for s, score in enumerate(scores)]
    found = answered(runs)
    assert found["istar"].tolist() == [70, 70]
    assert found["istar_mean"].tolist() == [80, 80]
    alone = answered([r for r in runs if r[0].seed == 0])
    assert alone["istar"].isna().all()


def test_what_cosreg_and_shrinkage_change() -> None:
    """CosReg once per task and seed, whatever zetas there are; shrinkage where there is a run
    without it."""
    runs = study(("a",))
    without = [
        run("a", Method(kind="istar", strength=-5.0, zeta=0.0), s, 0.1, 78.0 + s) for s in (0, 1)
    ]
    table = tables.runs([*runs, *without])
    cosreg = tables.cosreg(table)
    assert cosreg[["setup", "seed"]].to_numpy().tolist() == [["a--m", "0"], ["a--m", "1"]]
    assert cosreg["mean_cosine_change"].tolist() == [0, 0]
    assert cosreg["isoscore_star_ratio"].tolist() == pytest.approx([0.31 / 0.3] * 2)
    assert set(cosreg["status"]) == {"original"}
    shrinkage = tables.shrinkage(table)
    # −5 and −1 have 85 and 81, one more with each seed
    assert shrinkage["performance_gain"].tolist() == [5, 5]
    assert shrinkage["setup"].tolist() == ["a--m, zeta 0.2"] * 2
    assert shrinkage["learned"].all()
    nothing = tables.shrinkage(tables.runs(runs))
    assert nothing.empty
    assert {"status", "learned", "performance_gain"} <= set(nothing.columns)


def test_steps_along_lambda() -> None:
    found = tables.steps(tables.runs(study(("a",))))
    assert found["step"].tolist() == ["λ −5 to −1", "λ −1 to 0", "λ 0 to 2"] * 2
    changes = np.diff([SCORE[s] for s in (-5, -1, 0, 2)])
    assert found["isoscore_star_change"].tolist() == pytest.approx([*changes, *changes])
    assert found["seed"].tolist() == ["0"] * 3 + ["1"] * 3


def test_learning_is_more_than_luck() -> None:
    """52 of 100 against a majority of 50 is no sign of it; 52 % of 10,000 is."""
    few, many = np.array([52.0, 52.5, 51.5]), np.array([52.0, 52.2, 51.8])
    assert not has_learned(few, 50.0, 100, "accuracy")
    assert has_learned(many, 50.0, 10_000, "accuracy")
    assert not has_learned(np.array([90.0, 20.0, 70.0]), 50.0, 10_000, "accuracy")
    assert has_learned(np.array([40.0]), 0.0, 200, "matthews")
    assert not has_learned(np.array([10.0]), 0.0, 200, "matthews")


def test_one_stand_in_makes_the_average_a_stand_in() -> None:
    runs = study()
    runs[0] = run("a", Method(kind="none"), 0, 0.3, 80.0, status="stand-in")
    assert (answered(runs)["status"] == "stand-in").all()
    assert tables.table1(tables.runs(runs))["status"].tolist().count("stand-in") == 1


def test_without_shrinkage_is_an_ablation_and_what_was_not_learned_does_not_count() -> None:
    """zeta = 0 is in no average; a task on which no penalty is below the most frequent class has no
    performance to compare."""
    runs = study()
    ablation = run("a", Method(kind="istar", strength=-5.0, zeta=0.0), 0, 0.1, 99.0)
    noise = [
        run("c", r.method, r.seed, r.isoscore_star, 40.0 + r.seed) for r, _ in runs if r.task == "a"
    ]
    table = tables.runs([*runs, ablation, *noise])
    found = answered([*runs, ablation, *noise]).set_index("seed")
    names = ["istar_mean", "istar_best", "n_tasks", "not_learned"]
    assert found.loc["0", names].tolist() == [83, 85, 2, "c"]
    assert tables.table1(table).query("task == 'a' and method == 'I-STAR'")["zeta"].tolist() == [
        0.2
    ]
    directions = tables.directions(tables.runs([*runs, *noise])).set_index(["setup", "seed"])
    assert directions.loc[("c--m", "0"), "lambda_isoscore_rho"] == 1
    assert (
        directions.loc["c--m"][["isoscore_performance_r", "performance_change_negative"]]
        .isna()
        .all(axis=None)
    )
    assert directions["learned"].tolist() == [True] * 4 + [False] * 2
    nothing = answered(noise)
    assert nothing[["istar", "none", "istar_minus_none"]].isna().all(axis=None)
    assert nothing["n_tasks"].tolist() == [0, 0]


def test_what_figures_show() -> None:
    """Means per dimension; at most 1,000 points."""
    shown = tables.activations(study())
    assert shown.groupby(["setup", "method"])["activation"].apply(list).iloc[0][:2] == [0.5, -0.25]
    assert "I-STAR, λ = −5, ζ = 0.2" in set(shown["method"])
    items = pd.DataFrame({"label": 0.0, "predicted": 0.0, "x": np.arange(2500.0), "y": 0.0})
    points = tables.points([(facts, items) for facts, _ in study(("a",), 1)])
    assert points.groupby("method").size().max() <= 1000
    assert points["x"].max() > 2490


def test_post_processing() -> None:
    probes = [
        Probe(method=m, performance=p, n_train=9, n_components=c)
        for m, p, c in (("none", 70.0, 0), ("abtt", 72.5, 4))
    ]
    runs = [run("a", Method(kind="none"), 0, 0.3, 80.0, probes=probes), *study(("a",), 1)]
    row = tables.post_processing(runs).iloc[0]
    assert row[["head", "linear", "linear_after_abtt", "change", "n_components"]].tolist() == [
        80,
        70,
        72.5,
        2.5,
        4,
    ]
    assert len(tables.post_processing(runs)) == 1
    assert "linear_after_abtt" in tables.post_processing(study()).columns


def test_stability_of_batches() -> None:
    """Per zeta; differences from IsoScore are none at zeta = 0, and without more points than
    dimensions."""
    rows = pd.DataFrame(
        [
            {"n": n, "repeat": r, "zeta": z, "isoscore_star": s}
            for r in (0, 1)
            for n, scores in ((5, (0.0178, 0.0282, 0.05)), (100, (0.75, 0.78, 0.79)))
            for z, s in zip((0.0, 0.2, 0.8), scores, strict=True)
        ]
    )
    facts = StabilityFacts(
        name="normal",
        cloud=PointCloud(kind="normal", d=20, isoscore=0.8),
        data="drawn",
        embedding="",
        status="original",
        d=20,
        isoscore=0.8,
        shrinkage_points=50,
    )
    table = tables.stability(
        [(facts, rows), (facts.model_copy(update={"name": "wide", "d": 200}), rows)]
    )
    found = tables.stability_of_batches(table).set_index(["setup", "seed"])
    row = found.loc[("normal, zeta 0.2", "1")]
    assert row[["score", "n", "n_small", "n_large"]].tolist() == ["IsoScore*", 100, 5, 100]
    assert row["relative_error"] == pytest.approx(1 - 0.78 / 0.8)
    differences = row[["difference_small", "difference_large", "difference_falls"]]
    # A share: of few points both scores are near 0.
    small = 0.0282 / 0.0178 - 1
    assert differences.tolist() == pytest.approx([small, 0.04, small - 0.04])
    plain = found.loc[("normal, zeta 0", "0")]
    assert plain["score"] == "IsoScore"
    assert plain["relative_error"] == pytest.approx(1 - 0.75 / 0.8)
    assert np.isnan(plain["difference_falls"])
    assert found.loc["wide, zeta 0.8"]["difference_falls"].isna().all()
