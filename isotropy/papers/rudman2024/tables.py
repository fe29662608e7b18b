"""Tables of Rudman & Eickhoff (2024), "Stable Anisotropic Regularization", ICLR, and of its poster.

A setup is a task with a model. Methods are `none`, `CosReg`, and I-STAR with one lambda and zeta;
where a claim orders models by lambda, `none` stands at lambda = 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pandas as pd
import scipy

from isotropy.finetune.spec import FinetuneFacts
from isotropy.geometry.spec import StabilityFacts
from isotropy.tables.runs import long_table

FineTunedRuns = Sequence[tuple[FinetuneFacts, pd.DataFrame]]
"""Facts about each fine-tuned model, and one of its tables."""
SampledClouds = Sequence[tuple[StabilityFacts, pd.DataFrame]]
"""Facts about each cloud, and the scores of its samples."""

POINTS_SHOWN = 1000
PUBLISHED_BATCH = 700  # points of the paper's figure on stability, as others quote it
METRICS = ["accuracy", "f1", "matthews", "pearson", "spearman", "exact_match"]
NAMES = {"none": "none", "cosreg": "CosReg", "istar": "I-STAR"}


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


def layers(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """One row per model, task, method, seed and layer."""
    return long_table((_facts(run), rows) for run, rows in fine_tuned)


def post_processing(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """All-But-The-Top on the sentence embeddings of models without penalty: a linear model on them,
    before and after.
    """
    rows = []
    for run, _ in fine_tuned:
        found = {probe.method: probe for probe in run.probes}
        if found:
            before, after = found["none"].performance, found["abtt"].performance
            facts = {
                key: value
                for key, value in _facts(run).items()
                if key not in ("method", "kind", "strength", "zeta")
            }
            row = facts | {
                "metric": run.metric,
                "head": run.performance,
                "linear": before,
                "linear_after_abtt": after,
            }
            rows.append(
                row
                | {
                    "change": after - before,
                    "n_components": found["abtt"].n_components,
                    "n_embeddings": found["abtt"].n_train,
                }
            )
    columns = [
        "setup",
        "task",
        "model",
        "seed",
        "status",
        "metric",
        "head",
        "linear",
        "linear_after_abtt",
        "change",
    ]
    return pd.DataFrame(rows) if rows else pd.DataFrame(columns=columns)


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


def points(fine_tuned: FineTunedRuns) -> pd.DataFrame:
    """Figures 2 and 3: sentence embeddings of the last layer in the plane of their mean and of
    their first component.
    """
    return long_table(
        (_facts(run), items.iloc[:: max(1, -(-len(items) // POINTS_SHOWN))])
        for run, items in fine_tuned
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
            rows.append(
                {
                    "model": model,
                    "task": task,
                    "method": name,
                    "metric": chosen["metric"].iloc[0],
                    "strength": chosen["strength"].iloc[0],
                    "zeta": chosen["zeta"].iloc[0],
                    "performance": values.mean(),
                    "performance_sd": values.std(ddof=1),
                    "n_seeds": len(values),
                    "isoscore_star": chosen["isoscore_star"].mean(),
                    "status": _status(chosen),
                }
            )
    return pd.DataFrame(rows)


def averages(table: pd.DataFrame) -> pd.DataFrame:
    """Figure 6: performance averaged over tasks, per model (the setup) and seed.

    `istar` is the mean over negative lambdas, `istar_best` the best of them per task (see
    `table1`). Tasks that models without penalty did not learn are left out, and named.
    """
    rows = []
    for model, every in table.groupby("model", sort=False):
        learned = {task: _learned(of_task) for task, of_task in every.groupby("task", sort=False)}
        group = every[every["task"].map(learned)]
        best = {
            task: dict(_methods(of_task)).get("I-STAR")
            for task, of_task in group.groupby("task", sort=False)
        }
        for seed, of_seed in (
            (s, group[group["seed"] == s]) for s in sorted(every["seed"].unique())
        ):
            negative = _negative(of_seed)
            chosen = [
                float(b.loc[b["seed"] == seed, "performance"].mean())
                for b in best.values()
                if b is not None
            ]
            istar = float(negative.groupby("task")["performance"].mean().mean())
            istar_best = float(np.mean(chosen)) if chosen else np.nan
            none, cosreg = (
                float(of_seed.loc[of_seed["kind"] == k, "performance"].mean())
                for k in ("none", "cosreg")
            )
            rows.append(
                {
                    "setup": model,
                    "seed": str(seed),
                    "n_tasks": group["task"].nunique(),
                    "not_learned": ", ".join(
                        str(task) for task, well in learned.items() if not well
                    ),
                    "status": _status(every),
                    "data": "; ".join(dict.fromkeys(group["data"])),
                    "embedding": every["embedding"].iloc[0],
                    "istar": istar,
                    "istar_best": istar_best,
                    "none": none,
                    "cosreg": cosreg,
                    "istar_minus_none": istar - none,
                    "istar_best_minus_none": istar_best - none,
                    "none_minus_cosreg": none - cosreg,
                }
            )
    return pd.DataFrame(rows)


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


def stability(clouds: SampledClouds) -> pd.DataFrame:
    """Figure 4: IsoScore* of samples, per cloud, size, repeat and zeta, beside the score of the
    whole cloud.
    """
    known = {"data", "embedding", "status", "d", "shrinkage_points"}
    return long_table(
        ({"setup": run.name, **run.model_dump(include=known), "whole": run.isoscore}, rows)
        for run, rows in clouds
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
                    **{c: group[c].iloc[0] for c in ("status", "data", "embedding")},
                    "n": int(batch),
                    "value": float(score.loc[batch, zeta]),
                    "whole": whole,
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


def _status(rows: pd.DataFrame) -> str:
    """That of all rows together."""
    return "original" if (rows["status"] == "original").all() else "stand-in"


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
    """Whether models without penalty are better than the most frequent class, in the mean over
    seeds.
    """
    none = group[group["kind"] == "none"]
    return float(none["performance"].mean()) > float(none["chance"].mean())


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
    along = pd.concat([istar, none.to_frame().T.assign(strength=0.0)]).infer_objects()
    along = along.astype(
        {"strength": float, "isoscore_star": float, "performance": float}
    ).sort_values("strength")
    negative, positive = istar[istar["strength"] < 0], istar[istar["strength"] > 0]
    cosreg = group[group["kind"] == "cosreg"]

    def change(rows: pd.DataFrame, column: str) -> float:
        return float(rows[column].mean()) - float(none[column]) if len(rows) else np.nan

    return {
        **first[["task", "model", "data", "embedding", "metric"]],
        "status": first["status"] if zeta > 0 else "stand-in",  # the paper's method has shrinkage
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
