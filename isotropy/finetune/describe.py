"""Facts about a fine-tuned model, for tables, figures and captions."""

from __future__ import annotations

from typing import Any

import pandas as pd

from isotropy.finetune.spec import FineTuned, FinetuneSpec
from isotropy.provenance.lineage import Lineage

# The papers' models and tasks: rudman2024, section 4; rajaee2021, the slides of 2020.
MODELS = {
    "rudman2024": ("bert-base-cased", "distilbert-base-cased", "albert-base-v2"),
    "rajaee2021": ("bert-base-uncased",),
}
TASKS = {
    "rudman2024": ("sst2", "qnli", "rte", "mrpc", "qqp", "cola", "stsb", "sst5", "squad"),
    "rajaee2021": ("rte", "wic"),
}
PROTOCOL: dict[str, dict[str, object]] = {
    "rudman2024": {
        "schedule": "constant",
        "warmup": 0.0,
        "weight_decay": 0.0,
        "max_grad_norm": None,
        "token_types": False,
        "keep_padding": True,
        "shrinkage_tokens": 250_000,
    },
    "rajaee2021": {"epochs": 2},
}
"""What is known of how they train: from the code, from the slides."""


def describe_run(
    spec: FinetuneSpec,
    facts: dict[str, Any],
    steps: pd.DataFrame,
    lineage: Lineage,
    n_train: int,
    n_validation: int,
) -> FineTuned:
    """Facts about a run; the same for the same spec and inputs. `facts` come from `measure`,
    `steps` from `finetune`.
    """
    return FineTuned(
        run=spec.run,
        task=spec.task,
        model=spec.model,
        method=spec.method,
        seed=spec.seed,
        data=", and ".join(lineage.titles("dataset")),
        embedding=lineage.titles("model")[0],
        status=lineage.status,
        metric=spec.metric,
        zeta=spec.measure.zeta,
        n_train=n_train,
        n_validation=n_validation,
        updates=len(steps),
        final_loss=float(steps["loss"].tail(max(1, len(steps) // 10)).mean()),
        **facts,
    )


def deviations(spec: FinetuneSpec, n_train: int, n_items: int) -> list[str]:
    """In what a run departs from the paper's protocol, as far as that is known, apart from the
    data: why it is a stand-in.
    """
    found = []
    if spec.model not in MODELS[spec.paper]:
        found.append(f"fine-tuned is {spec.model}, which is not among the paper's encoders")
    if spec.task not in TASKS[spec.paper]:
        found.append(f"{spec.task} is not among the paper's tasks")
    if n_train < n_items:
        found.append(f"trained on {n_train:,} of {n_items:,} items")
    known = PROTOCOL[spec.paper]
    own = spec.training.model_dump(include=set(known))
    found += [
        f"{name} is {own[name]}, the authors have {value}"
        for name, value in known.items()
        if own[name] != value
    ]
    return found
