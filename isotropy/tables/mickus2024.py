"""Tables of Mickus, Grönroos & Attieh (2024), "Isotropy, Clusters, and Classifiers", ACL, section 3."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from isotropy.optimize.spec import Run


def read_runs(facts: Sequence[Path], tables: Sequence[Path]) -> list[tuple[Run, pd.DataFrame]]:
    """Trajectories with the facts about them."""
    return [(Run.parse(f.read_text("utf8")), pd.read_parquet(t)) for f, t in zip(facts, tables, strict=True)]


def trajectories(runs: Sequence[tuple[Run, pd.DataFrame]]) -> pd.DataFrame:
    """All trajectories in one long table: the facts of each run that figures need, then a row per evaluated step."""
    parts = []
    for run, steps in runs:
        facts = run.model_dump(include={"setup", "dataset", "model", "seed", "status", "data", "embedding", "schedule"})
        parts.append(pd.DataFrame([facts]).merge(steps, how="cross"))
    table = pd.concat(parts, ignore_index=True)
    first = ["setup", "dataset", "model", "status", "data", "embedding", "schedule", "seed", "step"]
    return table[first + [c for c in table.columns if c not in first]]


def table1(runs: Sequence[tuple[Run, pd.DataFrame]], published: pd.DataFrame) -> pd.DataFrame:
    """Table 1: number of items and of trainable parameters per setup, computed, beside the published numbers."""
    rows = []
    for setup in dict.fromkeys(run.setup for run, _ in runs):
        run = next(r for r, _ in runs if r.setup == setup)
        known = _published(published, run.dataset, run.model)
        rows.append(
            {
                "setup": setup,
                "data": run.data,
                "embedding": run.embedding,
                "status": run.status,
                "n_items": run.n_items,
                "published_n_items": known["value"].get("n_items"),
                "n_params": run.n_params,
                "published_n_params": known["value"].get("n_params"),
                "dim": run.dim,
                "n_labels": run.n_labels,
                "n_classes": run.n_classes,
                "bias": run.bias,
            }
        )
    return pd.DataFrame(rows).astype({"published_n_items": "Int64", "published_n_params": "Int64"})


def correlations(table: pd.DataFrame, published: pd.DataFrame) -> pd.DataFrame:
    """Section 3.2: correlation of IsoScore with silhouette over the updates of a trajectory.

    The paper measures after every update. Where the schedule is coarser, both scores are interpolated linearly to every
    update, so that the dense beginning does not weigh more than it does in the paper; `measured_steps` says how many
    were measured.

    One row per setup and seed, then one with the mean and one with the standard deviation (ddof = 1) over seeds; Pearson
    and Spearman, with step 0 and without, since the paper does not say which. The published value stands on the row of
    the mean, with how far to trust it.
    """
    rows = []
    for setup, group in table.groupby("setup", sort=False):
        values = pd.DataFrame([{"seed": str(seed), **_correlate(steps)} for seed, steps in group.groupby("seed")])
        numbers = values.drop(columns="seed")
        summary = pd.DataFrame([{"seed": "mean", **numbers.mean()}, {"seed": "sd", **numbers.std(ddof=1)}])
        both = pd.concat([values, summary], ignore_index=True)
        both.insert(0, "setup", setup)
        both.insert(1, "status", group["status"].iloc[0])
        both["updates"] = group["step"].max()
        both["measured_steps"] = group["step"].nunique()
        known = _published(published, group["dataset"].iloc[0], group["model"].iloc[0])
        mean = both["seed"] == "mean"
        both["published_pearson_r"] = np.where(mean, known["value"].get("pearson_r", np.nan), np.nan)
        both["published_spearman_below"] = np.where(mean, known["value"].get("spearman_rho_upper_bound", np.nan), np.nan)
        both["published_trust"] = np.where(mean, known["trust"].get("pearson_r", "nothing published"), "")
        rows.append(both)
    return pd.concat(rows, ignore_index=True)


def _published(published: pd.DataFrame, dataset: str, model: str) -> pd.DataFrame:
    """What the paper prints for a data set and model, by quantity; nothing for another pair."""
    return published[(published["dataset"] == dataset) & (published["model"] == model)].set_index("quantity")


def _correlate(steps: pd.DataFrame) -> dict[str, float]:
    every = np.arange(steps["step"].max() + 1)
    scores = [np.interp(every, steps["step"], steps[name]) for name in ("isoscore", "silhouette")]
    result = {}
    for suffix, first in (("", 0), ("_without_step_0", 1)):
        result[f"pearson_r{suffix}"] = float(stats.pearsonr(scores[0][first:], scores[1][first:]).statistic)
        result[f"spearman_rho{suffix}"] = float(stats.spearmanr(scores[0][first:], scores[1][first:]).statistic)
    return result
