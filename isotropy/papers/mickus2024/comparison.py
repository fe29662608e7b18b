"""What a study does beside the text of Mickus et al. (2024)."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.comparison import Line, always, line, revisions
from isotropy.papers.mickus2024 import protocol
from isotropy.papers.mickus2024.study import Mickus2024


def compare(study: Mickus2024, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    setups = study.setups
    sentences = {s.embedding for n, s in setups.items() if n in ("polarity", "snli")}
    words = {s.embedding for n, s in setups.items() if n in ("pos", "supersenses")}
    norms = {s.mean_norm for n, s in setups.items() if n in protocol.SETUPS}
    models = sorted(sentences | set(study.glue.embeddings if study.glue else []))
    lines = [
        line("data", protocol.SETUPS, sorted(setups), "section 3.1"),
        line("model (sentences)", {protocol.MODEL}, sorted(sentences), "section 3.1"),
        line("vectors (words)", {protocol.VECTORS}, sorted(words), "section 3.1"),
        revisions(models, context.registry),
        always("pooling", "the encoder's own", "section 3.1"),
        always("split", "all items, no test set", "section 3.1"),
        line("length of vectors", "as they come", _norms(norms), "section 3.1"),
        always("optimizer", "Adam, whole data set", "section 3.1"),
        line(
            "learning rate", protocol.LEARNING_RATE, study.learning_rate, "section 3.1: PyTorch's"
        ),
        line("updates", protocol.UPDATES, study.updates, "section 3.1"),
        line("seeds", 5, len(study.seeds), "section 3.1: five initializations"),
        always("metrics", "IsoScore, silhouette", "section 3.1"),
        line("items of a metric", None, _items(study.measure.sample_size), "section 3.1: not said"),
        line("step 0 counts in r", None, "yes", "section 3.2: not said"),
    ]
    if study.glue is not None:
        glue = study.glue
        lines += [
            line("GLUE tasks", protocol.TASKS, glue.tasks, "appendix A"),
            line("GLUE models", protocol.GLUE_MODELS, glue.embeddings, "appendix A"),
            line("GLUE updates", protocol.GLUE_UPDATES, glue.updates, "appendix A"),
            line("GLUE seeds", 5, len(glue.seeds), "appendix A"),
            line("GLUE items of a metric", None, _items(glue.sample_size), "appendix A: lost"),
        ]
    return lines


def _items(size: int | None) -> object:
    return "all" if size is None else size


def _norms(norms: set[float | None]) -> str:
    return "as they come" if norms <= {None} else f"scaled in {', '.join(map(str, norms))}"
