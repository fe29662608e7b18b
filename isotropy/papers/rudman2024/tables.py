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

from isotropy.finetune.spec import FinetuneFacts
from isotropy.geometry.spec import StabilityFacts
from isotropy.papers.declare import table
from isotropy.papers.rudman2024.protocol import TASKS
from isotropy.tables.answers import performance_draws
from isotropy.tables.bootstrap import items_error
from isotropy.tables.items import BY_ITEMS, interval, rows_have_learned
from isotropy.tables.runs import deviate, long_table

FineTunedRuns = Sequence[tuple[FinetuneFacts, pd.DataFrame]]
"""Facts about each fine-tuned model, and one of its tables."""
SampledClouds = Sequence[tuple[StabilityFacts, pd.DataFrame]]
"""Facts about each cloud, and the scores of its samples."""

POINTS_SHOWN = 1000
SHOWN = ["label", "predicted", "x", "y"]
PUBLISHED_BATCH = 700  # points of the paper's figure on stability, as others quote it
METRICS = ["accuracy", "f1", "matthews", "pearson", "spearman", "exact_match"]
NAMES = {"none": "none", "cosreg": "CosReg", "istar": "I-STAR"}


Answers = Mapping[tuple[object, object, object], tuple[FinetuneFacts, pd.DataFrame]]
"""By setup, method and seed."""
_ABOUT = ["status", "deviations", "data", "embedding"]
_CASE = ["setup", "seed", *_ABOUT]
"""Columns of a table without rows."""


@table(
    "table1",
    tables=["runs"],
    section="Table 1",
    caption=(
        "Performance per model, task and method on the whole validation set, mean and sd over "
        "seeds, times 100. I-STAR with the best negative lambda and zeta per task, chosen on "
        "the same set, as the paper seems to. Of the paper's table we have only what secondary "
        "sources quote."
    ),
)
def table1(table: pd.DataFrame) -> pd.DataFrame:
    """Table 1: performance per model, method and task, mean and standard deviation over seeds.

    I-STAR is that of the best negative lambda and zeta per task, chosen by the mean on the same
    validation set, as the paper seems to.
    """
    rows = []
    for (model, task), group in table.groupby(["model", "task"], sort=False):
        for name, chosen in _methods(group):
            values = chosen["performance"]
            metric, n_items = chosen["metric"].iloc[0], int(chosen["n_validation"].iloc[0])
            low, high = interval(values.to_numpy(dtype=float), n_items, metric)
            rows.append(
                {
                    "model": model,
                    "task": task,
                    "method": name,
                    "metric": metric,
                    "strength": chosen["strength"].iloc[0],
                    "zeta": chosen["zeta"].iloc[0],
                    "performance": values.mean(),
                    "performance_sd": values.std(ddof=1),
                    "performance_low": low,
                    "performance_high": high,
                    "n_seeds": len(values),
                    "n_items": n_items,
                    "interval_method": BY_ITEMS,
                    "isoscore_star": chosen["isoscore_star"].mean(),
                    **_standing(chosen),
                }
            )
    return pd.DataFrame(rows)


@table(
    "averages",
    tables=["runs"],
    runs="finetune",
    kind="finetuned",
    part="points",
    repeats="seeds",
    section="poster, Figure 6",
    caption=(
        "Performance averaged over tasks, per model and seed: I-STAR (per task the negative "
        "lambda and zeta that are best on the other seeds; the mean over all; the best on the "
        "same seeds), no penalty, CosReg."
    ),
)
def averages(fine_tuned: FineTunedRuns, table: pd.DataFrame) -> pd.DataFrame:
    """Figure 6: performance averaged over tasks, per model (the setup) and seed.

    `istar` has, per task, the negative lambda and the zeta that are best on the other seeds, so
    that what chooses is not what is reported; `istar_mean` is the mean over all negative lambdas,
    `istar_best` the best of them on the reported seeds (see `table1`). Tasks that models without
    penalty did not learn are left out, and named. `…_items_error` is the standard error over the
    items of the tasks of a mean over seeds (paired bootstrap).
    """
    rows = []
    answers = {
        (row["setup"], row["method"], row["seed"]): (run, items)
        for run, items in fine_tuned
        for row in [_facts(run)]
    }
    for model, every in table.groupby("model", sort=False):
        learned = {task: _learned(of_task) for task, of_task in every.groupby("task", sort=False)}
        group = every[every["task"].map(learned)]
        facts = _standing(every)
        if absent := [task for task in TASKS if task not in set(every["task"])]:
            why = f"without the tasks {', '.join(absent)}"
            facts = {
                "status": "stand-in",
                "deviations": "; ".join(d for d in (facts["deviations"], why) if d),
            }
        about = {
            "setup": model,
            "model": model,
            "n_tasks": group["task"].nunique(),
            "learned": bool(any(learned.values())),
            "not_learned": ", ".join(str(task) for task, well in learned.items() if not well),
            **facts,
            "data": "; ".join(dict.fromkeys(group["data"])),
            "embedding": every["embedding"].iloc[0],
        }
        seeds = sorted(every["seed"].unique())
        errors = _average_errors(group, seeds, answers)
        rows += [about | {"seed": str(s), **_average(group, s), **errors} for s in seeds]
    return pd.DataFrame(rows)


def _average_errors(
    group: pd.DataFrame, seeds: Sequence[int], answers: Answers
) -> dict[str, float]:
    """Standard error over items of each difference of two averages over tasks; NaN where a method
    is missing.
    """
    draws = {}
    for name in NAMES:
        found = [_average_draws(group, seed, name, answers) for seed in seeds]
        known = [of_seed for of_seed in found if of_seed is not None]
        draws[name] = np.stack(known) if len(known) == len(seeds) > 0 else None
    errors = {}
    for name, other in (("istar", "none"), ("istar", "cosreg"), ("none", "cosreg")):
        better, worse = draws[name], draws[other]
        error = np.nan if better is None or worse is None else items_error(better, worse)
        errors[f"{name}_minus_{other}_items_error"] = error
    return errors


def _average_draws(
    group: pd.DataFrame, seed: int, name: str, answers: Answers
) -> np.ndarray | None:
    """The average over tasks of one method and seed, in resamples of the items of each task."""
    found = []
    for i, (_, of_task) in enumerate(group.groupby("task")):
        if name == "istar":
            method = _method_on_other_seeds(of_task, seed)
        else:
            method = next(iter(of_task.loc[of_task["kind"] == name, "method"]), None)
        one = answers.get((of_task["setup"].iloc[0], method, seed))
        if one is None:
            return None
        found.append(performance_draws(*one, seed=i))
    return np.mean(found, axis=0) if found else None


def _average(group: pd.DataFrame, seed: int) -> dict[str, float]:
    """Means over tasks of one model and seed, and their differences."""
    own = group[group["seed"] == seed]
    found = {
        "istar": _mean(_chosen_on_other_seeds(g, seed) for _, g in group.groupby("task")),
        "istar_mean": _mean(_negative(own).groupby("task")["performance"].mean()),
        "istar_best": _mean(_best_of(g, seed) for _, g in group.groupby("task")),
    }
    for kind in ("none", "cosreg"):
        found[kind] = _mean(own.loc[own["kind"] == kind, "performance"])
    for name in ("istar", "istar_mean", "istar_best"):
        found[f"{name}_minus_none"] = found[name] - found["none"]
    found["istar_minus_cosreg"] = found["istar"] - found["cosreg"]
    found["none_minus_cosreg"] = found["none"] - found["cosreg"]
    return found


def _chosen_on_other_seeds(of_task: pd.DataFrame, seed: int) -> float:
    """Performance of the negative lambda and zeta that are best on the other seeds; NaN where
    there are several of them and no other seed.
    """
    method = _method_on_other_seeds(of_task, seed)
    own = of_task[(of_task["method"] == method) & (of_task["seed"] == seed)]
    return float(own["performance"].mean())


def _method_on_other_seeds(of_task: pd.DataFrame, seed: int) -> str | None:
    """The negative lambda and zeta that are best on the other seeds; None where there are several
    of them and no other seed.
    """
    negative = _negative(of_task)
    others = negative[negative["seed"] != seed].groupby("method", sort=False)["performance"].mean()
    if others.empty and negative["method"].nunique() != 1:
        return None
    return str(negative["method"].iloc[0] if others.empty else others.idxmax())


def _best_of(of_task: pd.DataFrame, seed: int) -> float:
    """Performance of the negative lambda and zeta that are best on all seeds."""
    best = dict(_methods(of_task)).get(NAMES["istar"])
    if best is None:
        return np.nan
    return float(best.loc[best["seed"] == seed, "performance"].mean())


def _mean(values: Iterable[float]) -> float:
    """Mean; NaN of nothing."""
    found = [float(value) for value in values]
    return float(np.mean(found)) if found else np.nan


@table(
    "directions",
    tables=["runs"],
    repeats="seeds",
    section="4, 5",
    caption=(
        "What the claims are about, per task, model and seed: how IsoScore*, performance, "
        "intrinsic dimension and silhouette go with lambda (no penalty is lambda = 0) and with "
        "each other."
    ),
)
def directions(table: pd.DataFrame) -> pd.DataFrame:
    """What the claims are about, per setup and seed: how geometry and performance go with lambda
    and with each other.

    Performance is NaN where models without penalty did not learn the task: differences between them
    would be noise.
    """
    rows = []
    several = table["zeta"].nunique() > 1
    for name, group in table.groupby("setup", sort=False):
        learned = _learned(group)
        for zeta in sorted(group["zeta"].dropna().unique()):
            setup = f"{name}, zeta {zeta:g}" if several else str(name)
            for seed, of_seed in group.groupby("seed"):
                rows.append(
                    {"setup": setup, **_direction(of_seed, zeta, learned), "seed": str(seed)}
                )
    return pd.DataFrame(rows)


@table(
    "steps",
    tables=["runs"],
    repeats="seeds",
    section="3",
    caption="By how much IsoScore* changes from each lambda to the next, per seed.",
)
def steps(table: pd.DataFrame) -> pd.DataFrame:
    """By how much IsoScore* changes from each lambda to the next, per setup, zeta and seed; no
    penalty stands at lambda = 0.
    """
    rows = []
    several = table["zeta"].nunique() > 1
    for name, group in table.groupby("setup", sort=False):
        for zeta in sorted(group["zeta"].dropna().unique()):
            for seed, of_seed in group.groupby("seed"):
                along = _along(of_seed, zeta)
                own = of_seed.iloc[0][["task", "model", "data", "embedding"]].to_dict()
                facts = own | _of_zeta(of_seed, zeta) | {"seed": str(seed), "zeta": zeta}
                facts["setup"] = f"{name}, zeta {zeta:g}" if several else str(name)
                ordered = along[["strength", "isoscore_star"]].to_numpy(dtype=float)
                for (a, before), (b, after) in pairwise(ordered):
                    step = f"λ {a:g} to {b:g}".replace("-", "−")
                    rows.append(facts | {"step": step, "isoscore_star_change": after - before})
    return pd.DataFrame(rows)


@table(
    "cosreg",
    tables=["runs"],
    repeats="seeds",
    section="5",
    caption="What CosReg changes against no penalty, per seed: mean cosine, and IsoScore*.",
)
def cosreg(table: pd.DataFrame) -> pd.DataFrame:
    """What CosReg changes against no penalty, per setup and seed: the mean cosine of sentence
    embeddings of the last layer, and IsoScore*, as a ratio.
    """
    rows: list[dict[str, object]] = []
    for (_, seed), group in table.groupby(["setup", "seed"], sort=False):
        by_kind = group.drop_duplicates("kind").set_index("kind")
        if {"none", "cosreg"} <= set(by_kind.index):
            none, own = by_kind.loc["none"], by_kind.loc["cosreg"]
            cosine = "sentence_mean_cosine_last"
            both = group[group["kind"].isin(["none", "cosreg"])]
            rows.append(
                {
                    **own[["setup", "task", "model", "data", "embedding"]],
                    **_standing(both),
                    "seed": str(seed),
                    "mean_cosine_change": own[cosine] - none[cosine],
                    "isoscore_star_ratio": own["isoscore_star"] / none["isoscore_star"],
                }
            )
    nothing = [*_CASE, "mean_cosine_change", "isoscore_star_ratio"]
    return pd.DataFrame(rows, columns=None if rows else nothing)


@table(
    "shrinkage",
    tables=["runs"],
    repeats="seeds",
    section="appendix",
    caption=(
        "Performance of I-STAR with shrinkage minus that without (zeta = 0), per seed; empty "
        "where the study has no zeta = 0."
    ),
)
def shrinkage(table: pd.DataFrame) -> pd.DataFrame:
    """What shrinkage changes: performance of I-STAR with negative lambda, mean over them, minus
    that without shrinkage (zeta = 0), per setup with its zeta, and seed.
    """
    rows = []
    istar = table[(table["kind"] == "istar") & (table["strength"] < 0)]
    for (name, seed), group in istar.groupby(["setup", "seed"], sort=False):
        bare = group.loc[group["zeta"] == 0, "performance"]
        learned = _learned(table[table["setup"] == name])
        for zeta, own in group[group["zeta"] > 0].groupby("zeta"):
            if len(bare):
                facts = own.iloc[0][["task", "model", "data", "embedding"]].to_dict()
                facts |= _standing(own) | {"learned": learned, "zeta": zeta, "seed": str(seed)}
                gain = own["performance"].mean() - bare.mean()
                setup = f"{name}, zeta {zeta:g}"
                rows.append({"setup": setup, **facts, "performance_gain": gain})
    return pd.DataFrame(rows, columns=None if rows else [*_CASE, "learned", "performance_gain"])


@table(
    "post_processing",
    runs="finetune",
    kind="finetuned",
    part="layers",
    repeats="seeds",
    section="2",
    caption=(
        "All-But-The-Top as post-processing of models without penalty: performance of the model "
        "itself (head), of a linear model on frozen sentence embeddings before and after."
    ),
)
def post_processing(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """All-But-The-Top on the sentence embeddings of models without penalty: a linear model on them,
    before and after. The number of components, the items and the linear model are ours.
    """
    probed = [(run, {p.method: p for p in run.probes}) for run, _ in fine_tuned if run.probes]
    rows = []
    for run, found in probed:
        before, after = found["none"].performance, found["abtt"].performance
        facts = _facts(run)
        row = {name: facts[name] for name in ("setup", "task", "model", "seed", *_ABOUT)}
        row |= {"metric": run.metric, "head": run.performance, "chance": run.chance}
        row |= {"n_validation": run.n_validation, "linear": before, "linear_after_abtt": after}
        row |= {"change": after - before, "n_components": found["abtt"].n_components}
        rows.append(row | {"n_embeddings": found["abtt"].n_train})
    if not rows:
        return pd.DataFrame(columns=[*_CASE, "learned", "linear", "linear_after_abtt", "change"])
    table = pd.DataFrame(rows)
    learned = {s: rows_have_learned(g, "head") for s, g in table.groupby("setup")}
    table = table.assign(learned=table["setup"].map(learned), seed=table["seed"].astype(str))
    return deviate(table, pd.Series(True, table.index), "components and linear model are ours")


@table(
    "stability_of_batches",
    tables=["stability"],
    repeats="stability.repeats",
    section="poster, Figure 4",
    caption=(
        "Relative error of IsoScore* in samples of about 700 points, the published number, and "
        "how far it is from IsoScore in the smallest and in the largest samples, per cloud, "
        "zeta and repeat (the seed)."
    ),
)
def stability_of_batches(table: pd.DataFrame) -> pd.DataFrame:
    """The claims of Figure 4, one row per cloud and zeta (the setup) and repeat (the seed).

    `relative_error` is that of IsoScore* in samples of about PUBLISHED_BATCH points. `difference_…`
    is what it differs from the IsoScore of the same samples, as a share of that (of few points both
    are near 0); `difference_falls` by how much less in the largest samples than in the smallest,
    NaN for zeta = 0, where the two are one, and where the largest samples have no more points than
    dimensions.
    """
    rows = []
    for (name, repeat), group in table.groupby(["setup", "repeat"], sort=False):
        score = group.pivot_table(index="n", columns="zeta", values="isoscore_star").sort_index()
        whole = float(group["whole"].iloc[0])
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
                    "whole": whole,
                    "relative_value": float(score.loc[batch, zeta]) / whole,
                    "relative_error": abs(float(score.loc[batch, zeta]) / whole - 1),
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


def _standing(rows: pd.DataFrame) -> dict[str, str]:
    """Status of all rows together, and in what they deviate."""
    found = [d for text in rows["deviations"].unique() for d in text.split("; ") if d]
    original = (rows["status"] == "original").all()
    return {
        "status": "original" if original else "stand-in",
        "deviations": "; ".join(dict.fromkeys(found)),
    }


def _facts(run: FinetuneFacts) -> dict[str, object]:
    """What every row says of its run."""
    method = run.method
    return {
        "setup": f"{run.task}--{run.model}",
        "task": run.task,
        "model": run.model,
        "method": _label(run),
        "kind": method.kind,
        "strength": np.nan if method.strength is None else method.strength,
        "zeta": np.nan if method.zeta is None else method.zeta,
        "seed": run.seed,
        "status": run.status,
        "deviations": run.deviations,
        "data": run.data,
        "embedding": run.embedding,
        "n_train": run.n_train,
        "updates": run.updates,
    }


def _label(run: FinetuneFacts) -> str:
    """Method, lambda and zeta, for readers."""
    parts = [NAMES[run.method.kind]]
    parts += (
        [] if run.method.strength is None else [f"λ = {run.method.strength:g}".replace("-", "−")]
    )
    parts += [] if run.method.zeta is None else [f"ζ = {run.method.zeta:g}"]
    return ", ".join(parts)


def _negative(rows: pd.DataFrame) -> pd.DataFrame:
    """I-STAR with negative lambda; zeta = 0, which is without shrinkage, is not the paper's method
    but its ablation.
    """
    return rows[(rows["kind"] == "istar") & (rows["strength"] < 0) & (rows["zeta"] > 0)]


def _learned(group: pd.DataFrame) -> bool:
    """Whether models without penalty learned the task (`has_learned`); of one task and model."""
    return rows_have_learned(group[group["kind"] == "none"])


def _methods(group: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Rows of a task and model by method; of I-STAR those of the best negative lambda and zeta, if
    there is one.
    """
    for kind in ("none", "cosreg"):
        if (group["kind"] == kind).any():
            yield NAMES[kind], group[group["kind"] == kind]
    negative = _negative(group)
    if len(negative):
        best = str(negative.groupby("method", sort=False)["performance"].mean().idxmax())
        yield NAMES["istar"], negative[negative["method"] == best]


def _direction(group: pd.DataFrame, zeta: float, learned: bool) -> dict[str, object]:
    """Directions of one setup, seed and zeta."""
    group = group if learned else group.assign(performance=np.nan)
    first = group.iloc[0]
    none = group[group["kind"] == "none"].iloc[0]
    istar = group[(group["kind"] == "istar") & (group["zeta"] == zeta)]
    along = _along(group, zeta)
    negative, positive = istar[istar["strength"] < 0], istar[istar["strength"] > 0]
    cosreg = group[group["kind"] == "cosreg"]

    def change(rows: pd.DataFrame, column: str) -> float:
        return float(rows[column].mean()) - float(none[column]) if len(rows) else np.nan

    return {
        **first[["task", "model", "data", "embedding", "metric"]],
        **_of_zeta(group, zeta),
        "zeta": zeta,
        "learned": learned,
        "n_lambdas": len(along),
        "lambda_isoscore_rho": _rho(along["strength"], along["isoscore_star"]),
        "isoscore_star_change_positive": change(positive, "isoscore_star"),
        "isoscore_star_change_negative": change(negative, "isoscore_star"),
        "isoscore_performance_r": _r(along["isoscore_star"], along["performance"]),
        "isoscore_performance_rho": _rho(along["isoscore_star"], along["performance"]),
        "performance_change_negative": change(negative, "performance"),
        "performance_change_positive": change(positive, "performance"),
        "performance_change_cosreg": change(cosreg, "performance"),
        "isoscore_star_change_cosreg": change(cosreg, "isoscore_star"),
        "mean_cosine_change_cosreg": change(cosreg, "sentence_mean_cosine_last"),
        "lambda_two_nn_rho": _rho(along["strength"], along["two_nn_mean"]),
        "isoscore_silhouette_rho": _rho(along["isoscore_star"], along["silhouette_last"]),
    }


def _along(group: pd.DataFrame, zeta: float) -> pd.DataFrame:
    """Runs of one setup and seed in the order of lambda; no penalty stands at 0."""
    istar = group[(group["kind"] == "istar") & (group["zeta"] == zeta)]
    none = group[group["kind"] == "none"].iloc[:1].assign(strength=0.0)
    return pd.concat([istar, none]).sort_values("strength")


def _of_zeta(group: pd.DataFrame, zeta: float) -> dict[str, str]:
    """Status of a setup: the paper's method has shrinkage."""
    found = _standing(group)
    if zeta > 0:
        return found
    why = "; ".join([d for d in (found["deviations"], "no shrinkage (zeta 0)") if d])
    return {"status": "stand-in", "deviations": why}


def _rho(x: pd.Series, y: pd.Series) -> float:
    """Spearman's rho; NaN where a value is missing, or one side does not vary."""
    return _correlation(x, y, lambda a, b: scipy.stats.spearmanr(a, b).statistic)


def _r(x: pd.Series, y: pd.Series) -> float:
    """Pearson's r; NaN as above."""
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
    runs="finetune",
    kind="finetuned",
    part="layers",
    repeats="seeds",
    section="4",
    caption=(
        "Every fine-tuned model: performance, IsoScore and IsoScore* of all token vectors of "
        "all layers, intrinsic dimension and silhouette of sentence embeddings."
    ),
)
def runs(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """One row per model, task, method and seed: performance and geometry of the fine-tuned
    model.
    """
    rows = []
    for run, layers in fine_tuned:
        row = _facts(run) | {
            "metric": run.metric,
            "performance": run.performance,
            "chance": run.chance,
        }
        row |= {name: run.metrics.get(name, np.nan) for name in METRICS}
        row |= run.model_dump(include={"isoscore", "isoscore_star", "mean_cosine"}) | {
            "isoscore_star_zeta": run.zeta
        }
        last = layers.iloc[-1]
        row |= {
            "two_nn_mean": layers["sentence_two_nn"].mean(skipna=False),
            "two_nn_last": last["sentence_two_nn"],
            "silhouette_last": last["sentence_silhouette"],
            "sentence_mean_cosine_last": last["sentence_mean_cosine"],
        }
        row |= run.model_dump(include={"n_validation", "n_tokens", "final_loss"})
        rows.append(row)
    return pd.DataFrame(rows)


@table(
    "layers",
    runs="finetune",
    kind="finetuned",
    part="layers",
    section="5",
    caption="The geometry of every fine-tuned model layer by layer: the numbers behind Figure 7.",
)
def layers(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """One row per model, task, method, seed and layer."""
    return long_table((_facts(run), rows) for run, rows in fine_tuned)


@table(
    "activations",
    runs="shown",
    kind="finetuned",
    part="layers",
    section="poster, Figure 1",
    caption=(
        "Mean of each dimension of the sentence embeddings, last layer, first seed: the numbers "
        "behind Figure 1."
    ),
)
def activations(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Figure 1: mean of each dimension of the validation set's sentence embeddings, last layer, of
    the runs that are shown.
    """
    return long_table(
        (
            _facts(run),
            pd.DataFrame(
                {"dimension": np.arange(len(run.activations)), "activation": run.activations}
            ),
        )
        for run, _ in fine_tuned
    )


@table(
    "points",
    runs="shown",
    kind="finetuned",
    part="points",
    section="poster, Figures 2 and 3",
    caption=(
        "Sentence embeddings of the last layer in the plane of their mean and their first "
        "component, first seed."
    ),
)
def points(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Figures 2 and 3: sentence embeddings of the last layer in the plane of their mean and of
    their first component.
    """
    return long_table(
        (_facts(run), items[SHOWN].iloc[:: max(1, -(-len(items) // POINTS_SHOWN))])
        for run, items in fine_tuned
    )


@table(
    "stability",
    runs="stability",
    kind="stability",
    section="poster, Figure 4",
    caption="IsoScore* of samples of a cloud by size and zeta, beside the score of the whole.",
)
def stability(clouds: SampledClouds) -> pd.DataFrame:
    """Figure 4: IsoScore* of samples, per cloud, size, repeat and zeta, beside the score of the
    whole cloud.
    """
    known = {"data", "embedding", "status", "deviations", "d", "shrinkage_points"}
    return long_table(
        (
            {
                "setup": run.name,
                "model": run.cloud.embedding or "",
                **run.model_dump(include=known),
                "whole": run.isoscore,
            },
            rows,
        )
        for run, rows in clouds
    )
