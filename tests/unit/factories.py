"""Specs and facts of jobs, with values for the fields that a test does not state."""

from __future__ import annotations

from typing import Any

from isotropy.finetune.spec import FinetuneFacts, FinetuneSpec, GeometrySettings, Method, Training
from isotropy.optimize.spec import Evaluation, OptimizeSpec

DIRECT = Evaluation(tolerance=None, sample_size=None)
ISTAR = Method(kind="istar", strength=-1.0, zeta=0.3)
TRAINING = Training(
    learning_rate=0.001,
    batch_size=4,
    epochs=2,
    n_train=None,
    max_length=16,
    token_types=False,
    keep_padding=False,
    pad_to_max_length=False,
    schedule="constant",
    warmup=0.0,
    weight_decay=0.0,
    max_grad_norm=1.0,
    shrinkage_tokens=60,
    precision="float32",
)


def finetune_spec(method: Method = ISTAR, **training: Any) -> FinetuneSpec:
    """Return a spec of fine-tuning, with changed fields of the training."""
    return FinetuneSpec(
        paper="rudman2024",
        run="r",
        task="t",
        train="a",
        validation="b",
        metric="accuracy",
        model="m",
        method=method,
        training=TRAINING.model_copy(update=training),
        measure=GeometrySettings(zeta=0.75, tokens=200),
        seed=3,
        device="cpu",
    )


def finetune_facts(**changes: Any) -> FinetuneFacts:
    """Return facts about a fine-tuned model."""
    values = {
        "run": "r",
        "task": "rte",
        "model": "m",
        "method": Method(kind="none"),
        "seed": 0,
        "data": "data",
        "embedding": "model",
        "status": "original",
        "metric": "accuracy",
        "performance": 60.0,
        "metrics": {},
        "chance": 50.0,
        "isoscore": 0.1,
        "isoscore_star": 0.1,
        "mean_cosine": 0.5,
        "zeta": 0.75,
        "n_train": 10,
        "n_validation": 6,
        "n_tokens": 60,
        "n_layers": 2,
        "updates": 5,
        "final_loss": 0.1,
        "activations": [],
        "probes": [],
    }
    return FinetuneFacts.model_validate(values | changes)


def optimize_spec(**changes: Any) -> OptimizeSpec:
    """Return a spec of a trajectory, with the paper's values."""
    values = {
        "paper": "mickus2024",
        "setup": "polarity",
        "group": "section3",
        "base": "polarity",
        "variant": None,
        "dataset": "polarity",
        "embedding": "all-MiniLM-L6-v2",
        "loss": "cross_entropy",
        "bias": False,
        "mean_norm": None,
        "seed": 3,
        "updates": 12,
        "learning_rate": 0.001,
        "measure": DIRECT,
        "device": "cpu",
    }
    return OptimizeSpec.model_validate(values | changes)
