"""Facts about a trajectory, for tables, figures and captions."""

from __future__ import annotations

from typing import Any

import numpy as np

from isotropy.optimize.descent import Items
from isotropy.optimize.spec import OptimizeSpec, Run
from isotropy.prepare.table import Dataset
from isotropy.provenance.lineage import Lineage

# The paper's protocol (section 3.1, Appendix A).
UPDATES, GLUE_UPDATES, LEARNING_RATE = 1000, 250, 0.001


def describe_run(
    spec: OptimizeSpec, items: Items, dataset: Dataset, lineage: Lineage, facts: dict[str, Any]
) -> Run:
    """Facts about a run; the same for the same spec and inputs. `facts` come from `optimize`."""
    n_labels = len(dataset.label_names)
    n_items = len(items.targets)
    scaled = "" if spec.mean_norm is None else f", scaled to mean norm {spec.mean_norm:g}"
    return Run(
        setup=spec.setup,
        base=spec.base,
        variant=spec.variant,
        dataset=spec.dataset,
        model=spec.embedding,
        seed=spec.seed,
        data=lineage.titles("dataset", "lexicon")[0]
        + (f", a sample of {n_items}" if dataset.sampled else ""),
        embedding=lineage.titles("model", "vectors")[0] + scaled,
        status=lineage.status,
        evaluation=_evaluation(spec, n_items, facts),
        error_bound=facts["error_bound"],
        n_items=n_items,
        n_vectors=len(items.vectors),
        n_params=facts["n_params"],
        dim=items.vectors.shape[1],
        n_labels=n_labels,
        n_classes=len(np.unique(items.targets, axis=0)),
        loss=spec.loss,
        bias=spec.bias,
        learning_rate=spec.learning_rate,
        objectives=facts["objectives"],
    )


def deviations(spec: OptimizeSpec, n_items: int) -> list[str]:
    """In what a run departs from the paper's protocol, apart from data and model: reasons why it is
    a stand-in.
    """
    found = []
    if spec.mean_norm is not None:
        found.append(f"vectors scaled to mean norm {spec.mean_norm:g}")
    updates = GLUE_UPDATES if spec.group == "glue" else UPDATES
    if spec.updates != updates:
        found.append(f"{spec.updates:,} updates, not {updates:,}")
    if spec.learning_rate != LEARNING_RATE:
        found.append(f"learning rate {spec.learning_rate:g}, not {LEARNING_RATE:g}")
    if spec.group != "glue" and _is_sampled(spec, n_items):
        found.append(f"metrics on {spec.measure.sample_size:,} items drawn at each step")
    return found


def _is_sampled(spec: OptimizeSpec, n_items: int) -> bool:
    return spec.measure.sample_size is not None and spec.measure.sample_size < n_items


def _evaluation(spec: OptimizeSpec, n_items: int, facts: dict[str, Any]) -> str:
    """How the scores were taken, in words."""
    text = f"metrics at step 0 and after each of {spec.updates:,} updates"
    if _is_sampled(spec, n_items):
        return f"{text}, on {spec.measure.sample_size:,} items drawn each time"
    if facts["windows"]:
        return f"{text}, interpolated between evaluations (certified error below "
        f"{spec.measure.tolerance:g})"
    return text
