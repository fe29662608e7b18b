"""Choices of Rudman & Eickhoff (2024)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from replication.finetune.spec import SAMPLED, FinetuneSpec
from replication.geometry.spec import StabilitySpec
from replication.papers.protocol import UNKNOWN, Choice, PublishedTraining, shown
from replication.spec import PaperSpec

TRAINING_ITEMS = {
    **{"sst2": 67_349, "qnli": 104_743, "rte": 2_490, "mrpc": 3_668, "qqp": 363_846},
    **{"cola": 8_551, "stsb": 5_749, "sst5": 8_544, "squad": 87_599},
}
"""Tasks of section 4, and the sizes of their official training sets."""
TASKS = tuple(TRAINING_ITEMS)
METRICS = {"cola": "matthews", "stsb": "pearson", "squad": "f1"}
"""Usual metrics of GLUE and SQuAD, where they are not accuracy."""
EXAMPLE = "sst2"
"""The task of the one script that the authors published; of the others they say "standard" grids.
"""
LAMBDAS = (-5.0, -3.0, -1.0, 0.5, 1.0, 3.0, 5.0)
"""Figure 5 and poster."""
ZETAS = (0.2, 0.4, 0.6, 0.8)
"""Quoted by others."""
CHOSEN = {"learning_rate": 1e-5, "batch_size": 32, "epochs": 4}
"""Fields that they chose per task from grids that nobody outside knows, with the example's values.
"""
TRAINING = PublishedTraining(TRAINING_ITEMS, batch_size=32, epochs=4, learning_rate=1e-5)
"""That of the example, for all tasks."""
RUN_MODEL = "code: run_model.py"


def _training(
    topic: str, name: str, theirs: Any, where: Callable[[FinetuneSpec], bool] | None = None
) -> Choice:
    """A field of the training."""

    def deviation(spec: FinetuneSpec) -> str:
        value, authors = shown(choice.value_in(spec)), shown(choice.expected(spec))
        return f"{topic}: {value}, the authors' {authors}"

    choice = Choice(topic, (f"training.{name}",), theirs, RUN_MODEL, deviation, where)
    return choice


def _is_example(spec: FinetuneSpec) -> bool:
    return spec.task == EXAMPLE


def _is_another(spec: FinetuneSpec) -> bool:
    return spec.task != EXAMPLE


def _uses(kind: str) -> Callable[[FinetuneSpec], bool]:
    return lambda spec: spec.method.kind == kind


def _layers(kind: str, theirs: str) -> Choice:
    return Choice(
        f"layers of {'I-STAR' if kind == 'istar' else 'CosReg'}",
        ("method.layers",),
        theirs,
        "code",
        "the penalty sees {value} layers, the authors' {theirs}",
        _uses(kind),
    )


CHOICES: Mapping[type[PaperSpec], tuple[Choice, ...]] = {
    FinetuneSpec: (
        Choice(
            "models",
            ("model",),
            ("bert-base-cased", "distilbert-base-cased", "albert-base-v2"),
            "section 4",
            "fine-tuned is {value}, which is not among the paper's encoders",
            covers=True,
        ),
        Choice(
            "data (tasks)",
            ("task",),
            TASKS,
            "section 4",
            "{value} is not among the paper's tasks",
            covers=True,
        ),
        Choice("split", (), "train, validation", "code: training_utils.py"),
        Choice("training items", ("training.n_train",), None, "section 4", SAMPLED, absent="all"),
        Choice("pooling of a sentence", (), "first token", "code: analysis.py"),
        Choice("optimizer", (), "AdamW", RUN_MODEL),
        _training("schedule of the rate", "schedule", "constant"),
        _training("warm-up", "warmup", 0.0),
        _training("weight decay", "weight_decay", 0.0),
        _training("gradient clipping", "max_grad_norm", None),
        _training("token types", "token_types", False),
        _training("padding counts in the penalty", "keep_padding", True),
        _training("tokens of the shrinkage covariance", "shrinkage_tokens", 250_000),
        _training("precision", "precision", "float16"),
        *(
            _training(f"{name.replace('_', ' ')}, SST-2", name, theirs, _is_example)
            for name, theirs in CHOSEN.items()
        ),
        _training("padding to the longest input", "pad_to_max_length", lambda s: s.task == "squad"),
        _training("longest input", "max_length", lambda s: 384 if s.task == "squad" else 256),
        _layers("istar", "all"),
        _layers("cosreg", "last"),
        Choice(
            "methods",
            ("method.kind",),
            ("none", "istar", "cosreg"),
            "section 4",
            "{value} is not among the paper's methods",
            covers=True,
        ),
        Choice(
            "lambda",
            ("method.strength",),
            LAMBDAS,
            "figure 5, poster",
            "lambda is {value:g}, which is not among the authors'",
            _uses("istar"),
            covers=True,
        ),
        Choice(
            "zeta",
            ("method.zeta",),
            ZETAS,
            "quoted by others",
            "zeta is {value:g}, which is not among the authors'",
            _uses("istar"),
            covers=True,
        ),
        Choice(
            "lambda of CosReg",
            ("method.strength",),
            1,
            "quoted by others",
            "lambda of CosReg is {value:g}, the authors have {theirs}",
            _uses("cosreg"),
        ),
        Choice(
            "metric",
            ("metric",),
            lambda s: tuple({"accuracy": 0, METRICS.get(s.task, "accuracy"): 0}),
            "code has accuracy alone; of some tasks others are usual",
            lambda s: f"measured by {s.metric}, the authors' by {METRICS.get(s.task, 'accuracy')}",
        ),
        Choice(
            "zeta of the measurement",
            ("measure.zeta",),
            0.75,
            "code: analysis.py",
            "IsoScore* is measured with zeta {value:g}, the authors' analysis has {theirs}",
        ),
        Choice(
            "tokens of the measurement's covariance", ("measure.tokens",), UNKNOWN, "not stated"
        ),
        *(
            Choice(
                f"{name.replace('_', ' ')}, other tasks",
                (f"training.{name}",),
                UNKNOWN,
                "grids are not stated",
                lambda s: f"unknown of the authors' runs on {s.task}: {', '.join(CHOSEN)}",
                _is_another,
            )
            for name in CHOSEN
        ),
        Choice("seeds", ("seed",), 5, "section 4; which are not stated", counted=True),
    ),
    StabilitySpec: (
        Choice(
            "cloud of figure 4",
            ("cloud.kind",),
            UNKNOWN,
            "quoted by others",
            "of the paper's cloud only dimensions, size and IsoScore are known, quoted by others",
        ),
    ),
}
WITHOUT_INFLUENCE: Mapping[type[PaperSpec], Mapping[str, str]] = {
    FinetuneSpec: {
        "run": "names the run",
        "train": "its source says whether it is the paper's",
        "validation": "its source says whether it is the paper's",
        "method.n_clusters": "of a method that the paper does not have",
        "method.n_components": "of a method that the paper does not have",
    },
    StabilitySpec: {
        "name": "names the cloud",
        **dict.fromkeys(
            ("cloud.d", "cloud.isoscore", "cloud.dataset", "cloud.embedding"),
            "nothing is known of the paper's cloud: every one is a stand-in",
        ),
        **dict.fromkeys(
            ("zetas", "sizes", "shrinkage_points", "repeats"),
            "nothing is known of the paper's samples: every one is a stand-in",
        ),
    },
}
"""Fields that no choice binds -> why."""
