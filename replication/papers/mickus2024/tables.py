"""Tables of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL: section 3
and the appendices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import scipy

from replication.optimize.spec import TrajectoryFacts
from replication.papers.declare import table
from replication.tables.runs import fields, printed

Trajectories = Sequence[tuple[TrajectoryFacts, pd.DataFrame]]
"""Facts about each trajectory, and its rows."""

FACTS = {"setup", "base", "variant", "dataset", "model", "bias", "seed", "status", "deviations"}
FACTS |= {"data", "embedding", "evaluation", "error_bound"}
SCORES = ("isoscore", "silhouette")
NOT_ATTEMPTED = "not attempted: not in this study's configuration"
SIMPLEX_DIMENSIONS = (20, 64, 384)
NESTED_DIMENSIONS = (2, 20)
SPREADS = (0.0, 0.03, 0.5)
POINTS_PER_CLUSTER = 10  # per cluster
MIN_SCORE = 0.9  # with IsoScore and silhouette above this, a cloud is isotropic and clustered
COUNTS = ("n_items", "n_params", "n_vectors")
# The paper's names
ENCODERS = {
    "all-MiniLM-L6-v2": "miniLM",
    "all-mpnet-base-v2": "mpnet",
    "all-distilroberta-v1": "roberta",
}


@table(
    "table1",
    title="Items and trainable parameters",
    runs="section3",
    kind="trajectory",
    published=True,
    section="3.1",
)
def table1(runs: Trajectories, published: pd.DataFrame) -> pd.DataFrame:
    """Number of items and of trainable parameters per setup, computed from what was optimized,
    beside the published numbers.
    """
    rows = []
    for setup in dict.fromkeys(run.setup for run, _ in runs):
        run = next(r for r, _ in runs if r.setup == setup)
        about = ("setup", "dataset", "model", "data", "embedding", "status", "deviations")
        rows.append(fields(run, *about, *COUNTS, "dim", "n_labels", "n_classes", "bias"))
    return _beside_published_counts(pd.DataFrame(rows), published)


@table(
    "correlations",
    title="Correlation of IsoScore and silhouette",
    tables=["trajectories"],
    published=True,
    section="3.2",
    caption=(
        "Correlation of IsoScore with silhouette over all updates of each trajectory, per seed, "
        "with mean and standard deviation over seeds, beside the published value and how far to "
        "trust it."
    ),
)
@table(
    "correlations-glue",
    title="Correlations on GLUE",
    tables=["trajectories-glue"],
    published=True,
    needs="glue",
    section="A",
    caption=(
        "Correlation of IsoScore with silhouette per GLUE task, encoder and seed: the numbers "
        "behind Table 3."
    ),
)
def correlations(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Section 3.2: correlation of IsoScore with silhouette over the updates of a trajectory.

    One row per setup and seed, then one with the mean and one with the standard deviation (ddof =
    1) over seeds; Pearson and Spearman, with step 0 and without, since the paper does not say
    which; and the change of both scores from step 0 to the last. The published value, with
    how far to trust it, is in the row of the mean.
    """
    rows = []
    for setup, group in table.groupby("setup", sort=False):
        values = pd.DataFrame(
            [{"seed": str(seed), **_correlate(steps)} for seed, steps in group.groupby("seed")]
        )
        numbers = values.drop(columns="seed")
        summary = pd.DataFrame(
            [{"seed": "mean", **numbers.mean()}, {"seed": "sd", **numbers.std(ddof=1)}]
        )
        setup_rows = pd.concat([values, summary], ignore_index=True)
        for i, name in enumerate(
            ("base", "dataset", "model", "bias", "status", "deviations", "data", "embedding")
        ):
            setup_rows.insert(i, name, group[name].iloc[0])
        setup_rows.insert(0, "setup", setup)
        setup_rows["updates"] = group["step"].max()
        setup_rows["error_bound"] = group["error_bound"].max()
        rows.append(setup_rows)
    result = pd.concat(rows, ignore_index=True)
    keys = {name: result[name] for name in ("dataset", "model")}
    mean, notes = result["seed"] == "mean", published.assign(value=published["source_note"])
    return result.assign(
        published_pearson_r=printed(result, published, quantity="pearson_r", **keys).where(mean),
        published_spearman_below=printed(
            result, published, quantity="spearman_rho_upper_bound", **keys
        ).where(mean),
        published_source_note=printed(result, notes, quantity="pearson_r", **keys)
        .fillna("nothing published")
        .where(mean, ""),
    )


@table(
    "seeds",
    title="Differences between seeds",
    tables=["trajectories"],
    section="3.2",
)
def seeds(table: pd.DataFrame) -> pd.DataFrame:
    """Standard deviation of both scores over the initializations: the largest at any step, and the
    mean over steps. The paper calls it negligible.

    Standard deviations have ddof = 1.
    """
    rows = []
    for _, group in table.groupby("setup", sort=False):
        row = {
            name: group[name].iloc[0]
            for name in ("setup", "dataset", "model", "bias", "status", "deviations")
        }
        row["n_seeds"] = group["seed"].nunique()
        for score in SCORES:
            sd = group.groupby("step")[score].std(ddof=1)
            row |= {f"{score}_sd_max": sd.max(), f"{score}_sd_mean": sd.mean()}
        rows.append(row)
    return pd.DataFrame(rows)


@table(
    "table2",
    title="Items and trainable parameters of GLUE tasks",
    runs="glue",
    kind="trajectory",
    published=True,
    needs="glue",
    section="A",
)
def table2(runs: Trajectories, published: pd.DataFrame) -> pd.DataFrame:
    """Number of items and of trainable parameters of the GLUE tasks, computed from what was
    optimized, beside the published numbers.

    One row per task and encoder of the paper, then those that the paper does not have.
    """
    done = {(run.dataset, run.model): run for run, _ in runs}
    rows = []
    for task, model in _cells(published, done):
        absent: dict[str, object] = {"status": NOT_ATTEMPTED, "deviations": ""}
        names = (*absent, *COUNTS)
        counts = absent if (run := done.get((task, model))) is None else fields(run, *names)
        rows.append({"dataset": task, "model": model} | dict.fromkeys(names) | counts)
    cells = pd.DataFrame(rows).astype(dict.fromkeys(COUNTS, "Int64"))
    table = _beside_published_counts(cells, published)
    table["model"] = table["model"].replace(ENCODERS)
    return table.rename(columns={"dataset": "task", "model": "encoder"})


@table(
    "table3",
    title="Correlation on GLUE tasks",
    tables=["correlations-glue"],
    published=True,
    needs="glue",
    section="A",
)
def table3(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Correlation of IsoScore with silhouette over the updates, per GLUE task and encoder, mean
    over seeds. The numbers of the paper's Table 3 are missing from the text that we have.

    `status` tells why a cell of the paper is empty.
    """
    done = {
        (row["dataset"], row["model"]): row for _, row in table[table["seed"] == "mean"].iterrows()
    }
    rows = []
    for task, model in _cells(published, done):
        row = done.get((task, model))
        rows.append(
            {
                "encoder": ENCODERS.get(model, model),
                "task": task,
                "status": NOT_ATTEMPTED if row is None else row["status"],
                "pearson_r": np.nan if row is None else row["pearson_r"],
                "spearman_rho": np.nan if row is None else row["spearman_rho"],
                "isoscore_change": np.nan if row is None else row["isoscore_change"],
                "silhouette_change": np.nan if row is None else row["silhouette_change"],
                "n_seeds": 0
                if row is None
                else int(
                    (~table["seed"].isin(["mean", "sd"]) & (table["setup"] == row["setup"])).sum()
                ),
            }
        )
    return pd.DataFrame(rows)


@table(
    "sensitivity",
    title="The correlation with one thing changed",
    tables=["trajectories", "trajectories-sensitivity"],
    published=True,
    needs="sensitivity",
    section="3",
)
def sensitivity(
    main: pd.DataFrame, variants: pd.DataFrame, published: pd.DataFrame
) -> pd.DataFrame:
    """What changes the result: the correlation and the direction of both scores with one thing
    changed at a time, and whether their direction changes with it.

    One row per setup and variant, mean over the variant's seeds. `trend` says whether IsoScore
    falls, silhouette rises, and the two are negatively correlated; `changes_the_trend` whether that
    differs from the setup itself; `difference_from_published` is our Pearson's r minus the
    published one.
    """
    rows: list[dict[str, object]] = []
    groups = variants.groupby("base", sort=False)
    for base, group in groups:
        baseline = main[(main["setup"] == base) & main["seed"].isin(group["seed"].unique())].assign(
            variant="as configured"
        )
        for variant, steps in pd.concat([baseline, group]).groupby("variant", sort=False):
            values = pd.DataFrame([_correlate(s) for _, s in steps.groupby("seed")])
            rows.append(_trend(str(base), str(variant), steps, values))
            if variant == "as configured":
                rest = values.drop(columns=["pearson_r", "spearman_rho"])
                without = rest.rename(columns=lambda c: c.removesuffix("_without_step_0"))
                later = steps[steps["step"] > 0]
                rows.append(_trend(str(base), "without step 0", later, without))
    table = pd.DataFrame(rows)
    keys = {name: table["setup"].map(groups[name].first()) for name in ("dataset", "model")}
    published_r = printed(table, published, quantity="pearson_r", **keys)
    notes, trends = published.assign(value=published["source_note"]), table["trend"]
    return table.assign(
        published_pearson_r=published_r,
        difference_from_published=table["pearson_r"] - published_r,
        published_source_note=printed(table, notes, quantity="pearson_r", **keys).fillna(""),
        changes_the_trend=trends != trends.groupby(table["setup"]).transform("first"),
    )


@table(
    "appendix_b",
    title="Bounds of Appendix B",
    runs="section3",
    kind="trajectory",
    section="B",
)
def appendix_b(runs: Trajectories) -> pd.DataFrame:
    """The objective of equation 5 against the two that it is said to bound from above: the
    silhouette objective (equation 1), over all items, and the triplet objective (margin 0), on 200
    items; before and after training.

    One row per setup, seed and time. The triplet objective, a sum over all triplets, is compared
    with equation 5 on the same sample.
    """
    rows = []
    for run, _ in runs:
        for when, objectives in zip(("before", "after"), run.objectives, strict=True):
            bound, hinged = (
                np.nan if x is None else x
                for x in (objectives.sample_triplet, objectives.sample_hinged)
            )
            rows.append(
                {
                    **fields(run, "setup", "dataset", "model", "bias", "status", "deviations"),
                    "seed": str(run.seed),
                    "when": when,
                    "equation_5": objectives.triplet,
                    "equation_1": objectives.silhouette,
                    "above_equation_1": objectives.triplet - objectives.silhouette,
                    "equation_5_of_sample": bound,
                    "triplet_objective_of_sample": hinged,
                    "above_triplet_objective": bound - hinged,
                }
            )
    return pd.DataFrame(rows)


@table("nested_classes", title="Equation 5 on nested classes", section="B")
def nested_classes() -> pd.DataFrame:
    """The objective of equation 5 against that of equation 1, which it is said to bound from above,
    on two classes of equal size: with one mean, where it does not, and apart.

    The points are +-1 and +-1/2 on each axis, the means of the classes `distance` apart.

    With k points in each class, equation 5 minus equation 1 is (k - 2) B - (k - 1) W, with B and W
    the sums of squared distances between and within classes. With one mean, B / W = k / (k - 1),
    and the difference is negative: a counter-example.
    """
    # Imported here: most other tables need no torch, which takes seconds to load.
    from isotropy.metrics.identities import silhouette_objective, triplet_objective

    rows = []
    for d in NESTED_DIMENSIONS:
        axes = np.vstack([np.eye(d), -np.eye(d)])
        for distance in (0.0, 10.0):
            cloud, labels = np.vstack([axes, axes / 2 + distance]), np.repeat([0, 1], 2 * d)
            equation_5, equation_1 = (
                objective(cloud, labels) for objective in (triplet_objective, silhouette_objective)
            )
            rows.append(
                {
                    "setup": f"d {d}, means {distance:g} apart on each axis",
                    "d": d,
                    "distance": distance,
                    "equation_5": equation_5,
                    "equation_1": equation_1,
                    "above_equation_1": equation_5 - equation_1,
                    "status": "original",
                    "deviations": "",
                    "data": "two nested classes",
                }
            )
    return pd.DataFrame(rows)


@table("simplices", title="Clusters on the vertices of a simplex", section="2")
def simplices() -> pd.DataFrame:
    """IsoScore and silhouette of K equal clusters on the vertices of a simplex in d dimensions.
    Tight ones have IsoScore (K - 2)/(d - 1): anisotropic where K is far below d, isotropic and
    clustered at K = d + 1.

    Their centres are the vertices of a regular simplex with edges of length 1, in K - 1 of the d
    dimensions; `spread` is the standard deviation of points about them, over all dimensions.
    Without spread the participation ratio is K - 1, hence `expected` = (K - 2)/(d - 1).
    `lesser_above` is by how much the smaller of IsoScore and silhouette is above MIN_SCORE:
    positive for a cloud that is isotropic and clustered.
    """
    # Imported here: no other table needs torch, which takes seconds to load.
    from isotropy.metrics.isoscores import isoscore
    from isotropy.metrics.silhouettes import silhouette

    rows = []
    for d in SIMPLEX_DIMENSIONS:
        for n_clusters in sorted({2, 3, 6, 11, (d + 1) // 4, (d + 1) // 2, d, d + 1}):
            for spread in SPREADS:
                cloud, labels = _simplex(d, n_clusters, spread)
                score, clustered = isoscore(cloud), silhouette(cloud, labels)
                rows.append(
                    {
                        "setup": f"d {d}, {n_clusters} clusters, spread {spread:g}",
                        "d": d,
                        "n_clusters": n_clusters,
                        "spread": spread,
                        "fits": n_clusters - 1 < d,
                        "isoscore": score,
                        "silhouette": clustered,
                        "expected": (n_clusters - 2) / (d - 1),
                        "isoscore_error": abs(score - (n_clusters - 2) / (d - 1)),
                        "lesser_above": min(score, clustered) - MIN_SCORE,
                        "status": "original",
                        "deviations": "",
                        "data": "clusters on the vertices of a simplex",
                    }
                )
    return pd.DataFrame(rows)


def _simplex(d: int, n_clusters: int, spread: float) -> tuple[np.ndarray, np.ndarray]:
    """POINTS_PER_CLUSTER points about each vertex of a regular simplex, and their clusters."""
    vertices = np.zeros((n_clusters, d))
    vertices[:, : n_clusters - 1] = scipy.linalg.helmert(n_clusters).T / np.sqrt(2)
    draws = np.random.default_rng([d, n_clusters])
    noise = draws.standard_normal((n_clusters * POINTS_PER_CLUSTER, d)) * (spread / np.sqrt(d))
    return np.repeat(vertices, POINTS_PER_CLUSTER, axis=0) + noise, np.repeat(
        np.arange(n_clusters), POINTS_PER_CLUSTER
    )


@table(
    "limits", title="Classes and their closed form", runs="section3", kind="trajectory", section="2"
)
def limits(runs: Trajectories) -> pd.DataFrame:
    """The study's own classes against the IsoScore that as many tight and equally distant clusters
    would have, at the first and the last step.

    `limit` is NaN where K clusters cannot be equally distant, because K - 1 > d.
    """
    rows = []
    for run, steps in runs:
        first, last = steps.iloc[0], steps.iloc[-1]
        rows.append(
            {
                **fields(run, "setup", "dataset", "model", "status", "deviations"),
                "seed": str(run.seed),
                "d": run.dim,
                "n_classes": run.n_classes,
                "limit": (run.n_classes - 2) / (run.dim - 1)
                if run.n_classes - 1 <= run.dim
                else np.nan,
                "isoscore_first": first["isoscore"],
                "isoscore_last": last["isoscore"],
                "silhouette_first": first["silhouette"],
                "silhouette_last": last["silhouette"],
            }
        )
    return pd.DataFrame(rows)


@table(
    "controls",
    title="Shuffled labels, noise and the number of classes",
    runs="controls",
    kind="trajectory",
    needs="controls",
    section="3.2",
)
def controls(runs: Trajectories) -> pd.DataFrame:
    """Ours, as controls: shuffled labels, and noise with K classes, up to one more than dimensions.
    Correlation of IsoScore and silhouette over the updates, and both at the first and the last
    step, beside the limit (K - 2)/(d - 1).

    The columns of `limits`, what the control is, the accuracy at the last step, and the
    correlation. `control` is `shuffled`, `noise` or `classes`; `classes_fill` whether there are as
    many classes as can be equally distant, d + 1.
    """
    table = limits(runs)
    kinds = [run.setup.rpartition("--")[2].rstrip("0123456789") for run, _ in runs]
    correlations_of_runs = pd.DataFrame([_correlate(steps) for _, steps in runs])
    return pd.concat([table, correlations_of_runs], axis=1).assign(
        control=kinds,
        variant=[str(run.variant) for run, _ in runs],
        n_items=[run.n_items for run, _ in runs],
        data=[run.data for run, _ in runs],
        accuracy_last=[steps["accuracy"].iloc[-1] for _, steps in runs],
        classes_fill=table["n_classes"] == table["d"] + 1,
    )


def _trend(base: str, variant: str, steps: pd.DataFrame, values: pd.DataFrame) -> dict[str, object]:
    mean = values.mean()
    first_and_last = steps.groupby("step")[list(SCORES)].mean().iloc[[0, -1]]
    falls = first_and_last["isoscore"].iloc[1] < first_and_last["isoscore"].iloc[0]
    rises = first_and_last["silhouette"].iloc[1] > first_and_last["silhouette"].iloc[0]
    return {
        "setup": base,
        "variant": variant,
        "status": steps["status"].iloc[0],
        "n_seeds": len(values),
        "pearson_r": mean["pearson_r"],
        "pearson_r_sd": values["pearson_r"].std(ddof=1),
        "spearman_rho": mean["spearman_rho"],
        "isoscore_change": first_and_last["isoscore"].diff().iloc[1],
        "silhouette_change": first_and_last["silhouette"].diff().iloc[1],
        "trend": "holds" if falls and rises and mean["pearson_r"] < 0 else "does not hold",
    }


def _cells(published: pd.DataFrame, done: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Pairs of task and encoder: the paper's, encoder by encoder, then others of the study."""
    numbers = published[published["locator"] == "Table 2"]
    paper_cells = sorted(
        set(zip(numbers["dataset"], numbers["model"], strict=True)),
        key=lambda c: (list(ENCODERS).index(c[1]), c[0]),
    )
    return [*paper_cells, *(cell for cell in done if cell not in paper_cells)]


def _beside_published_counts(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Insert the published numbers of items and parameters, each after ours."""
    keys = {name: table[name] for name in ("dataset", "model")}
    for name in ("n_items", "n_params"):
        numbers = printed(table, published, quantity=name, **keys).astype("Int64")
        table.insert(list(table.columns).index(name) + 1, f"published_{name}", numbers)
    return table


def _correlate(steps: pd.DataFrame) -> dict[str, float]:
    result = {}
    for suffix, first in (("", 0), ("_without_step_0", 1)):
        a, b = (steps[score].to_numpy()[first:] for score in SCORES)
        result[f"pearson_r{suffix}"] = float(scipy.stats.pearsonr(a, b).statistic)
        result[f"spearman_rho{suffix}"] = float(scipy.stats.spearmanr(a, b).statistic)
    for score in SCORES:
        result[f"{score}_change"] = float(steps[score].iloc[-1] - steps[score].iloc[0])
    return result


@table(
    "trajectories",
    title="Scores after each update",
    runs="section3",
    kind="trajectory",
    section="3.2",
    caption=(
        "Loss, accuracy, IsoScore and silhouette of every setup and seed after each update: the "
        "numbers behind Figures 2 and 3."
    ),
)
@table(
    "trajectories-glue",
    title="Trajectories on GLUE",
    runs="glue",
    kind="trajectory",
    needs="glue",
    section="A",
    caption="The same for each GLUE task and encoder: the numbers behind Figure 4.",
)
@table(
    "trajectories-sensitivity",
    title="Trajectories with one thing changed",
    runs="sensitivity",
    kind="trajectory",
    needs="sensitivity",
    section="3",
    caption="The same for the setups with one thing changed at a time.",
)
def trajectories(runs: Trajectories) -> pd.DataFrame:
    """All trajectories in one long table: a row per step, with the facts about the run that figures
    need.
    """
    parts = [
        pd.DataFrame([run.model_dump(include=FACTS)]).merge(steps, how="cross")
        for run, steps in runs
    ]
    table = pd.concat(parts, ignore_index=True)
    first = [c for c in TrajectoryFacts.model_fields if c in FACTS and c != "seed"] + [
        "seed",
        "step",
    ]
    return table[first + [c for c in table.columns if c not in first]]
