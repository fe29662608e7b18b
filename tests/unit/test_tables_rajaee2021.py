"""Tables of rajaee2021 from synthetic measurements with known effects, and the verdicts that follow
from them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from replication.finetune.spec import FinetuneFacts, Method
from replication.papers.rajaee2021 import tables
from replication.papers.registry import paper
from replication.similarity.spec import (
    ISOTROPIES,
    ClassificationFacts,
    Parameters,
    SimilarityFacts,
    TuningFacts,
    with_range,
)
from tests.unit.factories import finetune_facts

PARAMETERS = Parameters(n_clusters=27, n_components=12, n_components_global=15)
LEVEL = {"none": (50.0, -4.0), "mean": (51.0, -3.0), "abtt": (60.0, -0.5)}
CLUSTER_LEVEL = {"kmeans-mean": (58.0, -0.9), "gmm": (61.0, -0.3), "kmeans": (63.0, -0.2)}
CONTROL_LEVEL = {"random-parts": (59.0, -0.4), "abtt-variance": (62.0, -0.1)}
SEEDS = dict.fromkeys(LEVEL, 1) | dict.fromkeys(CLUSTER_LEVEL, 3)


def similarity_result(
    dataset: str = "sts15", embedding: str = "bert-base-uncased", **changes: Any
) -> tuple[SimilarityFacts, pd.DataFrame]:
    facts: dict[str, Any] = {"dataset": dataset, "embedding": embedding, "layer": 12, "d": 768}
    facts |= {"data": "data", "model": "model", "status": "original", "drop_tokens": "special"}
    facts |= {"parameters": PARAMETERS, "parameters_from": "configuration", "profiled": True}
    facts |= {"n_pairs": 2990, "n_pairs_all": 3000, "n_sentences": 6000, "n_tokens": 70000}
    rows = [row(method, 0, *level, None) for method, level in LEVEL.items()]
    for part, levels in (("methods", CLUSTER_LEVEL), ("controls", CONTROL_LEVEL)):
        for method, (spearman, isotropy) in levels.items():
            shift = part == "methods"  # by one for each seed
            rows += [row(method, s, spearman + shift * s, isotropy, 27, part) for s in range(3)]
    rows += [row("kmeans-mean", s, 55.0, -1.0 / k, k, "clusters") for k in (1, 3) for s in (0, 1)]
    types = {"n_clusters": "Int64", "n_components": "Int64"}
    return SimilarityFacts(**(facts | changes)), pd.DataFrame(rows).astype(types)


def row(
    method: str, seed: int, spearman: float, isotropy: float, k: int | None, part: str = "methods"
) -> dict[str, Any]:
    isotropies = dict(zip(ISOTROPIES, (isotropy, isotropy - 1, isotropy / 2), strict=True))
    limits = {
        limit: value + shift
        for column, value in isotropies.items()
        for limit, shift in zip(with_range(column)[1:], (-0.1, 0.2), strict=True)
    }
    keys = {"method": method, "n_clusters": k, "n_components": None, "seed": seed, "part": part}
    scores = {"pearson": spearman + 1, "spearman": spearman, "spearman_of_removed": spearman / 3}
    scores |= {"variance_left": 0.5, "isoscore": 0.5 + isotropy / 100}
    return {**keys, "clusters_left": None, **scores, **isotropies, **limits}


def similarity_cosines() -> tuple[SimilarityFacts, pd.DataFrame]:
    """Cosines of 300 pairs whose correlation with the scores rises from `none` over mean, abtt,
    kmeans-mean and gmm to kmeans."""
    draws, pair = np.random.default_rng(0), np.arange(300)
    of_pairs = pd.DataFrame({"pair": pair, "first": 2 * pair, "second": 2 * pair + 1})
    of_pairs["score"] = scores = draws.standard_normal(300)
    rows = [
        of_pairs.assign(
            method=method, seed=seed, cosine=scores + draws.standard_normal(300) * (3 - i / 2)
        )
        for i, method in enumerate(SEEDS)
        for seed in range(SEEDS[method])
    ]
    return similarity_result()[0], pd.concat(rows, ignore_index=True)


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return pd.DataFrame([number.model_dump() for number in paper("rajaee2021").published()])


def test_slides_and_table2_have_their_published_numbers(published: pd.DataFrame) -> None:
    long = tables.measurements([similarity_result()])
    slides = tables.slides(long, published).set_index("method")
    assert list(slides.index) == [*SEEDS, *CONTROL_LEVEL]
    # The slides' SemEval-2015 task 2
    columns = ["spearman", "spearman_sd", "published_spearman"]
    assert slides.loc["kmeans", columns].tolist() == [64, 1, 66.33]
    assert math.isnan(slides.loc["none", "spearman_sd"])
    assert slides.loc["none", "published_log10_isotropy"] == pytest.approx(math.log10(1.35e-5))
    # Table 2 of the paper has another protocol than the slides; its baselines are of sentences
    paper = tables.table2(long, published).set_index("method")
    assert list(paper.index) == ["none", "abtt", "kmeans"]
    assert paper.loc["kmeans", "published_spearman"] == 64.37
    assert paper.loc["kmeans", "published_log10_isotropy"] == pytest.approx(math.log10(0.81))
    assert math.isnan(paper.loc["none", "published_log10_isotropy"])
    sentences = paper.loc["none", "published_log10_isotropy_sentences"]
    assert sentences == pytest.approx(math.log10(3.7e-7))
    counts = ["n_pairs_dzubur", "n_pairs_official", "n_pairs"]
    assert paper.loc["none", counts].tolist() == [2983, 3000, 2990]
    # Published numbers are of the last layer of the paper's model
    hidden = tables.table2(tables.measurements([similarity_result(layer=1)]), published)
    assert hidden["published_spearman"].isna().all()
    other = tables.measurements([similarity_result(embedding="all-MiniLM-L6-v2")])
    assert tables.slides(other, published)["published_spearman"].isna().all()


def test_tables_1_and_5_have_clusters_and_layers(published: pd.DataFrame) -> None:
    dev = "sts-benchmark-dev"
    long = tables.measurements([similarity_result(dev), similarity_result(profiled=False)])
    effect = tables.table1(long[long["dataset"] == dev], published)
    assert effect["n_clusters"].fillna(0).tolist() == [0, 1, 3]
    printed = [-4.3, -2, math.log10(0.04)]
    assert effect["published_log10_isotropy"].tolist() == pytest.approx(printed, abs=0.01)
    assert "spearman" not in effect.columns
    assert set(effect["status"]) == {"original"}
    hidden = tables.measurements([similarity_result(dev, layer=6)]).set_index("part")["status"]
    assert set(hidden["clusters"]) == {"stand-in"}  # Table 1 has the last layer
    assert set(hidden["methods"]) == {"original"}  # as the job said: Table 5 has all of them
    layers = tables.table5(long, published)
    assert list(layers["dataset"]) == [dev]
    assert layers["published_log10_isotropy"].iloc[0] == pytest.approx(math.log10(5e-5))


def test_isotropy_gains_pair_runs_by_seed() -> None:
    """Gains as published, and with matched lengths of vectors. A difference is lowest with the
    lowest value of the first and the highest of the second."""
    long = tables.measurements([similarity_result(), similarity_result("polarity", n_pairs=0)])
    isotropy = tables.directions(long)
    assert list(isotropy["seed"]) == ["0", "1", "2"] * 2
    expected = {
        "orders_gain": 3.8,
        "orders_gain_low": 3.5,
        "orders_gain_high": 4.1,
        "orders_matched_gain": 3.8,
        "isoscore_gain": 0.038,
        "orders_cluster_minus_global": 0.3,
        "isoscore_cluster_minus_global": 0.003,
        "orders_cluster_minus_random_parts": 0.2,
        "orders_matched_cluster_minus_global_equal_variance": -0.1,
    }
    for column, value in expected.items():
        assert isotropy[column].tolist() == pytest.approx([value] * 6), column
    assert "isoscore_gain_low" not in isotropy


def test_isotropy_of_static_vectors_counts_once() -> None:
    """Two sets of word pairs share one cloud; sentences have one each."""
    long = tables.measurements([similarity_result(), similarity_result("polarity", n_pairs=0)])
    assert tables.directions(long)["setup"].nunique() == 2
    words = long.assign(layer=math.nan)
    assert set(tables.directions(words)["setup"]) == {long["setup"].iloc[0]}


def test_similarity_gains_are_paired() -> None:
    """Gains are differences of SciPy's correlations, with intervals over pairs; data without pairs,
    or with one method only, are left out."""
    facts, pairs = similarity_cosines()
    single_method = pairs[pairs["method"] == "none"]
    given = [(facts, part) for part in (pairs, single_method, pairs[:0])]
    similarity = tables.directions_similarity(given)
    assert len(similarity) == 1
    result = similarity.iloc[0]
    rho = {
        name: 100 * np.mean([stats.spearmanr(g["cosine"], g["score"])[0] for _, g in runs])
        for name, runs in ((m, g.groupby("seed")) for m, g in pairs.groupby("method"))
    }
    assert result["gain"] == pytest.approx(rho["kmeans"] - rho["none"])
    assert result["kmeans_minus_gmm"] == pytest.approx(rho["kmeans"] - rho["gmm"])
    for name in tables.COMPARISONS:
        assert result[f"{name}_low"] < result[name] < result[f"{name}_high"]


def test_tuning_marks_the_chosen_number_of_components() -> None:
    tuned = TuningFacts(
        embedding="m", layer=3, status="original", dataset="dev", parameters=PARAMETERS
    )
    trials = pd.DataFrame(
        {"method": ["abtt"] * 2 + ["kmeans"] * 3, "pearson": 1.0, "spearman": 1.0}
    )
    trials["n_clusters"] = pd.array([None, None, 27, 27, 5], "Int64")
    trials["n_components"] = pd.array([12, 15, 12, 15, 12], "Int64")
    assert tables.tuning([(tuned, trials)])["chosen"].tolist() == [False, True, True, False, False]


def classification_result() -> tuple[ClassificationFacts, pd.DataFrame]:
    facts: dict[str, Any] = {"task": "rte", "embedding": "bert-base-uncased", "layer": 12}
    facts |= {"data": "data", "model": "model", "status": "original", "parameters": PARAMETERS}
    facts |= {"metric": "accuracy", "chance": 52.7, "max_length": 64, "d": 768}
    facts |= {"n_train": 2490, "n_train_all": 2490, "n_validation": 277}
    curves = {
        ("none", "none"): [50, 56, 54],
        ("kmeans", "transductive"): [51, 58, 57],
        ("kmeans", "inductive"): [55, 55, 53],
    }
    rows = [
        (*keys, seed, classifier, epoch, float(score + seed), matthews, loss)
        for keys, scores in curves.items()
        for seed in (0, 1)
        for classifier, epoch, score, matthews, loss in (
            ("logistic", 0, 60, 20.0, math.nan),
            *(("mlp", e, score, 10.0 * e, 0.7 / e) for e, score in enumerate(scores, start=1)),
        )
    ]
    columns = "method clustering seed classifier epoch accuracy matthews loss"
    table = pd.DataFrame(rows, columns=columns.split())
    return ClassificationFacts(**facts), table.assign(log10_isotropy=-1.0)


def classification_answers() -> tuple[ClassificationFacts, pd.DataFrame]:
    """Answers to 277 items: at the counted epoch `kmeans` has one wrong answer and `none` three; at
    other epochs all are wrong."""
    facts, rows = classification_result()
    parts = []
    for row in rows.to_dict("records"):
        n_wrong = {"kmeans": 1, "none": 3}[row["method"]]
        if row["classifier"] == "mlp" and row["epoch"] != 2:
            n_wrong = 277
        right = np.arange(277) % 2
        predicted = np.where(np.arange(277) >= 277 - n_wrong, 1 - right, right)
        keys = {k: row[k] for k in ("method", "clustering", "classifier", "seed", "epoch")}
        columns = {"item": np.arange(277), "predicted": predicted, "right": right}
        parts.append(pd.DataFrame({**keys, **columns}))
    return facts, pd.concat(parts)


def test_classification_table_has_the_best_epoch(published: pd.DataFrame) -> None:
    long = tables.convergence([classification_result()])
    assert long["score"].equals(long["accuracy"].rename("score"))
    table = tables.table3(long, published).set_index(["classifier", "method", "clustering"])
    kmeans = table.loc[("mlp", "kmeans")]
    assert kmeans.loc["transductive", ["best", "last", "published"]].tolist() == [58.5, 57.5, 56.5]
    assert kmeans.loc["transductive", "best_sd"] == pytest.approx(math.sqrt(0.5))
    assert math.isnan(kmeans.loc["inductive", "published"])  # the authors' clusters: all items
    assert table.loc["logistic", "published"].isna().all()
    facts, rows = classification_result()
    f1 = (facts.model_copy(update={"metric": "f1"}), rows.assign(f1=1.0))
    other = tables.table3(tables.convergence([f1]), published)
    assert other["published"].isna().all()  # the paper's is accuracy
    directions = tables.classification_directions([classification_answers()], long)
    assert directions["transductive_mlp_gain"].tolist() == [2, 2]
    assert directions["inductive_mlp_gain"].tolist() == [-1, -1]
    assert directions["transductive_logistic_gain"].tolist() == [0, 0]
    error = 100 * math.sqrt(2 / 277 * (1 - 2 / 277) / 277)  # of two items that differ
    errors = directions["transductive_mlp_gain_items_error"].tolist()
    assert errors == pytest.approx([error] * 2, 0.1)
    assert directions["seed"].tolist() == ["0", "1"]


def test_best_epoch_is_by_accuracy_and_then_by_loss(published: pd.DataFrame) -> None:
    """Also for tasks with another metric, as CoLA with Matthews' correlation."""
    facts, rows = classification_result()
    long = tables.convergence([(facts.model_copy(update={"metric": "matthews"}), rows)])
    table = tables.table3(long, published).set_index(["clustering", "classifier"])
    assert table.loc[("transductive", "mlp"), ["best", "last"]].tolist() == [20, 30]
    # Accuracies 55, 55, 53: the second epoch has the smaller loss
    assert table.loc[("inductive", "mlp"), "best"] == 20


def fine_tuned(
    kind: str, seed: int, performance: float, isotropy: float
) -> tuple[FinetuneFacts, pd.DataFrame]:
    changed = {} if kind == "none" else {"n_clusters": 3, "n_components": 1}
    method = Method.model_validate({"kind": kind, **changed})
    facts = finetune_facts(
        model="bert-base-uncased", method=method, seed=seed, performance=performance
    )
    layers = {"layer": [1, 2], "sentence_log10_isotropy": [-6.0, isotropy]}
    return facts, pd.DataFrame(layers | {"sentence_mean_norm": [0.9, 0.3]})


def test_finetuning_table_compares_methods_by_seed(published: pd.DataFrame) -> None:
    runs = [fine_tuned("none", s, 65.0 + s, -4.0) for s in (0, 1)]
    runs += [fine_tuned("cluster", s, 62.0 + s, -0.5) for s in (0, 1)]
    given = []
    for i, (facts, _) in enumerate(runs):
        predicted = [i < 6 - (facts.method.kind == "none"), 0.0]
        given.append((facts, pd.DataFrame({"predicted": predicted, "label": 1.0})))
    table = tables.finetuning(given, tables.cls_layers(runs), published)
    expected = {"performance_change": -3, "isotropy_change": 3.5, "none_mean_norm": 0.3}
    expected |= {"none_published": 65.3, "cluster_published": 62.8}
    for column, value in expected.items():
        assert table[column].tolist() == [value] * 2, column
    assert np.isfinite(table["performance_change_items_error"]).all()
    assert np.array_equal(table["seed"], ["0", "1"])
    f1 = [(facts.model_copy(update={"metric": "f1"}), rows) for facts, rows in runs]
    other = tables.finetuning(given, tables.cls_layers(f1), published)
    # The slides have accuracy
    assert other[["none_published", "cluster_published"]].isna().all(axis=None)
