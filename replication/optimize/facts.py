"""Facts about a trajectory, for tables, figures and captions."""

from __future__ import annotations

from typing import Any

import numpy as np

from replication.optimize.descent import Items
from replication.optimize.spec import OptimizeSpec, TrajectoryFacts
from replication.prepare.table import Dataset
from replication.provenance.lineage import Lineage


def describe_run(
    spec: OptimizeSpec,
    items: Items,
    dataset: Dataset,
    n_labels: int,
    lineage: Lineage,
    facts: dict[str, Any],
) -> TrajectoryFacts:
    """Collect facts about a run, which depend on spec and inputs alone; `facts` are from
    `optimize`.
    """
    n_items = len(items.targets)
    scaling = "" if spec.mean_norm is None else f", scaled to mean norm {spec.mean_norm:g}"
    return TrajectoryFacts.of(
        spec,
        lineage,
        model=spec.embedding,
        data=lineage.titles("dataset", "lexicon")[0]
        + (f", a sample of {n_items}" if dataset.sampled or spec.control else ""),
        embedding=lineage.titles("model", "vectors")[0] + scaling,
        evaluation=_describe_evaluation(spec, n_items, facts),
        error_bound=facts["error_bound"],
        n_items=n_items,
        n_vectors=len(items.vectors),
        n_params=facts["n_params"],
        dim=items.vectors.shape[1],
        n_labels=n_labels,
        n_classes=len(np.unique(items.targets, axis=0)),
        objectives=facts["objectives"],
    )


def _describe_evaluation(spec: OptimizeSpec, n_items: int, facts: dict[str, Any]) -> str:
    """Describe in words how the scores were evaluated."""
    text = f"metrics at step 0 and after each of {spec.updates:,} updates"
    if spec.measure.samples(n_items):
        return f"{text}, on {spec.measure.sample_size:,} items drawn each time"
    if facts["windows"]:
        return (
            f"{text}, interpolated between evaluations (certified error below "
            f"{spec.measure.tolerance:g})"
        )
    return text
