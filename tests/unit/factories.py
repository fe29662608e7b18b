"""Tiny models and their inputs, and specs and facts of jobs: values that a test does not state."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from transformers import AutoConfig, AutoModelForSequenceClassification

from replication.finetune.data import Inputs
from replication.finetune.spec import (
    FinetuneFacts,
    FinetuneSpec,
    GeometrySettings,
    Method,
    Training,
)
from replication.optimize.spec import Evaluation, OptimizeSpec

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
    values = {"run": "r", "task": "rte", "model": "m", "method": Method(kind="none"), "seed": 0}
    values |= {"data": "data", "embedding": "model", "status": "original", "metric": "accuracy"}
    values |= {"performance": 60.0, "metrics": {}, "chance": 50.0, "mean_cosine": 0.5}
    values |= {"isoscore": 0.1, "isoscore_star": 0.1, "zeta": 0.75, "activations": [], "probes": []}
    values |= {"n_train": 10, "n_validation": 6, "n_tokens": 60, "n_layers": 2}
    values |= {"updates": 5, "learning_rate": 1e-5, "final_loss": 0.1}
    return FinetuneFacts.model_validate(values | changes)


def optimize_spec(**changes: Any) -> OptimizeSpec:
    """Return a spec of a trajectory, with the paper's values."""
    values = {"paper": "mickus2024", "setup": "polarity", "group": "section3", "base": "polarity"}
    values |= {"variant": None, "dataset": "polarity", "embedding": "all-MiniLM-L6-v2", "seed": 3}
    values |= {"loss": "cross_entropy", "bias": False, "mean_norm": None, "updates": 12}
    values |= {"learning_rate": 0.001, "measure": DIRECT, "device": "cpu"}
    return OptimizeSpec.model_validate(values | changes)


def tiny(kind: str = "bert", seed: int = 0, **changes: Any) -> Any:
    """Return a tiny classifier of an architecture with random weights, with changed fields of its
    configuration.
    """
    torch.manual_seed(seed)
    sizes = {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2}
    sizes |= {"intermediate_size": 32, "hidden_dim": 32, "embedding_size": 8, "vocab_size": 50}
    config = AutoConfig.for_model(kind, **sizes, num_labels=2, pad_token_id=0, **changes)
    return AutoModelForSequenceClassification.from_config(config)


def learnable_inputs(n: int = 22, seed: int = 0) -> Inputs:
    """Return inputs of different lengths; the class depends on the second word piece."""
    generator = np.random.default_rng(seed)
    ids = [[1, *generator.integers(5, 50, generator.integers(3, 12)).tolist()] for _ in range(n)]
    return Inputs("single-label", ids, None, np.array([row[1] % 2 for row in ids]), [], [])
