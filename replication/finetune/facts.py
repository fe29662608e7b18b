"""Facts about a fine-tuned model, for tables, figures and captions."""

from __future__ import annotations

from typing import Any

import pandas as pd

from replication.finetune.spec import FinetuneFacts, FinetuneSpec
from replication.provenance.lineage import Lineage


def describe_run(
    spec: FinetuneSpec,
    facts: dict[str, Any],
    steps: pd.DataFrame,
    lineage: Lineage,
    n_train: int,
    n_validation: int,
) -> FinetuneFacts:
    """Collect facts about a run, which depend on spec and inputs alone; `facts` are from `measure`,
    `steps` from `finetune`.
    """
    return FinetuneFacts(
        run=spec.run,
        task=spec.task,
        model=spec.model,
        method=spec.method,
        seed=spec.seed,
        data=", and ".join(lineage.titles("dataset")),
        embedding=lineage.titles("model")[0],
        status=lineage.status,
        deviations=lineage.deviations,
        metric=spec.metric,
        zeta=spec.measure.zeta,
        n_train=n_train,
        n_validation=n_validation,
        updates=len(steps),
        learning_rate=spec.training.learning_rate,
        final_loss=float(steps["loss"].tail(max(1, len(steps) // 10)).mean()),
        **facts,
    )
