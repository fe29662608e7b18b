"""Tables of fine-tuned models, from synthetic runs with known effects."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replication.claims.estimate import mean_over_items
from replication.finetune.spec import FinetuneFacts, Method, Probe
from replication.geometry.spec import StabilityCloud, StabilityFacts
from replication.papers.rudman2024 import tables
from replication.papers.rudman2024.protocol import LAMBDAS
from replication.tables.bootstrap import performance_draws
from replication.tables.items import has_learned, interval
from tests.unit.factories import finetune_facts

SCORE = {-5: 0.1, -1: 0.2, 0: 0.3, 2: 0.6}


def run(
    task: str, method: Method, seed: int, score: float, performance: float, **changes: object
) -> tuple[FinetuneFacts, pd.DataFrame]:
    facts: dict[str, object] = {"run": f"{task}--m--{method.name}", "task": task, "method": method}
    facts |= {"seed": seed, "data": f"data of {task}", "performance": performance}
    facts |= {"metrics": {"accuracy": performance, "matthews": 1.0}, "n_validation": 200}
    facts |= {"isoscore": score, "isoscore_star": score, "activations": [0.5, -0.25]}
    layers = {"layer": [1, 2], "isoscore": score, "sentence_mean_cosine": 0.5}
    layers |= {"sentence_two_nn": [10 * score, 30 * score], "sentence_silhouette": -score}
    return finetune_facts(**(facts | changes)), pd.DataFrame(layers)


def istar(strength: float, zeta: float = 0.2) -> Method:
    return Method(kind="istar", strength=strength, zeta=zeta)


def study(
    tasks: tuple[str, ...] = ("a", "b"), seeds: int = 2
) -> list[tuple[FinetuneFacts, pd.DataFrame]]:
    """Synthetic runs: IsoScore* rises with lambda, performance falls; each seed adds 1; CosReg is 1
    below no penalty."""
    runs = []
    for task in tasks:
        for seed in range(seeds):
            runs.append(run(task, Method(kind="none"), seed, SCORE[0], 80 + seed))
            runs.append(run(task, Method(kind="cosreg", strength=1.0), seed, 0.31, 79 + seed))
            for strength in (-5, -1, 2):
                performance = 80 + seed - strength
                runs.append(run(task, istar(strength), seed, SCORE[strength], performance))
    return runs


def test_directions_describe_the_effects_of_lambda() -> None:
    result = tables.directions(tables.runs(study()))
    assert list(result["setup"]) == ["a--m", "a--m", "b--m", "b--m"]
    assert list(result["seed"]) == ["0", "1"] * 2
    expected = {
        "n_lambdas": 4,
        "lambda_isoscore_rho": 1,
        "isoscore_star_change_positive": 0.3,
        "isoscore_star_change_negative": 0.15 - 0.3,
        "isoscore_performance_r": np.corrcoef([0.1, 0.2, 0.3, 0.6], [85, 81, 80, 78])[0, 1],
        "isoscore_performance_rho": -1,
        "performance_change_negative": 3,
        "performance_change_cosreg": -1,
        "lambda_two_nn_rho": 1,
        "isoscore_silhouette_rho": -1,
    }
    assert result.iloc[0][list(expected)].to_dict() == pytest.approx(expected)


def test_directions_per_zeta_and_with_missing_values() -> None:
    """Each zeta is compared with the same model without penalty; a regression has no silhouette, so
    no correlation with it."""
    runs = study(("a",), 1)
    other = [run("a", istar(s, 0.6), 0, SCORE[s], 80.0) for s in (-5, -1, 2)]
    for _, layers in other:
        layers["sentence_silhouette"] = np.nan
    result = tables.directions(tables.runs(runs + other)).set_index("setup")
    assert list(result.index) == ["a--m, zeta 0.2", "a--m, zeta 0.6"]
    row = result.iloc[1]
    assert row["lambda_isoscore_rho"] == 1
    assert np.isnan(row["isoscore_silhouette_rho"])
    assert np.isnan(row["isoscore_performance_r"])  # performance does not vary
    assert result["n_lambdas"].tolist() == [4, 4]


def averages_with_answers(runs: list[tuple[FinetuneFacts, pd.DataFrame]]) -> pd.DataFrame:
    """Compute `averages` of runs, with answers whose accuracy is the run's performance."""
    given = []
    for facts, _ in runs:
        right = np.arange(facts.n_validation) % 2
        wrong = np.arange(facts.n_validation) >= facts.performance * facts.n_validation / 100
        table = pd.DataFrame({"predicted": np.where(wrong, 1 - right, right), "label": right})
        given.append((facts, table.astype(np.float32)))
    return tables.averages(given, tables.runs(runs))


def test_averages_over_tasks_and_the_best_negative_lambda() -> None:
    runs = tables.runs(study())
    result = averages_with_answers(study()).set_index("seed")
    names = ["istar_mean", "istar_best", "none", "cosreg", "n_tasks"]
    assert result.loc["0", names].tolist() == [83, 85, 80, 79, 2]
    assert result["reported"].tolist() == [False, True]  # lambda is chosen on seed 0
    assert np.isnan(result.loc["0", "istar"])
    names = ["istar_minus_none", "istar_mean_minus_none", "istar_minus_cosreg", "none_minus_cosreg"]
    assert result.loc["1", names].tolist() == [5, 3, 6, 1]
    assert result["status"].tolist() == ["stand-in"] * 2  # has two of nine tasks
    assert result["deviations"].iloc[0].startswith("without the tasks sst2, qnli")
    table1 = tables.table1(runs).set_index(["task", "method"])
    columns = ["strength", "zeta", "performance", "n_seeds"]
    assert table1.loc[("b", "I-STAR"), columns].tolist() == [-5, 0.2, 85.5, 2]
    assert table1.loc[("a", "none"), "performance_sd"] == pytest.approx(np.std([80, 81], ddof=1))
    other = [r for r in study() if r[0].method.kind != "istar" or r[0].method.strength > 0]
    alone = averages_with_answers(other)
    assert alone[["istar", "istar_best", "istar_minus_none_items_error"]].isna().all(axis=None)
    assert alone["none_minus_cosreg_items_error"].notna().all()
    assert list(tables.table1(tables.runs(other))["method"]) == ["none", "CosReg"] * 2


def test_averages_have_errors_over_items() -> None:
    """The standard error over items of a difference of averages: two tasks, in each of which the
    models differ on 5 of 100 items (McNemar's variance)."""
    error = averages_with_answers(study())["istar_minus_none_items_error"].iloc[0]
    share = 0.05
    assert error == pytest.approx(100 * np.sqrt((share - share**2) / 200 / 2), rel=0.1)
    facts, _ = run("squad", Method(kind="none"), 0, 0.1, 50.0, metric="f1")
    nothing = [np.nan] * 3
    scores = pd.DataFrame({"predicted": nothing, "label": nothing, "f1": [50.0, np.nan, 100.0]})
    assert set(performance_draws(facts, scores)) == {50, 75, 100}


def test_lambda_is_chosen_on_other_seeds_than_reported() -> None:
    """Each of two lambdas is best on half of the seeds by chance; the one that is best on the first
    half is reported on the others."""
    seeds = range(4)
    runs = [run("a", Method(kind="none"), s, 0.3, 80.0) for s in seeds]
    for strength, scores in ((-5.0, (90.0, 90.0, 70.0, 70.0)), (-1.0, (70.0, 70.0, 90.0, 90.0))):
        runs += [run("a", istar(strength), s, 0.2, scores[s]) for s in seeds]
    result = averages_with_answers(runs)
    assert result["istar"].tolist() == [pytest.approx(math.nan, nan_ok=True)] * 2 + [70, 70]
    assert result["reported"].tolist() == [False, False, True, True]
    assert result["istar_mean"].tolist() == [80] * 4
    alone = averages_with_answers([r for r in runs if r[0].seed == 0])
    assert alone["istar"].isna().all()
    without_choice = [r for r in runs if r[0].method.strength != -1.0]
    assert averages_with_answers(without_choice)["istar"].tolist() == [90, 90, 70, 70]


def test_effects_of_cosreg_and_shrinkage() -> None:
    """CosReg has one row per task and seed, for any number of zetas; shrinkage is compared where a
    run without it exists."""
    runs = study(("a",))
    without = [run("a", istar(-5, 0), s, 0.1, 78.0 + s) for s in (0, 1)]
    table = tables.runs([*runs, *without])
    cosreg = tables.cosreg(table)
    assert cosreg[["setup", "seed"]].to_numpy().tolist() == [["a--m", "0"], ["a--m", "1"]]
    assert cosreg["mean_cosine_change"].tolist() == [0, 0]
    assert cosreg["isoscore_star_ratio"].tolist() == pytest.approx([0.31 / 0.3] * 2)
    assert set(cosreg["status"]) == {"original"}
    shrinkage = tables.shrinkage(table)
    # Performance at λ −5 and −1 is 85 and 81, plus 1 per seed
    assert shrinkage["performance_gain"].tolist() == [5, 5]
    assert shrinkage["setup"].tolist() == ["a--m, zeta 0.2"] * 2
    assert shrinkage["learned"].all()
    nothing = tables.shrinkage(tables.runs(runs))
    assert nothing.empty
    assert {"status", "learned", "performance_gain"} <= set(nothing.columns)


def test_steps_between_neighbouring_lambdas() -> None:
    result = tables.steps(tables.runs(study(("a",))))
    assert result["step"].tolist() == ["λ −5 to −1", "λ −1 to 0", "λ 0 to 2"] * 2
    changes = np.diff([SCORE[s] for s in (-5, -1, 0, 2)])
    assert result["isoscore_star_change"].tolist() == pytest.approx([*changes, *changes])
    assert result["seed"].tolist() == ["0"] * 3 + ["1"] * 3


def test_has_learned_needs_a_significant_difference() -> None:
    """52 % against a chance of 50 % is significant on 10,000 items, not on 100."""
    few, many = np.array([52.0, 52.5, 51.5]), np.array([52.0, 52.2, 51.8])
    assert not has_learned(few, 50.0, 100, "accuracy")
    assert has_learned(many, 50.0, 10_000, "accuracy")
    assert not has_learned(np.array([90.0, 20.0, 70.0]), 50.0, 10_000, "accuracy")
    assert has_learned(np.array([40.0]), 0.0, 200, "matthews")
    assert not has_learned(np.array([10.0]), 0.0, 200, "matthews")


def test_learning_is_judged_by_the_interval_of_claims() -> None:
    """Seeds that differ less than items do: their quantile of Student's t is not applied to the
    error over items as well."""
    values, chance = np.array([55.5, 58.5, 57.0]), 53.9
    error = 100 * np.sqrt(0.57 * 0.43 / 2000)
    low = mean_over_items(values, error).interval[0]
    assert interval(values, 2000, "accuracy")[0] == pytest.approx(low, rel=1e-4)
    seeds, items = stats.t.ppf(0.975, 2) * 1.5 / np.sqrt(3), stats.norm.ppf(0.975) * error
    assert 57 - np.hypot(seeds, items) < chance < low
    assert has_learned(values, chance, 2000, "accuracy")


def test_short_training_is_named_in_every_table_on_performance() -> None:
    brief = [(r.model_copy(update={"updates": 25, "learning_rate": 2e-4}), t) for r, t in study()]
    probes = [Probe(method=m, performance=70, n_train=9, n_components=0) for m in ("none", "abtt")]
    probed = [(brief[0][0].model_copy(update={"probes": probes}), brief[0][1])]
    runs = tables.runs(brief)
    for table in (
        *(runs, tables.directions(runs), tables.table1(runs), averages_with_answers(brief)),
        tables.post_processing(probed),
    ):
        assert table["too_short"].str.startswith("training too short: 25 updates").all()
    long = tables.runs([(r.model_copy(update={"updates": 312}), t) for r, t in study()])
    assert set(long["too_short"]) == {""}


def test_original_comparisons_have_all_of_the_authors_values() -> None:
    """Claims on all lambdas are original only with all of the authors' and with no other, for one
    zeta as for the best."""
    zetas = (0.2, 0.4, 0.6, 0.8)
    complete_runs = [
        run("sst2", istar(s, z), 0, 0.1 + s / 100, 80.0 - s) for s in LAMBDAS for z in zetas
    ]
    complete_runs.append(run("sst2", Method(kind="none"), 0, 0.1, 80.0))
    for table in (tables.directions, tables.steps):
        assert set(table(tables.runs(complete_runs))["status"]) == {"original"}
    deviates = {"status": "stand-in", "deviations": "lambda is 70"}
    other = run("sst2", istar(70), 0, 0.9, 60.0, **deviates)
    more = tables.directions(tables.runs([*complete_runs, other])).set_index("zeta")
    assert more["status"].to_dict() == {0.2: "stand-in"} | dict.fromkeys(zetas[1:], "original")
    assert more.loc[0.2, "deviations"] == "lambda is 70"
    fewer = tables.directions(tables.runs([r for r in complete_runs if r[0].method.strength != -5]))
    assert set(fewer["status"]) == {"stand-in"}
    assert set(fewer["deviations"]) == {"without lambda -5"}
    cosreg = run("sst2", Method(kind="cosreg", strength=1.0), 0, 0.1, 80.0)
    without_1 = [*(r for r in complete_runs if r[0].method.strength != 1), cosreg]
    fewer = tables.directions(tables.runs(without_1))
    assert set(fewer["deviations"]) == {"without lambda 1"}  # CosReg's strength is no lambda
    averages = averages_with_answers([r for r in complete_runs if r[0].method.zeta != 0.8])
    assert averages["deviations"].iloc[0].endswith("without zeta 0.8")


def test_one_stand_in_makes_the_average_a_stand_in() -> None:
    runs = study()
    runs[0] = run("a", Method(kind="none"), 0, 0.3, 80.0, status="stand-in")
    assert (averages_with_answers(runs)["status"] == "stand-in").all()
    assert tables.table1(tables.runs(runs))["status"].tolist().count("stand-in") == 1


def test_averages_leave_out_ablations_and_tasks_not_learned() -> None:
    """zeta = 0 is an ablation; a task on which the model without penalty is not above chance has no
    performance to compare."""
    runs = study()
    ablation = run("a", istar(-5, 0), 0, 0.1, 99.0)
    noise = [
        run("c", r.method, r.seed, r.isoscore_star, 40.0 + r.seed) for r, _ in runs if r.task == "a"
    ]
    result = averages_with_answers([*runs, ablation, *noise]).set_index("seed")
    names = ["istar_mean", "istar_best", "n_tasks", "not_learned"]
    assert result.loc["0", names].tolist() == [83, 85, 2, "c"]
    table1 = tables.table1(tables.runs([*runs, ablation, *noise]))
    assert table1.query("task == 'a' and method == 'I-STAR'")["zeta"].tolist() == [0.2]
    directions = tables.directions(tables.runs([*runs, *noise])).set_index(["setup", "seed"])
    assert directions.loc[("c--m", "0"), "lambda_isoscore_rho"] == 1
    unknown = ["isoscore_performance_r", "performance_change_negative"]
    assert directions.loc["c--m"][unknown].isna().all(axis=None)
    assert directions["learned"].tolist() == [True] * 4 + [False] * 2
    assert directions["all_learned"].tolist() == [True] * 4 + [False] * 2
    collapsed = tables.directions(
        tables.runs(
            [
                (r.model_copy(update={"performance": 50.0}) if r.isoscore < 0.15 else r, t)
                for r, t in runs
            ]
        )
    )
    assert collapsed["learned"].all()
    assert not collapsed["all_learned"].any()
    nothing = averages_with_answers(noise)
    assert nothing[["istar", "none", "istar_minus_none"]].isna().all(axis=None)
    assert nothing["n_tasks"].tolist() == [0, 0]


def test_activations_and_points_for_figures() -> None:
    """Activations are means per dimension; points are at most 1,000 per method."""
    shown = tables.activations(study())
    assert shown.groupby(["setup", "method"])["activation"].apply(list).iloc[0][:2] == [0.5, -0.25]
    assert "I-STAR, λ = −5, ζ = 0.2" in set(shown["method"])
    items = pd.DataFrame({"label": 0.0, "predicted": 0.0, "x": np.arange(2500.0), "y": 0.0})
    points = tables.points([(facts, items) for facts, _ in study(("a",), 1)])
    assert points.groupby("method").size().max() <= 1000
    assert points["x"].max() > 2490


def test_post_processing_table_compares_linear_probes() -> None:
    probes = [
        Probe(method=m, performance=p, n_train=9, n_components=c)
        for m, p, c in (("none", 70.0, 0), ("abtt", 72.5, 4))
    ]
    runs = [run("a", Method(kind="none"), 0, 0.3, 80.0, probes=probes), *study(("a",), 1)]
    row = tables.post_processing(runs).iloc[0]
    columns = ["head", "linear", "linear_after_abtt", "change", "n_components"]
    assert row[columns].tolist() == [80, 70, 72.5, 2.5, 4]
    assert len(tables.post_processing(runs)) == 1
    assert "linear_after_abtt" in tables.post_processing(study()).columns


def test_stability_table_has_errors_and_differences_per_zeta() -> None:
    """Differences from IsoScore are missing at zeta = 0, and if no sample has more points than
    dimensions."""
    rows = pd.DataFrame(
        [
            {"n": n, "repeat": r, "zeta": z, "isoscore_star": s, "isoscore_unbiased": 0.82}
            for r in (0, 1)
            for n, scores in ((5, (0.0178, 0.0282, 0.05)), (100, (0.75, 0.78, 0.79)))
            for z, s in zip((0.0, 0.2, 0.8), scores, strict=True)
        ]
    )
    names = {"name": "normal", "data": "drawn", "embedding": "", "status": "original"}
    numbers = {"d": 20, "isoscore": 0.8}
    cloud = StabilityCloud(kind="normal", **numbers)
    facts = StabilityFacts(**names, **numbers, cloud=cloud, shrinkage_points=50)
    wide = facts.model_copy(update={"name": "wide", "d": 200})
    table = tables.stability([(facts, rows), (wide, rows)])
    result = tables.stability_of_batches(table).set_index(["setup", "seed"])
    row = result.loc[("normal, zeta 0.2", "1")]
    assert row[["score", "n", "n_small", "n_large"]].tolist() == ["IsoScore*", 100, 5, 100]
    assert row["relative_error"] == pytest.approx(1 - 0.78 / 0.8)
    assert row["unbiased_relative_error"] == pytest.approx(0.82 / 0.8 - 1)
    differences = row[["difference_small", "difference_large", "difference_falls"]]
    # Differences are relative: both scores of few points are near 0.
    small = 0.0282 / 0.0178 - 1
    assert differences.tolist() == pytest.approx([small, 0.04, small - 0.04])
    plain = result.loc[("normal, zeta 0", "0")]
    assert plain["score"] == "IsoScore"
    assert plain["relative_error"] == pytest.approx(1 - 0.75 / 0.8)
    assert np.isnan(plain["difference_falls"])
    assert result.loc["wide, zeta 0.8"]["difference_falls"].isna().all()
