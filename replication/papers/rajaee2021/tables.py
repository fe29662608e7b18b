"""Tables of Rajaee & Sheikhi 2020 (slides) and Rajaee & Pilehvar 2021; the two have different
protocols, and columns of their own.

Isotropy is log10 of I(W), since I(W) of decoders is too small for double precision. `setup` is a
data set with a model and a layer; `seed` numbers the clusterings, and methods that do not cluster
have one row, with seed 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

import numpy as np
import pandas as pd
import scipy

from replication.finetune.spec import FinetuneFacts
from replication.papers.declare import table
from replication.papers.rajaee2021.protocol import LAST, TRAINING
from replication.similarity.spec import (
    ISOTROPIES,
    METHOD_TITLES,
    ClassificationFacts,
    SimilarityFacts,
    TuningFacts,
    with_range,
)
from replication.tables.bootstrap import (
    PAIRED_BOOTSTRAP,
    error_of_change,
    items_error,
    mean_of_seeds,
    percentiles,
    score_draws,
    spearman_draws,
    spearman_influences,
    widen,
)
from replication.tables.items import SEEDS_AND_ITEMS, interval, rows_have_learned
from replication.tables.runs import deviate, fields, long_table, printed

MeasuredRuns = Sequence[tuple[SimilarityFacts, pd.DataFrame]]
"""Facts about each data set in each layer, and a row per method and run, or per token."""
TunedRuns = Sequence[tuple[TuningFacts, pd.DataFrame]]
"""Facts about each tuning, and its trials."""
ClassifiedRuns = Sequence[tuple[ClassificationFacts, pd.DataFrame]]
"""Facts about each classification on frozen features, and its scores."""
FineTunedRuns = Sequence[tuple[FinetuneFacts, pd.DataFrame]]
"""Facts about each fine-tuned model, and one of its tables."""

FACTS = ["setup", "dataset", "embedding", "layer", "data", "model", "status", "deviations"]
PAPER_METHODS = ["none", "abtt", "kmeans"]
CONTROLS = {"random_parts": "random-parts", "global_equal_variance": "abtt-variance"}
"""End of a difference's name -> control that is subtracted from the cluster-based method."""
ISOTROPY_GAINS = {
    "orders": "log10_isotropy",
    "orders_matched": "log10_isotropy_matched",
    "isoscore": "isoscore",
}
"""Prefix of a gain's name -> column that the gain is in."""
COMPARISONS = {
    "gain": ("kmeans", "none"),
    "cluster_minus_global": ("kmeans", "abtt"),
    "kmeans_minus_gmm": ("kmeans", "gmm"),
    "global_minus_none": ("abtt", "none"),
    "mean_minus_none": ("mean", "none"),
    "kmeans_mean_minus_mean": ("kmeans-mean", "mean"),
    "kmeans_minus_kmeans_mean": ("kmeans", "kmeans-mean"),
    "gmm_minus_kmeans_mean": ("gmm", "kmeans-mean"),
}
"""Name of a difference -> the method, and the method that is subtracted."""
# Pairs that Dzubur (2022) counts, after contact with the authors, and in the official releases.
PAIRS = {
    "sts12": (3101, 3108),
    "sts13": (2250, 2250),
    "sts14": (3746, 3750),
    "sts15": (2983, 3000),
    "sts16": (1162, 1186),
    "sts-benchmark-dev": (1444, 1500),
    "sts-benchmark-dev-quoted": (1444, 1500),
    "sts-benchmark-test": (1095, 1379),
    "sts-benchmark-test-quoted": (1095, 1379),
    "sick-r": (9840, 9927),
}


_FINETUNING_FACTS = ["task", "embedding", "data", "model", "status", "deviations", "metric"]
_FINETUNING_FACTS += ["n_train", "updates", "chance"]
_COMPARED_METHODS = ("cluster", "none")
"""Kinds of methods that fine-tuning compares."""


@table(
    "slides",
    title="The methods of the slides",
    tables=["measurements"],
    published=True,
    section="slides",
)
def slides(measurements: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The six methods of the 2020 slides: Pearson and Spearman correlation (times 100) of people's
    scores with cosines of sentences, Spearman's also of what a method removes from them (about its
    mean), and log10 of the isotropy I(W) of all token vectors; mean and sd over clusterings. The
    slides state no split, layer or numbers. Two controls are ours: random parts as large as the
    clusters, and the global method with as many components as leave the variance that k-means
    leaves.
    """
    summary = _summary(_method_rows(measurements))
    return _add_published(
        summary,
        published[published["locator"].isin(["slides, comparison", "slides, seven sets"])],
        {"pearson": "pearson", "spearman": "spearman", "log10_isotropy": "isotropy"},
    )


@table(
    "table2",
    title="Similarity and isotropy by method",
    tables=["measurements"],
    published=True,
    section="Tables 2 and 6",
)
def table2(measurements: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """No, global and cluster-based post-processing: Spearman correlation (times 100) and log10 of
    I(W), mean and sd over clusterings, with the number of pairs beside that of Dzubur (2022), after
    contact with the authors, and of the official release. The paper's baselines of I(W) are most
    probably those of sentences, its others of tokens.
    """
    compared = _method_rows(measurements)
    summary = _summary(compared[compared["method"].isin(PAPER_METHODS)])
    for i, name in enumerate(("n_pairs_dzubur", "n_pairs_official")):
        counts = [PAIRS[d][i] if d in PAIRS else None for d in summary["dataset"]]
        summary[name] = pd.Series(counts, dtype="Int64")
    numbers = published[published["locator"].isin(["Table 2", "Table 6"])]
    table = _add_published(summary, numbers, {"spearman": "spearman", "log10_isotropy": "isotropy"})
    # The paper's baselines are most probably of sentences, its other rows of tokens.
    none = table["method"] == "none"
    table["published_log10_isotropy_sentences"] = table["published_log10_isotropy"].where(none)
    table["published_log10_isotropy"] = table["published_log10_isotropy"].where(~none)
    return table


@table(
    "table1",
    title="Isotropy by number of clusters",
    tables=["measurements"],
    published=True,
    needs="cluster-counts",
    section="Table 1",
)
def table1(measurements: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """The effect of the number of clusters: log10 of I(W) after k-means and subtracting each
    cluster's mean.
    """
    counted_setups = measurements[
        measurements["setup"].isin(measurements.loc[measurements["part"] == "clusters", "setup"])
    ]
    selected = counted_setups[
        (counted_setups["part"] == "clusters") | (counted_setups["method"] == "none")
    ]
    rows = _summary(selected, "n_clusters")
    quantity = pd.Series(["none" if pd.isna(k) else f"k={k}" for k in rows["n_clusters"]])
    values = _printed(rows, published, quantity.where(rows["layer"] == LAST, ""), "Table 1")
    return rows.assign(published_log10_isotropy=_log10(values)).drop(
        columns=_similarity_columns(rows)
    )


@table(
    "table5",
    title="Isotropy by layer",
    tables=["measurements"],
    published=True,
    needs="isotropy-by-layer",
    section="Table 5",
)
def table5(measurements: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Isotropy of every layer without post-processing: log10 of I(W) of all token vectors, with its
    lowest and highest value over the signs of eigenvectors, which are arbitrary.
    """
    selected = measurements[(measurements["method"] == "none") & measurements["profiled"]]
    columns = [*FACTS, "n_tokens", "d", *with_range("log10_isotropy")]
    runs = selected[columns].groupby(["dataset", "embedding"], sort=False)
    rows = pd.concat(run.sort_values("layer") for _, run in runs).reset_index(drop=True)
    quantity = rows["layer"].map("layer {:.0f}".format)
    values = _printed(rows, published, quantity, "Table 5")
    return rows.assign(published_log10_isotropy=_log10(values))


@table(
    "against_input",
    title="Hidden layers against the input",
    tables=["table5"],
    needs="isotropy-by-layer",
    section="slides, BERT",
)
def against_input(table5: pd.DataFrame) -> pd.DataFrame:
    """Isotropy of each hidden layer against that of the input, layer 0.

    By how many orders of magnitude I(W) is larger, and whether the layer is more anisotropic; per
    data set and model (the setup).
    """
    rows = table5.assign(setup=table5["dataset"] + ", " + table5["embedding"])
    inputs = rows[rows["layer"] == 0].set_index("setup")
    hidden = rows[(rows["layer"] > 0) & rows["setup"].isin(inputs.index)].reset_index(drop=True)
    value, low, high = with_range("log10_isotropy")
    orders, lowest, highest = (
        hidden[ours] - hidden["setup"].map(inputs[of_input])
        for ours, of_input in ((value, value), (low, high), (high, low))
    )
    columns = [*FACTS, "log10_isotropy"]
    return hidden[columns].assign(
        orders=orders,
        orders_low=lowest,
        orders_high=highest,
        more_anisotropic=(orders < 0).astype(float),
        more_anisotropic_low=(highest < 0).astype(float),
        more_anisotropic_high=(lowest < 0).astype(float),
    )


@table(
    "table3",
    title="Classification on frozen features",
    tables=["convergence"],
    published=True,
    needs="classification",
    section="Table 3",
)
def table3(convergence: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Classification on frozen features: score on the validation set at the best epoch, as the
    authors take it, and at the last; the paper's numbers are of test servers. Transductive:
    clusters of training and validation items together, as the authors; inductive: of training items
    alone.
    """
    keys = ["setup", "task", "embedding", "layer", "metric", "status", "deviations", "chance"]
    keys += ["n_train", "n_validation", "method", "title", "clustering", "classifier"]
    rows = []
    per_seed = _best_and_last(convergence)
    for key, group in per_seed.groupby(keys, sort=False):
        row = dict(zip(keys, key, strict=True))
        for name in ("best", "last", "log10_isotropy"):
            row |= {name: group[name].mean(), f"{name}_sd": group[name].std(ddof=1)}
        n_items, metric = int(group["n_validation"].iloc[0]), str(group["metric"].iloc[0])
        low, high = interval(group["best"].to_numpy(dtype=float), n_items, metric)
        row |= {"best_low": low, "best_high": high, "n_items": n_items}
        rows.append(row | {"n_seeds": len(group), "interval_method": SEEDS_AND_ITEMS})
    table = pd.DataFrame(rows)
    authors = (table["classifier"] == "mlp") & table["clustering"].isin(["none", "transductive"])
    authors &= table["metric"] == np.where(table["task"] == "cola", "matthews", "accuracy")
    values = _printed(table.assign(dataset=table["task"]), published, table["method"], "Table 3")
    return table.assign(published=values.where(authors))


@table(
    "finetuning",
    title="Fine-tuning with the method inside",
    tables=["cls_layers"],
    runs="clustered",
    kind="finetuned",
    run_table="points",
    published=True,
    needs="finetuning",
    section="slides, fine-tuning",
)
def finetuning(
    fine_tuned: FineTunedRuns, cls_layers: pd.DataFrame, published: pd.DataFrame
) -> pd.DataFrame:
    """Fine-tuning without and with the method inside, on the first tokens of each batch:
    performance, and log10 of I(W) of first tokens of the last layer. Clusters, components, rate and
    batch are not stated on the slides.

    `performance_change_items_error` is the standard error of the change over items (paired
    bootstrap).
    """
    errors = {
        setup: error_of_change(
            [r for r in fine_tuned if _finetuning_setup(r[0]) == setup], *_COMPARED_METHODS
        )
        for setup in dict.fromkeys(_finetuning_setup(run) for run, _ in fine_tuned)
    }
    last = cls_layers[cls_layers["layer"] == cls_layers.groupby("setup")["layer"].transform("max")]
    none = last[last["method"] == "none"]
    learned = {str(s): rows_have_learned(group) for s, group in none.groupby("setup")}
    too_short = {
        _finetuning_setup(run): TRAINING.shortfall(run.task, run.updates, run.learning_rate)
        for run, _ in fine_tuned
    }
    rows = []
    for (setup, seed), group in last.groupby(["setup", "seed"], sort=False):
        rows_by_method = group.set_index("method")
        facts = group.iloc[0][_FINETUNING_FACTS].to_dict()
        row = {"setup": setup, **facts, "seed": str(seed), "learned": learned[str(setup)]}
        row["too_short"] = too_short[str(setup)]
        for method in ("none", "cluster"):
            method_row = rows_by_method.loc[method]
            row |= {f"{method}_{n}": method_row[n] for n in ("performance", "log10_isotropy")}
            row |= dict.fromkeys((f"{method}_published", f"{method}_published_log10_isotropy"))
        row["none_mean_norm"] = rows_by_method.loc["none", "mean_norm"]
        row["performance_change"] = row["cluster_performance"] - row["none_performance"]
        row["performance_change_items_error"] = errors[str(setup)]
        row["isotropy_change"] = row["cluster_log10_isotropy"] - row["none_log10_isotropy"]
        rows.append(row)
    table = pd.DataFrame(rows)
    of_slides = partial(_printed, table.assign(dataset=table["task"]), published)
    for method in ("none", "cluster"):
        accuracy, isotropy = (
            of_slides(pd.Series(f"{method}_{name}", table.index), "slides, fine-tuning")
            for name in ("accuracy", "isotropy")
        )
        table[f"{method}_published"] = accuracy.where(table["metric"] == "accuracy")
        table[f"{method}_published_log10_isotropy"] = _log10(isotropy)
    return table


def _with_setup(run: SimilarityFacts) -> dict[str, object]:
    layer_name = "words" if run.layer is None else f"layer {run.layer}"
    facts = {
        "setup": f"{run.dataset}, {run.embedding}, {layer_name}",
        **run.model_dump(exclude={"parameters"}),
    }
    return facts | {"layer": math.nan if run.layer is None else float(run.layer)}


def _method_rows(measurements: pd.DataFrame) -> pd.DataFrame:
    """Rows of the methods and their controls: without those on the number of clusters, and without
    setups that have only one method.
    """
    method_rows = measurements[measurements["part"].isin(["methods", "controls"])]
    several = method_rows.groupby("setup")["method"].transform("nunique") > 1
    return method_rows[several]


def _summary(rows: pd.DataFrame, *extra_keys: str) -> pd.DataFrame:
    """Mean and sd over runs per setup and method."""
    keys = [*FACTS, "n_pairs", "n_tokens", "method", "title", *extra_keys]
    summaries = []
    for key, group in rows.groupby(keys, sort=False, dropna=False):
        row: dict[str, object] = dict(zip(keys, key, strict=True))
        similarities = ("pearson", "spearman", "spearman_of_removed", "variance_left")
        for name in (*similarities, *ISOTROPIES, "isoscore"):
            row |= {name: group[name].mean(), f"{name}_sd": group[name].std(ddof=1)}
        limits = [limit for name in ISOTROPIES for limit in with_range(name)[1:]]
        row |= {limit: group[limit].mean() for limit in limits}
        n_pairs = int(group["n_pairs"].iloc[0])
        for name in ("pearson", "spearman"):
            values = group[name].to_numpy(dtype=float)
            has_interval = n_pairs > 3 and np.isfinite(values).all()
            bounds = interval(values, n_pairs, name) if has_interval else (math.nan, math.nan)
            row |= {f"{name}_low": bounds[0], f"{name}_high": bounds[1]}
        summaries.append(
            row | {"n_runs": len(group), "n_items": n_pairs, "interval_method": SEEDS_AND_ITEMS}
        )
    return pd.DataFrame(summaries)


def _similarity_columns(table: pd.DataFrame) -> list[str]:
    return [c for c in table.columns if c.startswith(("pearson", "spearman"))]


def _add_published(
    summary: pd.DataFrame, published: pd.DataFrame, columns: dict[str, str]
) -> pd.DataFrame:
    """Add published values, in the papers' layer only.

    Args:
        summary: our values.
        published: the published values.
        columns: column of ours -> quantity in `published`; isotropy is added as log10.
    """
    is_paper_layer = summary["layer"] == LAST
    for column, quantity in columns.items():
        quantities = (summary["method"] + f" {quantity}").where(is_paper_layer, "")
        values = _printed(summary, published, quantities)
        summary[f"published_{column}"] = _log10(values) if quantity == "isotropy" else values
    return summary


def _printed(
    rows: pd.DataFrame, published: pd.DataFrame, quantity: pd.Series, locator: str | None = None
) -> pd.Series:
    """The published value of each row's data set, model and quantity."""
    keys = {"dataset": rows["dataset"].str.removesuffix("-quoted"), "model": rows["embedding"]}
    if locator is not None:
        published = published[published["locator"] == locator]
    return printed(rows, published, quantity=quantity, **keys)


def _log10(values: Iterable[float]) -> list[float]:
    return [math.log10(v) if v > 0 else math.nan for v in values]


def _paired_runs(rows: pd.DataFrame) -> Iterator[tuple[dict[str, object], dict[str, pd.Series]]]:
    """Yield facts and the row of each method, per setup and run of k-means. A method with several
    runs has the row of the same seed.
    """
    for _, group in rows.groupby("setup", sort=False):
        clustered = group[group["method"] == "kmeans"]
        for _, clustered_row in clustered.iterrows():
            run = {}
            for method, method_rows in group.groupby("method"):
                same_seed = method_rows[method_rows["seed"] == clustered_row["seed"]]
                run[str(method)] = (same_seed if len(same_seed) else method_rows).iloc[0]
            facts = {name: clustered_row[name] for name in FACTS}
            yield facts | {"seed": str(clustered_row["seed"])}, run


def _value(run: dict[str, pd.Series], method: str, column: str) -> float:
    return float(run[method][column]) if method in run else math.nan


def _range_of_difference(
    name: str, run: dict[str, pd.Series], method: str, column: str
) -> dict[str, float]:
    """The cluster-based method minus another; with I(W), also lowest and highest over signs."""
    row = {name: _value(run, "kmeans", column) - _value(run, method, column)}
    if column in ISOTROPIES:
        _, low, high = with_range(column)
        row[f"{name}_low"] = _value(run, "kmeans", low) - _value(run, method, high)
        row[f"{name}_high"] = _value(run, "kmeans", high) - _value(run, method, low)
    return row


def _facts_first(rows: list[dict[str, object]]) -> pd.DataFrame:
    columns = [*FACTS, "seed"]
    table = pd.DataFrame(rows, columns=None if rows else columns)
    return table[[*columns, *(c for c in table.columns if c not in columns)]]


def _best_and_last(convergence: pd.DataFrame) -> pd.DataFrame:
    """Per method, classifier and seed: the score at the epoch that the authors report, and at the
    last.

    They report the epoch with the best accuracy, and among equal ones that with the smallest loss.
    """
    keys = ["setup", "method", "clustering", "classifier", "seed"]
    ordered = convergence.sort_values("epoch", kind="stable")
    ranked = ordered.sort_values(["accuracy", "loss"], ascending=[False, True], kind="stable")
    best = ranked.drop_duplicates(keys)[[*keys, "score", "epoch"]]
    last = ordered.groupby(keys, sort=False).agg(last=("score", "last")).reset_index()
    scores = best.rename(columns={"score": "best"}).merge(last, on=keys)
    facts = convergence.drop_duplicates(keys).drop(columns=["epoch", "score"])
    return facts.merge(scores, on=keys, how="left", validate="one_to_one")


@table(
    "directions",
    title="Gains in isotropy",
    tables=["measurements"],
    section="4",
)
def directions(measurements: pd.DataFrame) -> pd.DataFrame:
    """What the claims on isotropy are about, per setup and clustering: orders of magnitude that
    I(W) rises by, the same with all clouds at the root mean square norm that they had before
    (shorter vectors alone raise I(W)), and IsoScore; minus none, the global method, random parts of
    the same sizes, and the global method with equal variance removed. I(W) has its range over the
    signs of eigenvectors. Static vectors are one cloud, whatever pairs of words are scored: they
    have the rows of the first set of pairs.

    I(W) at equal norm and IsoScore do not depend on the length of vectors.
    """
    first_setups = measurements.groupby("embedding")["setup"].transform("first")
    repeated = measurements["layer"].isna() & (measurements["setup"] != first_setups)
    rows = []
    for facts, run in _paired_runs(_method_rows(measurements[~repeated])):
        row: dict[str, object] = {}
        for name, column in ISOTROPY_GAINS.items():
            row |= _range_of_difference(f"{name}_gain", run, "none", column)
            for other, method in ({"global": "abtt"} | CONTROLS).items():
                difference = f"{name}_cluster_minus_{other}"
                row |= _range_of_difference(difference, run, method, column)
        rows.append(row | facts)
    return _facts_first(rows)


@table(
    "directions_similarity",
    title="Gains in similarity",
    runs="similarity",
    kind="similarity",
    run_table="pairs",
    section="4.1",
)
def directions_similarity(runs: MeasuredRuns) -> pd.DataFrame:
    """What the claims on similarity are about, per setup: differences of Spearman correlations,
    times 100, with 95 % intervals from a paired bootstrap over pairs, with clusterings drawn
    outside.
    """
    rows = []
    for run, pairs in runs:
        if pairs.empty or pairs["method"].nunique() < 2:
            continue
        facts = _with_setup(run)
        row = {name: facts[name] for name in FACTS} | {"n_items": run.n_pairs}
        rows.append(row | {"interval_method": PAIRED_BOOTSTRAP} | _gains(pairs))
    columns = [*FACTS, "n_items", "interval_method"]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


def _gains(pairs: pd.DataFrame) -> dict[str, float]:
    """Each comparison of two methods on the same pairs of texts: difference and its interval."""
    wide = pairs.pivot(index=["method", "seed"], columns="pair", values="cosine")
    first_rows = pairs.drop_duplicates("pair").set_index("pair").loc[wide.columns]
    scores, texts = first_rows["score"].to_numpy(), first_rows[["first", "second"]].to_numpy()
    resampled = spearman_draws(wide.to_numpy(), scores)
    influences = spearman_influences(wide.to_numpy(), scores)
    draws, means, influence = {}, {}, {}
    for method, rows in wide.groupby("method").indices.items():
        rho = [scipy.stats.spearmanr(row, scores).statistic for row in wide.to_numpy()[rows]]
        means[method] = 100 * float(np.mean(rho))
        # Each method has its own draws: equal seeds of different methods are independent runs
        seed = list(METHOD_TITLES).index(str(method))
        draws[method] = 100 * mean_of_seeds(resampled[rows], seed=seed)
        influence[method] = influences[rows].mean(axis=0)
    gains: dict[str, float] = {}
    for name, (better, worse) in COMPARISONS.items():
        if better in draws and worse in draws:
            gain = means[better] - means[worse]
            difference = draws[better] - draws[worse]
            by_pair = influence[better] - influence[worse]
            low, high = percentiles(widen(difference, gain, by_pair, texts))
            gains |= {name: gain, f"{name}_low": low, f"{name}_high": high}
    return gains


@table(
    "classification_directions",
    title="Gains in classification",
    tables=["convergence"],
    runs="classification",
    kind="classified",
    run_table="answers",
    needs="classification",
    section="4.2",
)
def classification_directions(runs: ClassifiedRuns, convergence: pd.DataFrame) -> pd.DataFrame:
    """What the claims on classification are about, per task and seed: best score of the
    cluster-based method minus that without post-processing.

    `…_items_error` is the standard error over items of the mean over seeds (paired bootstrap).
    """
    rows = []
    per_seed = _best_and_last(convergence)
    none = per_seed[(per_seed["method"] == "none") & (per_seed["classifier"] == "mlp")]
    learned = {
        str(setup): rows_have_learned(group, "best") for setup, group in none.groupby("setup")
    }
    errors = {
        _classification_setup(run): _gain_errors(run, answers, per_seed) for run, answers in runs
    }
    for (setup, seed), group in per_seed.groupby(["setup", "seed"], sort=False):
        best = group.set_index(["method", "clustering", "classifier"])["best"]
        if "kmeans" not in best.index.get_level_values(0):
            continue
        facts = group.iloc[0][
            ["task", "embedding", "data", "model", "status", "deviations"]
        ].to_dict()
        row = {"setup": setup, **facts, "seed": str(seed), "learned": learned[str(setup)]}
        for clustering in ("transductive", "inductive"):
            for classifier in ("mlp", "logistic"):
                gain = best["kmeans", clustering, classifier] - best["none", "none", classifier]
                row[f"{clustering}_{classifier}_gain"] = gain
        rows.append(row | errors[str(setup)])
    return pd.DataFrame(rows)


def _gain_errors(
    run: ClassificationFacts, answers: pd.DataFrame, per_seed: pd.DataFrame
) -> dict[str, float]:
    """Standard error over items of each gain, from the answers at the best epochs."""
    keys = ["method", "clustering", "classifier", "seed"]
    epochs = per_seed.loc[per_seed["setup"] == _classification_setup(run), [*keys, "epoch"]]
    wide = answers.merge(epochs).pivot(index=keys, columns="item", values="predicted")
    target = answers.drop_duplicates("item").set_index("item").loc[wide.columns, "right"].to_numpy()
    draws = {
        str(key): score_draws(run.metric, predictions.to_numpy(), target)
        for key, predictions in wide.groupby(keys[:3])
    }
    return {
        f"{clustering}_{classifier}_gain_items_error": items_error(
            draws[str(("kmeans", clustering, classifier))], draws[str(("none", "none", classifier))]
        )
        for clustering in ("transductive", "inductive")
        for classifier in ("mlp", "logistic")
        if "kmeans" in wide.index.get_level_values(0)
    }


def _classification_setup(run: ClassificationFacts) -> str:
    """Name of the setup of a classification."""
    return f"{run.task}, {run.embedding}, layer {run.layer}"


@table(
    "tuning",
    title="Numbers of clusters and components tried",
    runs="tuning",
    kind="tuning",
    needs="tuning",
    section="B.2",
)
def tuning(runs: TunedRuns) -> pd.DataFrame:
    """All numbers of clusters and components that were tried on the development set, and which were
    chosen.
    """
    parts: list[tuple[dict[str, object], pd.DataFrame]] = []
    for run, rows in runs:
        chosen = run.parameters
        best = rows["n_components"] == np.where(
            rows["method"] == "abtt", chosen.n_components_global, chosen.n_components
        )
        best &= (rows["method"] == "abtt") | (rows["n_clusters"] == chosen.n_clusters)
        facts = run.model_dump(include={"embedding", "layer", "status", "dataset"})
        parts.append((facts, rows.assign(chosen=best)))
    return long_table(parts)


@table(
    "measurements",
    title="Every measurement",
    runs="similarity",
    kind="similarity",
    section="4",
)
def measurements(runs: MeasuredRuns) -> pd.DataFrame:
    """Every measurement: data set, model, layer, method and clustering."""
    table = long_table((_with_setup(run), rows) for run, rows in runs)
    # The paper measures all layers in Table 5, but only the last in Table 1.
    hidden = (table["part"] == "clusters") & (table["layer"] != LAST)
    table = deviate(table, hidden, "Table 1 is of the last layer")
    return table.assign(title=table["method"].map(METHOD_TITLES))


@table(
    "words",
    title="Tokens in a plane, before and after",
    runs="plotted",
    kind="similarity",
    run_table="points",
    needs="plotted",
    section="slides; Figures 1 and 2",
)
def words(runs: MeasuredRuns) -> pd.DataFrame:
    """Tokens in the plane of their first two principal components, before and after the method."""
    return long_table((_with_setup(run), rows) for run, rows in runs)


@table(
    "convergence",
    title="Classification by epoch",
    runs="classification",
    kind="classified",
    needs="classification",
    section="Figure 4",
)
def convergence(runs: ClassifiedRuns) -> pd.DataFrame:
    """Scores of classifiers on frozen features after each epoch; epoch 0 is the linear control.

    Scores are those on the validation set.
    """
    parts: list[tuple[dict[str, object], pd.DataFrame]] = []
    for run, rows in runs:
        facts: dict[str, object] = {"setup": _classification_setup(run)}
        facts |= run.model_dump(exclude={"parameters"}) | run.parameters.model_dump()
        parts.append((facts, rows.assign(score=rows[run.metric])))
    return long_table(parts).assign(title=lambda t: t["method"].map(METHOD_TITLES))


@table(
    "cls_layers",
    title="First tokens by layer",
    runs="clustered",
    kind="finetuned",
    run_table="layers",
    needs="finetuning",
    section="slides, fine-tuning analysis",
)
def cls_layers(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """First tokens of fine-tuned models layer by layer: log10 of I(W), and the norm of their mean
    over the mean of their norms.
    """
    parts: list[tuple[dict[str, object], pd.DataFrame]] = []
    for run, layers in fine_tuned:
        facts: dict[str, object] = {
            "setup": _finetuning_setup(run),
            "task": run.task,
            "embedding": run.model,
        }
        facts |= {"method": run.method.kind, "metric": run.metric}
        facts |= {"data": run.data, "model": run.embedding}
        facts |= fields(run, "status", "deviations", "seed", "n_train", "performance", "chance")
        facts |= fields(run, "updates", "n_validation")
        rows = layers[["layer", "sentence_log10_isotropy", "sentence_mean_norm"]]
        rows = rows.rename(
            columns={"sentence_log10_isotropy": "log10_isotropy", "sentence_mean_norm": "mean_norm"}
        )
        parts.append((facts, rows))
    return long_table(parts)


def _finetuning_setup(run: FinetuneFacts) -> str:
    """Name of the setup of a fine-tuned model."""
    return f"{run.task}, {run.model}"
