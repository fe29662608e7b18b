"""What a study does beside the text of Ethayarajh (2019)."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.comparison import Line, always, line, revisions
from isotropy.papers.ethayarajh2019 import protocol
from isotropy.papers.ethayarajh2019.study import Ethayarajh2019


def compare(study: Ethayarajh2019, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    sets = sorted({name for names in study.texts.values() for name in names})
    lines = [
        line("models", (*protocol.MODELS, "elmo"), sorted(study.models), "section 3.1"),
        revisions(study.models, context.registry),
        line("data", protocol.SETS, sets, "section 3.1"),
        line("split", None, "test", "not stated"),
        line("sentences", "25,572 and more", "those of mteb", "code: word2sent.json"),
    ]
    for name, own in sorted(study.models.items()):
        if name in protocol.MODELS:
            lines += [
                line(f"{name}: layers", tuple(range(13)), own.layers, "section 3.1"),
                line(f"{name}: what stands for a word", protocol.MODELS[name], own.unit, "code"),
            ]
    vectors = study.benchmarks.vectors if study.benchmarks else []
    return [
        *lines,
        line("contexts of a word, at least", protocol.MIN_CONTEXTS, study.min_contexts,
             "section 3.2"),
        line("words of the baseline", protocol.N_BASELINE, study.n_baseline, "section 3.4"),
        line("draws of the baseline", None, study.n_draws, "not stated"),
        line("static vectors", protocol.BASELINES, vectors, "table 1"),
        line("seeds", None, 1, "not stated"),
        always("metrics", "self-similarity, intra-sentence similarity, MEV", "section 3.3"),
    ]  # fmt: skip
