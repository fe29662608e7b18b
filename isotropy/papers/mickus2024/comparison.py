"""What a study does beside the text of Mickus et al. (2024)."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.comparison import Line, line, revisions
from isotropy.papers.mickus2024.protocol import GLUE_UPDATES, LEARNING_RATE, UPDATES
from isotropy.papers.mickus2024.study import Mickus2024

TASKS = ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "wnli")
GLUE_MODELS = ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1")
SETUPS = ("polarity", "snli", "pos", "supersenses")
VECTORS = "word2vec-enwiki-2021"


def compare(study: Mickus2024, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    setups = study.setups
    sentences = {s.embedding for n, s in setups.items() if n in ("polarity", "snli")}
    words = {s.embedding for n, s in setups.items() if n in ("pos", "supersenses")}
    norms = {s.mean_norm for n, s in setups.items() if n in SETUPS}
    models = sorted(sentences | set(study.glue.embeddings if study.glue else []))
    lines = [
        line("data", SETUPS, sorted(setups), "section 3.1"),
        line("model (sentences)", {"all-MiniLM-L6-v2"}, sorted(sentences), "section 3.1"),
        line("vectors (words)", {VECTORS}, sorted(words), "section 3.1"),
        revisions(models, context.registry),
        line("pooling", "the encoder's own", "the encoder's own", "section 3.1"),
        line("split", "all items, no test set", "all items, no test set", "section 3.1"),
        line("length of vectors", "as they come", _norms(norms), "section 3.1"),
        line("optimizer", "Adam, whole data set", "Adam, whole data set", "section 3.1"),
        line("learning rate", LEARNING_RATE, study.learning_rate, "section 3.1: PyTorch's"),
        line("updates", UPDATES, study.updates, "section 3.1"),
        line("seeds", 5, len(study.seeds), "section 3.1: five initializations"),
        line("metrics", "IsoScore, silhouette", "IsoScore, silhouette", "section 3.1"),
        line("items of a metric", None, _items(study.measure.sample_size), "section 3.1: not said"),
        line("step 0 counts in r", None, "yes", "section 3.2: not said"),
    ]
    if study.glue is not None:
        glue = study.glue
        lines += [
            line("GLUE tasks", TASKS, glue.tasks, "appendix A"),
            line("GLUE models", GLUE_MODELS, glue.embeddings, "appendix A"),
            line("GLUE updates", GLUE_UPDATES, glue.updates, "appendix A"),
            line("GLUE seeds", 5, len(glue.seeds), "appendix A"),
            line("GLUE items of a metric", None, _items(glue.sample_size), "appendix A: lost"),
        ]
    return lines


def _items(size: int | None) -> object:
    return "all" if size is None else size


def _norms(norms: set[float | None]) -> str:
    return "as they come" if norms <= {None} else f"scaled in {', '.join(map(str, norms))}"
