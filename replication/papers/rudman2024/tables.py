"""Tables of Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR, and of its poster.

A setup is a task with a model. Methods are `none`, `CosReg`, and I-STAR with one lambda and zeta;
where a claim orders models by lambda, `none` stands at lambda = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pandas as pd
import scipy

from isotropy.printable import print_minus
from replication.finetune.spec import FinetuneFacts
from replication.geometry.spec import StabilityFacts
from replication.papers.declare import table
from replication.papers.rudman2024.protocol import LAMBDAS, TASKS, TRAINING, ZETAS
from replication.tables.bootstrap import items_error, performance_draws
from replication.tables.items import SEEDS_AND_ITEMS, interval, rows_have_learned
from replication.tables.runs import deviate, fields, join_deviations, long_table

FineTunedRuns = Sequence[tuple[FinetuneFacts, pd.DataFrame]]
"""Facts about each fine-tuned model, and one of its tables."""
SampledClouds = Sequence[tuple[StabilityFacts, pd.DataFrame]]
"""Facts about each cloud, and the scores of its samples."""

NEGATIVE_LAMBDAS = tuple(strength for strength in LAMBDAS if strength < 0)
POINTS_SHOWN = 1000
SHOWN = ["label", "predicted", "x", "y"]
PUBLISHED_BATCH = 700  # sample size in the paper's figure on stability, as quoted by others
METRICS = ["accuracy", "f1", "matthews", "pearson", "spearman", "exact_match"]
NAMES = {"none": "none", "cosreg": "CosReg", "istar": "I-STAR"}


Answers = Mapping[tuple[object, object, object], tuple[FinetuneFacts, pd.DataFrame]]
"""Facts and items of each run, by setup, method and seed."""
_ABOUT = ["status", "deviations", "data", "embedding"]
_CASE = ["setup", "seed", *_ABOUT]
"""Columns of a table without rows."""


@table("table1", title="Performance by model, task and method", tables=["runs"], section="Table 1")
def table1(table: pd.DataFrame) -> pd.DataFrame:
    """Performance per model, task and method on the whole validation set, mean and sd over seeds,
    times 100. I-STAR with the best negative lambda and zeta per task, chosen on the same set, as
    the paper seems to. Of the paper's table we have only what secondary sources quote.
    """
    rows = []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        for name, method_rows in _methods(group):
            values = method_rows["performance"]
            first = method_rows.iloc[0]
            metric, n_items = first["metric"], int(first["n_validation"])
            low, high = interval(values.to_numpy(dtype=float), n_items, metric)
            rows.append(
                {
                    "model": model,
                    "task": task,
                    "method": name,
                    "metric": metric,
                    **first[["strength", "zeta"]],
                    "performance": values.mean(),
                    "performance_sd": values.std(ddof=1),
                    "performance_low": low,
                    "performance_high": high,
                    "n_seeds": len(values),
                    "n_items": n_items,
                    "interval_method": SEEDS_AND_ITEMS,
                    "isoscore_star": method_rows["isoscore_star"].mean(),
                    "too_short": _too_short(method_rows),
                    **_common_status(method_rows),
                }
            )
    return pd.DataFrame(rows)


@table(
    "averages",
    title="Performance averaged over tasks",
    tables=["runs"],
    runs="finetune",
    kind="finetuned",
    run_table="points",
    section="poster, Figure 6",
)
def averages(fine_tuned: FineTunedRuns, table: pd.DataFrame) -> pd.DataFrame:
    """Performance averaged over tasks, per model and seed: I-STAR (per task the negative lambda and
    zeta that are best on the first half of the seeds, reported on the others; the mean over all;
    the best on all seeds), no penalty, CosReg.

    `istar` has, per task, the negative lambda and the zeta that are best on the first half of the
    seeds. It is `reported` on the other seeds only: scores that were chosen by one another, such as
    those of each seed by the others, would not be independent. `istar_mean` is the mean over all
    negative lambdas, `istar_best` the best of them on all seeds (see `table1`). Tasks that models
    without penalty did not learn are left out, and listed in `not_learned`. `…_items_error` is the
    standard error of a mean over seeds over the items of the tasks (paired bootstrap).
    """
    rows = []
    answers = {
        (row["setup"], row["method"], row["seed"]): (run, items)
        for run, items in fine_tuned
        for row in [_facts(run)]
    }
    for model, model_rows in table.groupby("model", sort=False):
        learned = {
            task: _learned(task_rows) for task, task_rows in model_rows.groupby("task", sort=False)
        }
        group = model_rows[model_rows["task"].map(learned)]
        facts = _common_status(model_rows)
        if absent := [task for task in TASKS if task not in set(model_rows["task"])]:
            facts = _with_deviation(facts, f"without the tasks {', '.join(absent)}")
        facts = _with_absent_values(facts, "lambda", NEGATIVE_LAMBDAS, model_rows["strength"])
        facts = _with_absent_values(facts, "zeta", ZETAS, model_rows["zeta"])
        model_facts = {
            "setup": model,
            "model": model,
            "n_tasks": group["task"].nunique(),
            "learned": bool(any(learned.values())),
            "too_short": _too_short(model_rows),
            "not_learned": ", ".join(
                str(task) for task, is_learned in learned.items() if not is_learned
            ),
            **facts,
            "data": "; ".join(dict.fromkeys(group["data"])),
            "embedding": model_rows["embedding"].iloc[0],
        }
        seeds = sorted(model_rows["seed"].unique())
        choosing = _choosing_seeds(group, seeds)
        errors = _average_errors(group, seeds, choosing, answers)
        for seed in seeds:
            about = {"seed": str(seed), "reported": seed not in choosing}
            rows.append(model_facts | about | _average(group, seed, choosing) | errors)
    return pd.DataFrame(rows)


def _choosing_seeds(group: pd.DataFrame, seeds: Sequence[int]) -> list[int]:
    """The seeds on which lambda and zeta are chosen: the first half, or none if no task has several
    to choose from.
    """
    n_methods = _negative(group).groupby("task")["method"].nunique()
    return list(seeds[: len(seeds) // 2]) if (n_methods > 1).any() else []


def _average_errors(
    group: pd.DataFrame, seeds: Sequence[int], choosing: Sequence[int], answers: Answers
) -> dict[str, float]:
    """Standard error over items of each difference of two averages over tasks; NaN where a method
    is missing.
    """
    reported = [seed for seed in seeds if seed not in choosing]
    draws = {
        (name, seed): _average_draws(group, seed, name, choosing, answers)
        for name in NAMES
        for seed in (reported if name == "istar" else seeds)
    }
    errors = {}
    for name, other in (("istar", "none"), ("istar", "cosreg"), ("none", "cosreg")):
        compared = reported if name == "istar" else seeds
        better, worse = (_stack([draws[n, seed] for seed in compared]) for n in (name, other))
        error = np.nan if better is None or worse is None else items_error(better, worse)
        errors[f"{name}_minus_{other}_items_error"] = error
    return errors


def _stack(seed_draws: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Stack draws of all seeds, shape (seeds, resamples); None if a seed has none."""
    complete = [draws for draws in seed_draws if draws is not None]
    return np.stack(complete) if len(complete) == len(seed_draws) > 0 else None


def _average_draws(
    group: pd.DataFrame, seed: int, name: str, choosing: Sequence[int], answers: Answers
) -> np.ndarray | None:
    """The average over tasks of one method and seed, in resamples of the items of each task."""
    task_draws = []
    for i, (_, task_rows) in enumerate(group.groupby("task")):
        if name == "istar":
            method = _chosen_method(task_rows, choosing)
        else:
            method = next(iter(task_rows.loc[task_rows["kind"] == name, "method"]), None)
        run_answers = answers.get((task_rows["setup"].iloc[0], method, seed))
        if run_answers is None:
            return None
        task_draws.append(performance_draws(*run_answers, seed=i))
    return np.mean(task_draws, axis=0) if task_draws else None


def _average(group: pd.DataFrame, seed: int, choosing: Sequence[int]) -> dict[str, float]:
    """Means over tasks of one model and seed, and their differences."""
    seed_rows = group[group["seed"] == seed]
    tasks = [] if seed in choosing else [rows for _, rows in group.groupby("task")]
    means = {
        "istar": _mean(_performance_of_chosen(rows, seed, choosing) for rows in tasks),
        "istar_mean": _mean(_negative(seed_rows).groupby("task")["performance"].mean()),
        "istar_best": _mean(_best_performance(g, seed) for _, g in group.groupby("task")),
    }
    for kind in ("none", "cosreg"):
        means[kind] = _mean(seed_rows.loc[seed_rows["kind"] == kind, "performance"])
    for name in ("istar", "istar_mean", "istar_best"):
        means[f"{name}_minus_none"] = means[name] - means["none"]
    means["istar_minus_cosreg"] = means["istar"] - means["cosreg"]
    means["none_minus_cosreg"] = means["none"] - means["cosreg"]
    return means


def _performance_of_chosen(task_rows: pd.DataFrame, seed: int, choosing: Sequence[int]) -> float:
    """Performance on one seed of the negative lambda and zeta that were chosen on others."""
    method = _chosen_method(task_rows, choosing)
    selected = task_rows[(task_rows["method"] == method) & (task_rows["seed"] == seed)]
    return float(selected["performance"].mean())


def _chosen_method(task_rows: pd.DataFrame, choosing: Sequence[int]) -> str | None:
    """The negative lambda and zeta that are best on the choosing seeds; None where there are
    several and no such seed.
    """
    negative = _negative(task_rows)
    if negative["method"].nunique() <= 1:
        return next(iter(negative["method"]), None)
    on_choosing = negative[negative["seed"].isin(choosing)]
    means = on_choosing.groupby("method", sort=False)["performance"].mean()
    return None if means.empty else str(means.idxmax())


def _best_performance(task_rows: pd.DataFrame, seed: int) -> float:
    """Performance of the negative lambda and zeta that are best on all seeds."""
    best = dict(_methods(task_rows)).get(NAMES["istar"])
    if best is None:
        return np.nan
    return float(best.loc[best["seed"] == seed, "performance"].mean())


def _mean(values: Iterable[float]) -> float:
    """Mean; NaN if there are no values."""
    numbers = [float(value) for value in values]
    return float(np.mean(numbers)) if numbers else np.nan


@table(
    "directions",
    title="How scores go with lambda",
    tables=["runs"],
    section="4, 5",
)
def directions(table: pd.DataFrame) -> pd.DataFrame:
    """What the claims are about, per task, model and seed: how IsoScore*, performance, intrinsic
    dimension and silhouette go with lambda (no penalty is lambda = 0) and with each other.

    Performance is NaN where models without penalty did not learn the task, since differences would
    be noise. `all_learned` is whether those of each lambda learned it.
    """
    rows = []
    several = table["zeta"].nunique() > 1
    for name, group in table.groupby("setup", sort=False):
        learned = _learned(group)
        for zeta in sorted(group["zeta"].dropna().unique()):
            setup = f"{name}, zeta {zeta:g}" if several else str(name)
            facts = {"all_learned": _all_learned(group, zeta), "too_short": _too_short(group)}
            for seed, seed_rows in group.groupby("seed"):
                direction = _direction(seed_rows, zeta, learned) | facts
                rows.append({"setup": setup, **direction, "seed": str(seed)})
    return pd.DataFrame(rows)


@table("steps", title="Steps between lambdas", tables=["runs"], section="3")
def steps(table: pd.DataFrame) -> pd.DataFrame:
    """By how much IsoScore* changes from each lambda to the next, per seed.

    The model without penalty counts as lambda = 0.
    """
    rows = []
    several = table["zeta"].nunique() > 1
    for name, group in table.groupby("setup", sort=False):
        for zeta in sorted(group["zeta"].dropna().unique()):
            for seed, seed_rows in group.groupby("seed"):
                ordered_runs = _sort_by_lambda(seed_rows, zeta)
                setup_facts = seed_rows.iloc[0][["task", "model", "data", "embedding"]].to_dict()
                facts = (
                    setup_facts
                    | _status_for_zeta(seed_rows, zeta)
                    | {"seed": str(seed), "zeta": zeta}
                )
                facts["setup"] = f"{name}, zeta {zeta:g}" if several else str(name)
                ordered = ordered_runs[["strength", "isoscore_star"]].to_numpy(dtype=float)
                for (a, before), (b, after) in pairwise(ordered):
                    step = print_minus(f"λ {a:g} to {b:g}")
                    rows.append(facts | {"step": step, "isoscore_star_change": after - before})
    return pd.DataFrame(rows)


@table("cosreg", title="CosReg", tables=["runs"], section="5")
def cosreg(table: pd.DataFrame) -> pd.DataFrame:
    """What CosReg changes against no penalty, per seed: mean cosine, and IsoScore*.

    The change of the mean cosine of sentence embeddings of the last layer, and the ratio of
    IsoScore*.
    """
    rows: list[dict[str, object]] = []
    for (_, seed), group in table.groupby(["setup", "seed"], sort=False):
        kind_rows = group.drop_duplicates("kind").set_index("kind")
        if {"none", "cosreg"} <= set(kind_rows.index):
            none, regularized = kind_rows.loc["none"], kind_rows.loc["cosreg"]
            cosine = "sentence_mean_cosine_last"
            compared = group[group["kind"].isin(["none", "cosreg"])]
            rows.append(
                {
                    **regularized[["setup", "task", "model", "data", "embedding"]],
                    **_common_status(compared),
                    "seed": str(seed),
                    "mean_cosine_change": regularized[cosine] - none[cosine],
                    "isoscore_star_ratio": regularized["isoscore_star"] / none["isoscore_star"],
                }
            )
    nothing = [*_CASE, "mean_cosine_change", "isoscore_star_ratio"]
    return pd.DataFrame(rows, columns=None if rows else nothing)


@table(
    "shrinkage",
    title="Performance with shrinkage, less that without",
    tables=["runs"],
    section="appendix",
)
def shrinkage(table: pd.DataFrame) -> pd.DataFrame:
    """Performance of I-STAR with shrinkage minus that without (zeta = 0), per seed; empty where the
    study has no zeta = 0.

    Performance is the mean over negative lambdas; a row per setup, zeta and seed.
    """
    rows = []
    istar = table[(table["kind"] == "istar") & (table["strength"] < 0)]
    for (name, seed), group in istar.groupby(["setup", "seed"], sort=False):
        bare = group.loc[group["zeta"] == 0, "performance"]
        learned = _learned(table[table["setup"] == name])
        for zeta, zeta_rows in group[group["zeta"] > 0].groupby("zeta"):
            if len(bare):
                facts = zeta_rows.iloc[0][["task", "model", "data", "embedding"]].to_dict()
                status = _with_absent_values(
                    _common_status(zeta_rows), "lambda", NEGATIVE_LAMBDAS, zeta_rows["strength"]
                )
                facts |= status | {"learned": learned, "too_short": _too_short(zeta_rows)}
                facts |= {"zeta": zeta, "seed": str(seed)}
                gain = zeta_rows["performance"].mean() - bare.mean()
                setup = f"{name}, zeta {zeta:g}"
                rows.append({"setup": setup, **facts, "performance_gain": gain})
    nothing = [*_CASE, "learned", "too_short", "performance_gain"]
    return pd.DataFrame(rows, columns=None if rows else nothing)


@table(
    "post_processing",
    title="Post-processing",
    runs="finetune",
    kind="finetuned",
    run_table="layers",
    section="2",
)
def post_processing(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """All-But-The-Top as post-processing of models without penalty: performance of the model itself
    (head), of a linear model on frozen sentence embeddings before and after.

    The paper does not state the number of components, the items and the linear model; they are
    ours.
    """
    probed = [(run, {p.method: p for p in run.probes}) for run, _ in fine_tuned if run.probes]
    rows = []
    for run, probes in probed:
        before, after = probes["none"].performance, probes["abtt"].performance
        facts = _facts(run)
        row = {name: facts[name] for name in ("setup", "task", "model", "seed", *_ABOUT)}
        row |= {"metric": run.metric, "head": run.performance, "chance": run.chance}
        row |= {"too_short": TRAINING.shortfall(run.task, run.updates, run.learning_rate)}
        row |= {"n_validation": run.n_validation, "linear": before, "linear_after_abtt": after}
        row |= {"change": after - before, "n_components": probes["abtt"].n_components}
        rows.append(row | {"n_embeddings": probes["abtt"].n_train})
    if not rows:
        linear = ["linear", "linear_after_abtt", "change"]
        return pd.DataFrame(columns=[*_CASE, "learned", "too_short", *linear])
    table = pd.DataFrame(rows)
    learned = {s: rows_have_learned(g, "head") for s, g in table.groupby("setup")}
    table = table.assign(learned=table["setup"].map(learned), seed=table["seed"].astype(str))
    return deviate(table, pd.Series(True, table.index), "components and linear model are ours")


@table(
    "stability_of_batches",
    title="Stability between batches",
    tables=["stability"],
    section="poster, Figure 4",
)
def stability_of_batches(table: pd.DataFrame) -> pd.DataFrame:
    """Relative error of IsoScore* in samples of about 700 points, the published number, and how far
    it is from IsoScore in the smallest and in the largest samples, per cloud, zeta and repeat (the
    seed).

    `relative_error` is the error of IsoScore* in samples of about PUBLISHED_BATCH points, relative
    to the whole cloud; `unbiased_…` that of IsoScore without bias. `difference_…` is the difference
    of IsoScore* from IsoScore of the same samples, relative to IsoScore (both are near 0 for few
    points). `difference_falls` is how much smaller it is in the largest samples than in the
    smallest; it is NaN for zeta = 0, where both scores are the same, and where the largest samples
    have no more points than dimensions.
    """
    rows = []
    for (name, repeat), group in table.groupby(["setup", "repeat"], sort=False):
        unbiased = group.groupby("n")["isoscore_unbiased"].first()
        score = group.pivot_table(index="n", columns="zeta", values="isoscore_star").sort_index()
        whole_score = float(group["whole"].iloc[0])
        batch = min(score.index, key=lambda n: abs(n - PUBLISHED_BATCH))
        enough = score.index[-1] > group["d"].iloc[0]
        for zeta in score.columns:
            difference = (score[zeta] / score[0] - 1).abs().to_numpy()
            rows.append(
                {
                    "setup": f"{name}, zeta {zeta:g}",
                    "cloud": name,
                    "zeta": zeta,
                    "score": "IsoScore*" if zeta else "IsoScore",
                    "seed": str(repeat),
                    **{c: group[c].iloc[0] for c in ("model", *_ABOUT)},
                    "n": int(batch),
                    "value": float(score.loc[batch, zeta]),
                    "whole": whole_score,
                    "relative_value": float(score.loc[batch, zeta]) / whole_score,
                    "relative_error": abs(float(score.loc[batch, zeta]) / whole_score - 1),
                    "unbiased": float(unbiased[batch]),
                    "unbiased_relative_error": abs(float(unbiased[batch]) / whole_score - 1),
                    "n_small": int(score.index[0]),
                    "n_large": int(score.index[-1]),
                    "difference_small": float(difference[0]),
                    "difference_large": float(difference[-1]),
                    "difference_falls": float(difference[0] - difference[-1])
                    if enough and zeta
                    else np.nan,
                }
            )
    return pd.DataFrame(rows)


def _common_status(rows: pd.DataFrame) -> dict[str, str]:
    """The common status of rows, and all their deviations."""
    original = (rows["status"] == "original").all()
    return {
        "status": "original" if original else "stand-in",
        "deviations": join_deviations(*rows["deviations"].unique()),
    }


def _too_short(rows: pd.DataFrame) -> str:
    """Why runs say nothing of performance, the first reason; empty if they do."""
    return next((str(reason) for reason in rows["too_short"] if reason), "")


def _facts(run: FinetuneFacts) -> dict[str, object]:
    """The facts about a run that every row has."""
    method = run.method
    return {
        "setup": f"{run.task}--{run.model}",
        "task": run.task,
        "model": run.model,
        "method": _label(run),
        "kind": method.kind,
        "strength": np.nan if method.strength is None else method.strength,
        "zeta": np.nan if method.zeta is None else method.zeta,
        **fields(run, "seed", *_ABOUT, "n_train", "updates"),
    }


def _label(run: FinetuneFacts) -> str:
    """Label of a run: its method, lambda and zeta."""
    parts = [NAMES[run.method.kind]]
    if run.method.strength is not None:
        parts.append(print_minus(f"λ = {run.method.strength:g}"))
    if run.method.zeta is not None:
        parts.append(f"ζ = {run.method.zeta:g}")
    return ", ".join(parts)


def _negative(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of I-STAR with negative lambda and positive zeta: zeta = 0, without shrinkage, is only
    an ablation in the paper.
    """
    return rows[(rows["kind"] == "istar") & (rows["strength"] < 0) & (rows["zeta"] > 0)]


def _learned(group: pd.DataFrame) -> bool:
    """Whether models without penalty learned the task (`has_learned`), for one task and model."""
    return rows_have_learned(group[group["kind"] == "none"])


def _all_learned(group: pd.DataFrame, zeta: float) -> bool:
    """Whether models without penalty and those of every lambda learned the task, for one zeta."""
    compared = group[(group["kind"] == "none") | (group["zeta"] == zeta)]
    return all(rows_have_learned(rows) for _, rows in compared.groupby("method"))


def _methods(group: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield the rows of a task and model, method by method; I-STAR with its best negative
    lambda and zeta, if there is one.
    """
    for kind in ("none", "cosreg"):
        if (group["kind"] == kind).any():
            yield NAMES[kind], group[group["kind"] == kind]
    negative = _negative(group)
    if len(negative):
        best = str(negative.groupby("method", sort=False)["performance"].mean().idxmax())
        yield NAMES["istar"], negative[negative["method"] == best]


def _direction(group: pd.DataFrame, zeta: float, learned: bool) -> dict[str, object]:
    """The row of `directions` for one setup, seed and zeta."""
    group = group if learned else group.assign(performance=np.nan)
    first = group.iloc[0]
    none = group[group["kind"] == "none"].iloc[0]
    istar = group[(group["kind"] == "istar") & (group["zeta"] == zeta)]
    ordered_runs = _sort_by_lambda(group, zeta)
    negative, positive = istar[istar["strength"] < 0], istar[istar["strength"] > 0]
    cosreg = group[group["kind"] == "cosreg"]

    def change(rows: pd.DataFrame, column: str) -> float:
        return float(rows[column].mean()) - float(none[column]) if len(rows) else np.nan

    return {
        **first[["task", "model", "data", "embedding", "metric"]],
        **_status_for_zeta(group, zeta),
        "zeta": zeta,
        "learned": learned,
        "n_lambdas": len(ordered_runs),
        "lambda_isoscore_rho": _rho(ordered_runs["strength"], ordered_runs["isoscore_star"]),
        "isoscore_star_change_positive": change(positive, "isoscore_star"),
        "isoscore_star_change_negative": change(negative, "isoscore_star"),
        "isoscore_performance_r": _r(ordered_runs["isoscore_star"], ordered_runs["performance"]),
        "isoscore_performance_rho": _rho(
            ordered_runs["isoscore_star"], ordered_runs["performance"]
        ),
        "performance_change_negative": change(negative, "performance"),
        "performance_change_positive": change(positive, "performance"),
        "performance_change_cosreg": change(cosreg, "performance"),
        "isoscore_star_change_cosreg": change(cosreg, "isoscore_star"),
        "mean_cosine_change_cosreg": change(cosreg, "sentence_mean_cosine_last"),
        "lambda_two_nn_rho": _rho(ordered_runs["strength"], ordered_runs["two_nn_mean"]),
        "isoscore_silhouette_rho": _rho(
            ordered_runs["isoscore_star"], ordered_runs["silhouette_last"]
        ),
    }


def _sort_by_lambda(group: pd.DataFrame, zeta: float) -> pd.DataFrame:
    """Runs of one setup and seed in the order of lambda; no penalty counts as lambda = 0."""
    istar = group[(group["kind"] == "istar") & (group["zeta"] == zeta)]
    none = group[group["kind"] == "none"].iloc[:1].assign(strength=0.0)
    return pd.concat([istar, none]).sort_values("strength")


def _status_for_zeta(group: pd.DataFrame, zeta: float) -> dict[str, str]:
    """Status and deviations of a setup; without shrinkage (zeta = 0), or without one of the
    authors' lambdas, it is a stand-in.
    """
    compared = group[(group["kind"] != "istar") | (group["zeta"] == zeta)]
    status = _common_status(compared)
    strengths = compared.loc[compared["kind"] == "istar", "strength"]
    status = _with_absent_values(status, "lambda", LAMBDAS, strengths)
    return status if zeta > 0 else _with_deviation(status, "no shrinkage (zeta 0)")


def _with_absent_values(
    facts: dict[str, str], name: str, theirs: Iterable[float], ours: Iterable[float]
) -> dict[str, str]:
    """Status and deviations of what is compared over all values of a hyper-parameter: a stand-in if
    some of the authors' are absent.
    """
    values = set(ours)
    absent = ", ".join(f"{value:g}" for value in theirs if value not in values)
    return _with_deviation(facts, f"without {name} {absent}") if absent else facts


def _with_deviation(facts: dict[str, str], reason: str) -> dict[str, str]:
    """Status and deviations of a result with one more deviation."""
    return {"status": "stand-in", "deviations": join_deviations(facts["deviations"], reason)}


def _rho(x: pd.Series, y: pd.Series) -> float:
    """Spearman's rho; NaN where a value is missing, or one side does not vary."""
    return _correlation(x, y, lambda a, b: scipy.stats.spearmanr(a, b).statistic)


def _r(x: pd.Series, y: pd.Series) -> float:
    """Pearson's r; NaN where a value is missing, or one side does not vary."""
    return _correlation(x, y, lambda a, b: scipy.stats.pearsonr(a, b).statistic)


def _correlation(
    x: pd.Series, y: pd.Series, statistic: Callable[[np.ndarray, np.ndarray], float]
) -> float:
    a, b = x.to_numpy(dtype=float), y.to_numpy(dtype=float)
    if len(a) < 3 or not np.isfinite([a, b]).all() or np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    return float(statistic(a, b))


@table(
    "runs",
    title="Every fine-tuned model",
    runs="finetune",
    kind="finetuned",
    run_table="layers",
    section="4",
)
def runs(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Every fine-tuned model: performance, IsoScore and IsoScore* of all token vectors of all
    layers, intrinsic dimension and silhouette of sentence embeddings.
    """
    rows = []
    for run, layers in fine_tuned:
        row = _facts(run) | fields(run, "metric", "performance", "chance")
        row |= {name: run.metrics.get(name, np.nan) for name in METRICS}
        row |= run.model_dump(include={"isoscore", "isoscore_star", "mean_cosine"})
        row |= {"isoscore_star_zeta": run.zeta}
        last = layers.iloc[-1]
        row |= {
            "two_nn_mean": layers["sentence_two_nn"].mean(skipna=False),
            "two_nn_last": last["sentence_two_nn"],
            "silhouette_last": last["sentence_silhouette"],
            "sentence_mean_cosine_last": last["sentence_mean_cosine"],
        }
        row |= run.model_dump(include={"n_validation", "n_tokens", "final_loss", "learning_rate"})
        row |= {"too_short": TRAINING.shortfall(run.task, run.updates, run.learning_rate)}
        rows.append(row)
    return pd.DataFrame(rows)


@table(
    "layers",
    title="Every fine-tuned model by layer",
    runs="finetune",
    kind="finetuned",
    run_table="layers",
    section="5",
)
def layers(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """The geometry of every fine-tuned model layer by layer: the numbers behind Figure 7."""
    return long_table((_facts(run), rows) for run, rows in fine_tuned)


@table(
    "activations",
    title="Mean activations of the last layer",
    runs="shown",
    kind="finetuned",
    run_table="layers",
    section="poster, Figure 1",
)
def activations(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Mean of each dimension of the sentence embeddings, last layer, first seed: the numbers behind
    Figure 1.
    """
    return long_table(
        (
            _facts(run),
            pd.Series(run.activations, name="activation").rename_axis("dimension").reset_index(),
        )
        for run, _ in fine_tuned
    )


@table(
    "points",
    title="Sentence embeddings in a plane",
    runs="shown",
    kind="finetuned",
    run_table="points",
    section="poster, Figures 2 and 3",
)
def points(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Sentence embeddings of the last layer in the plane of their mean and their first component,
    first seed.
    """
    return long_table(
        (_facts(run), items[SHOWN].iloc[:: max(1, -(-len(items) // POINTS_SHOWN))])
        for run, items in fine_tuned
    )


@table(
    "stability",
    title="IsoScore* of samples by size and zeta",
    runs="stability",
    kind="stability",
    section="poster, Figure 4",
)
def stability(clouds: SampledClouds) -> pd.DataFrame:
    """IsoScore* of samples of a cloud by size and zeta, beside the score of the whole; and IsoScore
    without bias of each sample, with its standard error.

    `isoscore_unbiased` is that of the sample, whatever zeta.
    """
    columns = {"data", "embedding", "status", "deviations", "d", "shrinkage_points"}
    return long_table(
        (
            {
                "setup": run.name,
                "model": run.cloud.embedding or "",
                **run.model_dump(include=columns),
                "whole": run.isoscore,
            },
            rows,
        )
        for run, rows in clouds
    )
