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
LEVEL = {
    "none": (50.0, -4.0),
    "mean": (51.0, -3.0),
    "abtt": (60.0, -0.5),
    "kmeans-mean": (58.0, -0.9),
}
LEVEL |= {"gmm": (61.0, -0.3), "kmeans": (63.0, -0.2)}
CONTROL_LEVEL = {"random-parts": (59.0, -0.4), "abtt-variance": (62.0, -0.1)}


def similarity_result(
    dataset: str = "sts15", embedding: str = "bert-base-uncased", **changes: Any
) -> tuple[SimilarityFacts, pd.DataFrame]:
    facts: dict[str, Any] = {
        "dataset": dataset,
        "embedding": embedding,
        "layer": 12,
        "data": "data",
        "model": "model",
        "status": "original",
        "drop_tokens": "special",
        "parameters": PARAMETERS,
        "parameters_from": "configuration",
        "profiled": True,
        "n_pairs": 2990,
        "n_pairs_all": 3000,
        "n_sentences": 6000,
        "n_tokens": 70000,
        "d": 768,
    }
    rows = []
    for method, (spearman, isotropy) in LEVEL.items():
        for seed in range(3 if method in ("kmeans-mean", "gmm", "kmeans") else 1):
            k = 27 if method in ("kmeans-mean", "gmm", "kmeans") else None
            rows.append(row(method, seed, spearman + seed, isotropy, k))
    rows += [
        row(method, seed, *levels, k=27, part="controls")
        for method, levels in CONTROL_LEVEL.items()
        for seed in range(3)
    ]
    rows += [
        row("kmeans-mean", seed, 55.0, -1.0 / k, k, part="clusters")
        for k in (1, 3)
        for seed in range(2)
    ]
    return SimilarityFacts(**(facts | changes)), pd.DataFrame(rows).astype(
        {"n_clusters": "Int64", "n_components": "Int64"}
    )


def row(
    method: str, seed: int, spearman: float, isotropy: float, k: int | None, part: str = "methods"
) -> dict[str, Any]:
    isotropies = dict(zip(ISOTROPIES, (isotropy, isotropy - 1, isotropy / 2), strict=True))
    limits = {
        limit: value + shift
        for column, value in isotropies.items()
        for limit, shift in zip(with_range(column)[1:], (-0.1, 0.2), strict=True)
    }
    return {
        "method": method,
        "n_clusters": k,
        "n_components": None,
        "seed": seed,
        "part": part,
        "clusters_left": None,
        "pearson": spearman + 1,
        "spearman": spearman,
        "spearman_of_removed": spearman / 3,
        "variance_left": 0.5,
        **isotropies,
        **limits,
        "isoscore": 0.5 + isotropy / 100,
    }


def similarity_cosines(**changes: Any) -> tuple[SimilarityFacts, pd.DataFrame]:
    """Cosines of 300 pairs whose correlation with the scores rises from `none` over mean, abtt,
    kmeans-mean and gmm to kmeans."""
    draws = np.random.default_rng(0)
    scores = draws.standard_normal(300)
    rows = []
    for i, method in enumerate(["none", "mean", "abtt", "kmeans-mean", "gmm", "kmeans"]):
        for seed in range(3 if method in ("kmeans-mean", "gmm", "kmeans") else 1):
            cosines = scores + draws.standard_normal(300) * (3 - i / 2)
            rows += [
                {"method": method, "seed": seed, "pair": j, "first": 2 * j, "second": 2 * j + 1}
                | {"score": score, "cosine": cosine}
                for j, (score, cosine) in enumerate(zip(scores, cosines, strict=True))
            ]
    return similarity_result(**changes)[0], pd.DataFrame(rows)


@pytest.fixture(scope="module")
def published() -> pd.DataFrame:
    return pd.DataFrame([number.model_dump() for number in paper("rajaee2021").published()])


def test_slides_and_table2_have_their_published_numbers(published: pd.DataFrame) -> None:
    long = tables.measurements([similarity_result()])
    slides = tables.slides(long, published).set_index("method")
    assert list(slides.index) == [*LEVEL, *CONTROL_LEVEL]
    assert slides.loc["kmeans", "spearman"] == 64
    assert slides.loc["kmeans", "spearman_sd"] == 1
    assert math.isnan(slides.loc["none", "spearman_sd"])
    assert slides.loc["kmeans", "published_spearman"] == 66.33  # the slides' SemEval-2015 task 2
    assert slides.loc["none", "published_log10_isotropy"] == pytest.approx(math.log10(1.35e-5))
    paper = tables.table2(long, published).set_index("method")
    assert list(paper.index) == ["none", "abtt", "kmeans"]
    # Table 2 of the paper has another protocol than the slides
    assert paper.loc["kmeans", "published_spearman"] == 64.37
    # The paper's baselines are of sentence vectors
    assert math.isnan(paper.loc["none", "published_log10_isotropy"])
    assert paper.loc["none", "published_log10_isotropy_sentences"] == pytest.approx(
        math.log10(3.7e-7)
    )
    assert paper.loc["kmeans", "published_log10_isotropy"] == pytest.approx(math.log10(0.81))
    hidden = tables.table2(tables.measurements([similarity_result(layer=1)]), published)
    assert hidden["published_spearman"].isna().all()  # published numbers are of the last layer
    assert paper.loc["none", "n_pairs_dzubur"] == 2983
    assert paper.loc["none", "n_pairs_official"] == 3000
    assert paper.loc["none", "n_pairs"] == 2990
    stand_in = tables.slides(
        tables.measurements([similarity_result(embedding="all-MiniLM-L6-v2")]), published
    )
    assert stand_in["published_spearman"].isna().all()


def test_tables_1_and_5_have_clusters_and_layers(published: pd.DataFrame) -> None:
    long = tables.measurements(
        [similarity_result("sts-benchmark-dev"), similarity_result("sts15", profiled=False)]
    )
    effect = tables.table1(long[long["dataset"] == "sts-benchmark-dev"], published)
    assert effect["n_clusters"].fillna(0).tolist() == [0, 1, 3]
    assert effect["published_log10_isotropy"].round(2).tolist() == [
        -4.3,
        -2,
        round(math.log10(0.04), 2),
    ]
    assert "spearman" not in effect.columns
    assert set(effect["status"]) == {"original"}
    hidden = tables.measurements([similarity_result("sts-benchmark-dev", layer=6)]).set_index(
        "part"
    )["status"]
    assert set(hidden["clusters"]) == {"stand-in"}  # Table 1 has the last layer
    assert set(hidden["methods"]) == {"original"}  # as the job said: Table 5 has all of them
    layers = tables.table5(long, published)
    assert list(layers["dataset"]) == ["sts-benchmark-dev"]
    assert layers["published_log10_isotropy"].iloc[0] == pytest.approx(math.log10(5e-5))


def test_isotropy_gains_pair_runs_by_seed() -> None:
    """Gains as published, and with matched lengths of vectors."""
    long = tables.measurements([similarity_result(), similarity_result("polarity", n_pairs=0)])
    isotropy = tables.directions(long)
    assert list(isotropy["seed"]) == ["0", "1", "2"] * 2
    assert isotropy["orders_gain"].tolist() == pytest.approx([3.8] * 6)
    assert isotropy["orders_matched_gain"].tolist() == pytest.approx([3.8] * 6)
    assert isotropy["isoscore_gain"].tolist() == pytest.approx([0.038] * 6)
    assert isotropy["orders_cluster_minus_global"].tolist() == pytest.approx([0.3] * 6)
    assert isotropy["isoscore_cluster_minus_global"].tolist() == pytest.approx([0.003] * 6)
    assert isotropy["orders_cluster_minus_random_parts"].tolist() == pytest.approx([0.2] * 6)
    # A difference is lowest with the lowest value of the first and the highest of the second.
    assert isotropy["orders_gain_low"].tolist() == pytest.approx([3.5] * 6)
    assert isotropy["orders_gain_high"].tolist() == pytest.approx([4.1] * 6)
    assert "isoscore_gain_low" not in isotropy
    minus_equal_variance = isotropy["orders_matched_cluster_minus_global_equal_variance"]
    assert minus_equal_variance.tolist() == pytest.approx([-0.1] * 6)


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
    similarity = tables.directions_similarity(
        [(facts, pairs), (facts, single_method), (facts, pairs[:0])]
    )
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
        {
            "method": ["abtt", "abtt", "kmeans", "kmeans", "kmeans"],
            "n_clusters": [None, None, 27, 27, 5],
            "n_components": [12, 15, 12, 15, 12],
            "pearson": 1.0,
            "spearman": 1.0,
        }
    ).astype({"n_clusters": "Int64", "n_components": "Int64"})
    assert tables.tuning([(tuned, trials)])["chosen"].tolist() == [False, True, True, False, False]


def classification_result() -> tuple[ClassificationFacts, pd.DataFrame]:
    facts = ClassificationFacts(
        task="rte",
        embedding="bert-base-uncased",
        layer=12,
        data="data",
        model="model",
        status="original",
        metric="accuracy",
        chance=52.7,
        parameters=PARAMETERS,
        n_train=2490,
        n_train_all=2490,
        n_validation=277,
        max_length=64,
        d=768,
    )
    curves = {
        ("none", "none"): [50, 56, 54],
        ("kmeans", "transductive"): [51, 58, 57],
        ("kmeans", "inductive"): [55, 55, 53],
    }
    rows = []
    for (method, clustering), scores in curves.items():
        for seed in (0, 1):
            common = {
                "method": method,
                "clustering": clustering,
                "seed": seed,
                "log10_isotropy": -1.0,
            }
            control = {
                "classifier": "logistic",
                "epoch": 0,
                "accuracy": 60.0 + seed,
                "matthews": 20.0,
                "loss": math.nan,
            }
            rows.append(common | control)
            for epoch, score in enumerate(scores, start=1):
                epoch_scores = {
                    "accuracy": float(score + seed),
                    "matthews": 10.0 * epoch,
                    "loss": 0.7 / epoch,
                }
                rows.append(common | {"classifier": "mlp", "epoch": epoch} | epoch_scores)
    return facts, pd.DataFrame(rows)


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
    table = tables.table3(long, published)
    kmeans_mlp = table[(table["method"] == "kmeans") & (table["classifier"] == "mlp")].set_index(
        "clustering"
    )
    assert kmeans_mlp.loc["transductive", ["best", "last"]].tolist() == [58.5, 57.5]
    assert kmeans_mlp.loc["transductive", "best_sd"] == pytest.approx(math.sqrt(0.5))
    assert kmeans_mlp.loc["transductive", "published"] == 56.5
    assert math.isnan(
        kmeans_mlp.loc["inductive", "published"]
    )  # the authors' clusters are of all items
    assert table[table["classifier"] == "logistic"]["published"].isna().all()
    facts, rows = classification_result()
    other = tables.table3(
        tables.convergence([(facts.model_copy(update={"metric": "f1"}), rows.assign(f1=1.0))]),
        published,
    )
    assert other["published"].isna().all()  # the paper's is accuracy
    directions = tables.classification_directions([classification_answers()], long)
    assert directions["transductive_mlp_gain"].tolist() == [2, 2]
    assert directions["inductive_mlp_gain"].tolist() == [-1, -1]
    assert directions["transductive_logistic_gain"].tolist() == [0, 0]
    error = 100 * math.sqrt(2 / 277 * (1 - 2 / 277) / 277)  # of two items that differ
    assert directions["transductive_mlp_gain_items_error"].tolist() == pytest.approx(
        [error] * 2, 0.1
    )
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
    layers = {
        "layer": [1, 2],
        "sentence_log10_isotropy": [-6.0, isotropy],
        "sentence_mean_norm": [0.9, 0.3],
    }
    return facts, pd.DataFrame(layers)


def test_finetuning_table_compares_methods_by_seed(published: pd.DataFrame) -> None:
    runs = [fine_tuned("none", s, 65.0 + s, -4.0) for s in (0, 1)]
    runs += [fine_tuned("cluster", s, 62.0 + s, -0.5) for s in (0, 1)]
    given = [
        (
            facts,
            pd.DataFrame({"predicted": [i < 6 - (facts.method.kind == "none"), 0.0], "label": 1.0}),
        )
        for i, (facts, _) in enumerate(runs)
    ]
    table = tables.finetuning(given, tables.cls_layers(runs), published)
    assert table["performance_change"].tolist() == [-3, -3]
    assert np.isfinite(table["performance_change_items_error"]).all()
    assert table["isotropy_change"].tolist() == [3.5, 3.5]
    assert table["none_mean_norm"].tolist() == [0.3, 0.3]
    assert table["none_published"].tolist() == [65.3, 65.3]
    assert table["cluster_published"].tolist() == [62.8, 62.8]
    assert np.array_equal(table["seed"], ["0", "1"])
    other = tables.finetuning(
        given,
        tables.cls_layers([(f.model_copy(update={"metric": "f1"}), rows) for f, rows in runs]),
        published,
    )
    # The slides have accuracy
    assert other[["none_published", "cluster_published"]].isna().all(axis=None)
