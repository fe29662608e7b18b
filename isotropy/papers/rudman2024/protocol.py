"""What Rudman & Eickhoff (2024) did, as values, and what of a job deviates from it."""

from __future__ import annotations

from isotropy.finetune.spec import FinetuneSpec
from isotropy.geometry.spec import StabilitySpec

MODELS = ("bert-base-cased", "distilbert-base-cased", "albert-base-v2")
"""Section 4."""
TASKS = ("sst2", "qnli", "rte", "mrpc", "qqp", "cola", "stsb", "sst5", "squad")
"""Section 4."""
METRICS = {"cola": "matthews", "stsb": "pearson", "squad": "f1"}
"""Of GLUE and SQuAD, where it is not accuracy; the authors' code has accuracy alone."""
LAMBDAS = (-5.0, -3.0, -1.0, 0.5, 1.0, 3.0, 5.0)
"""Figure 5 and the poster."""
ZETAS = (0.2, 0.4, 0.6, 0.8)
"""As others quote them."""
TRAINING: dict[str, object] = {
    "schedule": "constant",
    "warmup": 0.0,
    "weight_decay": 0.0,
    "max_grad_norm": None,
    "token_types": False,
    "keep_padding": True,
    "shrinkage_tokens": 250_000,
    "precision": "float16",
}
"""How they train, as far as their code says."""

LAYERS = {"istar": "all", "cosreg": "last"}
"""Hidden layers that each penalty sees, by their code."""
PADDED = ("squad",)
"""Tasks whose items they pad to the maximum length; the others to the longest of a batch."""

COSREG = 1
"""lambda of CosReg."""
ZETA_OF_MEASUREMENT = 0.75
"""zeta of IsoScore* in their analysis of fine-tuned models."""

EXAMPLE: dict[str, dict[str, object]] = {
    "sst2": {"learning_rate": 1e-5, "batch_size": 32, "epochs": 4},
}
"""What their script of one example has, by task; of the others they say "standard" grids."""
CHOSEN = ("learning_rate", "batch_size", "epochs")
"""What they chose per task from grids that nobody outside knows."""


def finetune_deviations(spec: FinetuneSpec, n_train: int, n_items: int) -> list[str]:
    """What of a fine-tuned model deviates from the protocol, apart from the data.

    Args:
        spec: of the model.
        n_train: items that it was trained on.
        n_items: items that there are.
    """
    known = EXAMPLE.get(spec.task, {})
    training = TRAINING | known | {"pad_to_max_length": spec.task in PADDED}
    found = spec.deviations(MODELS, TASKS, training, n_train, n_items)
    layers = LAYERS.get(spec.method.kind, spec.method.layers)
    if spec.method.layers != layers:
        found.append(f"the penalty sees {spec.method.layers} layers, the authors' {layers}")
    if spec.method.kind == "cosreg" and spec.method.strength != COSREG:
        found.append(f"lambda of CosReg is {spec.method.strength:g}, the authors have {COSREG}")
    if spec.measure.zeta != ZETA_OF_MEASUREMENT:
        theirs = f"the authors' analysis has {ZETA_OF_MEASUREMENT}"
        found.append(f"IsoScore* is measured with zeta {spec.measure.zeta:g}, {theirs}")
    if unknown := [name for name in CHOSEN if name not in known]:
        found.append(f"unknown of the authors' runs on {spec.task}: {', '.join(unknown)}")
    return found


def stability_deviations(_spec: StabilitySpec) -> list[str]:
    """What of the samples of a cloud deviates from the protocol."""
    return ["of the paper's cloud only dimensions, size and IsoScore are known, quoted by others"]
