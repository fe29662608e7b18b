"""Choices of Mickus et al. (2024)."""

from __future__ import annotations

from collections.abc import Mapping

from replication.optimize.spec import OptimizeSpec
from replication.papers.protocol import UNKNOWN, Choice
from replication.spec import PaperSpec

SENTENCES, WORDS = ("polarity", "snli"), ("pos", "supersenses")
"""Setups (section 3.1)."""
GLUE_UPDATES, UPDATES = 250, 1000


def _is_glue(spec: OptimizeSpec) -> bool:
    return spec.group == "glue"


def _is_main(spec: OptimizeSpec) -> bool:
    return not _is_glue(spec)


def _is_words(spec: OptimizeSpec) -> bool:
    return spec.base.partition("-")[0] in WORDS


def _is_sentences(spec: OptimizeSpec) -> bool:
    return _is_main(spec) and spec.base.partition("-")[0] in SENTENCES


CHOICES: Mapping[type[PaperSpec], tuple[Choice, ...]] = {
    OptimizeSpec: (
        Choice(
            "data",
            ("base",),
            (*SENTENCES, *WORDS),
            "section 3.1",
            where=lambda s: s.group == "section3",
            covers=True,
        ),
        Choice(
            "model (sentences)",
            ("embedding",),
            "all-MiniLM-L6-v2",
            "section 3.1",
            "embeddings of {value}, the authors' of {theirs}",
            where=_is_sentences,
        ),
        Choice(
            "vectors (words)",
            ("embedding",),
            "word-vectors-300d",
            "section 3.1: word2vec of the English Wikipedia",
            "vectors of {value}, the authors' are word2vec's of the English Wikipedia",
            where=_is_words,
        ),
        Choice("pooling", (), "the encoder's own", "section 3.1"),
        Choice("split", (), "all items, no test set", "section 3.1"),
        Choice(
            "length of vectors",
            ("mean_norm",),
            None,
            "section 3.1: as they come",
            "vectors scaled to mean norm {value:g}",
            absent="as they come",
        ),
        Choice(
            "labels",
            ("control",),
            None,
            "section 3.1: the data set's",
            lambda s: f"a control: {s.variant}",
            absent="the data set's",
        ),
        Choice("optimizer", (), "Adam, whole data set", "section 3.1"),
        Choice(
            "updates",
            ("updates",),
            UPDATES,
            "section 3.1",
            "{value:,} updates, not {theirs:,}",
            where=_is_main,
        ),
        Choice(
            "GLUE updates",
            ("updates",),
            GLUE_UPDATES,
            "appendix A",
            "{value:,} updates, not {theirs:,}",
            where=_is_glue,
        ),
        Choice(
            "learning rate",
            ("learning_rate",),
            0.001,
            "section 3.1: PyTorch's",
            "learning rate {value:g}, not {theirs:g}",
        ),
        Choice(
            "loss",
            ("loss",),
            lambda s: "binary_cross_entropy" if _is_words(s) else "cross_entropy",
            "section 3.1",
            "loss {value}, the authors' is {theirs}",
        ),
        Choice(
            "bias of the classifier",
            ("bias",),
            lambda s: s.base.partition("-")[0] != "polarity",
            "parameters of tables 1 and 2",
            lambda s: f"classifier {'with' if s.bias else 'without'} bias, unlike the authors'",
        ),
        Choice("seeds", ("seed",), 5, "section 3.1: five initializations", counted=True,
               where=lambda s: s.group == "section3"),
        Choice("GLUE seeds", ("seed",), 5, "appendix A", counted=True, where=_is_glue),
        Choice("metrics", (), "IsoScore, silhouette", "section 3.1"),
        Choice(
            "items of a metric",
            ("measure.sample_size",),
            None,
            "section 3.1: not said; all",
            "metrics on {n:,} items drawn at each step",
            where=_is_main,
            absent="all",
        ),
        Choice(
            "GLUE items of a metric",
            ("measure.sample_size",),
            UNKNOWN,
            "appendix A: drawn where there are many; how many is lost",
            "metrics on {n:,} items drawn at each step, whose number is not known of the authors",
            where=lambda s: _is_glue(s) and s.measure.sample_size is not None,
        ),
        Choice("step 0 counts in r", (), UNKNOWN, "section 3.2: not said", ours="yes"),
        Choice(
            "GLUE tasks",
            ("base",),
            ("cola", "mnli", "mrpc", "qnli", "qqp", "rte", "sst2", "wnli"),
            "appendix A",
            "{value} is not among the paper's GLUE tasks",
            where=_is_glue,
            covers=True,
        ),
        Choice(
            "GLUE models",
            ("embedding",),
            ("all-MiniLM-L6-v2", "all-mpnet-base-v2", "all-distilroberta-v1"),
            "appendix A",
            "{value} is not among the paper's encoders",
            where=_is_glue,
            covers=True,
        ),
    ),
}  # fmt: skip
WITHOUT_INFLUENCE: Mapping[type[PaperSpec], Mapping[str, str]] = {
    OptimizeSpec: {
        "setup": "names the trajectory",
        "group": "names the part of the paper",
        "variant": "names what other fields change",
        "dataset": "its source says whether it is the paper's",
        "measure.tolerance": "scores differ from exact ones by less than their certified error",
    }
}
"""Fields that no choice binds -> why."""
