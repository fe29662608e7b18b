"""What a study does beside the text and code of Rudman & Eickhoff (2024)."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.comparison import Line, always, line, revisions, shown
from isotropy.papers.rudman2024 import protocol
from isotropy.papers.rudman2024.study import Rudman2024

NAMES = {
    "schedule": "schedule of the rate",
    "warmup": "warm-up",
    "weight_decay": "weight decay",
    "max_grad_norm": "gradient clipping",
    "token_types": "token types",
    "keep_padding": "padding counts in the penalty",
    "shrinkage_tokens": "tokens of the shrinkage covariance",
    "precision": "precision",
}


def compare(study: Rudman2024, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    training = study.training
    example = protocol.EXAMPLE["sst2"]
    lines = [
        line("models", protocol.MODELS, study.models, "section 4"),
        revisions(study.models, context.registry),
        line("data (tasks)", protocol.TASKS, study.run_tasks, "section 4"),
        always("split", "train, validation", "code: training_utils.py"),
        line("training items", "all", training.n_train or "all", "section 4"),
        line("layers of I-STAR", protocol.LAYERS["istar"], study.istar_layers, "code"),
        line("layers of CosReg", protocol.LAYERS["cosreg"], study.cosreg_layers, "code"),
        always("pooling of a sentence", "first token", "code: analysis.py"),
        line("lambda", protocol.LAMBDAS, study.lambdas, "figure 5, poster"),
        line("zeta", protocol.ZETAS, study.zetas, "quoted by others"),
        line("lambda of CosReg", protocol.COSREG, study.cosreg, "quoted by others"),
        always("optimizer", "AdamW", "code: run_model.py"),
    ]
    settings = training.model_dump()
    lines += [
        line(NAMES[name], shown(value), shown(settings[name]), "code: run_model.py")
        for name, value in protocol.TRAINING.items()
    ]
    for name in protocol.CHOSEN:
        topic = name.replace("_", " ")
        lines.append(line(f"{topic}, SST-2", example[name], settings[name], "code: run_model.sh"))
        lines.append(line(f"{topic}, other tasks", None, settings[name], "grids are not stated"))
    metrics = {name: protocol.METRICS.get(name, "accuracy") for name in study.run_tasks}
    ours = [f"{name} {study.tasks[name].metric}" for name in study.run_tasks]
    return [
        *lines,
        line("seeds", 5, len(study.seeds), "section 4; which are not stated"),
        line("metric", None, ours, f"usual: {', '.join(sorted(set(metrics.values())))}"),
        line(
            "zeta of the measurement",
            protocol.ZETA_OF_MEASUREMENT,
            study.measure.zeta,
            "code: analysis.py",
        ),
    ]
