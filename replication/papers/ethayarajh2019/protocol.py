"""Choices of Ethayarajh (2019)."""

from __future__ import annotations

from collections.abc import Mapping

from replication.geometry.spec import ContextsSpec, StaticWordsSpec
from replication.papers.protocol import UNKNOWN, Choice
from replication.spec import PaperSpec

UNITS = {"bert-base-cased": "pieces", "gpt2": "first"}
"""The paper's models, without ELMo, and what stands for a word: pieces of BERT's vocabulary; of
GPT-2's words one piece."""
SETS = ["sts12", "sts13", "sts14", "sts15", "sts16"]
"""SemEval's semantic textual similarity, 2012 to 2016."""
BASELINES = ("glove-42b-300d", "fasttext-wiki")
"""Table 1's static vectors: GloVe 42B, and fastText's wiki.en."""


def _sentences(topic: str = "") -> tuple[Choice, ...]:
    """Choices of models and sentences."""
    return (
        Choice(
            f"{topic}models",
            ("model",),
            (*UNITS, "elmo"),
            "section 3.1",
            "{value} is not among the paper's models",
            covers=True,
        ),
        Choice(
            f"{topic}data",
            ("datasets",),
            SETS,
            "section 3.2",
            "not all sentences of STS 2012 to 2016",
            accepts=lambda s: sorted(s.datasets) == SETS,
        ),
        Choice(
            f"{topic}contexts of a word, at least",
            ("min_contexts",),
            5,
            "section 3.2",
            "words in {value} sentences, the authors' in {theirs}",
        ),
    )


CHOICES: Mapping[type[PaperSpec], tuple[Choice, ...]] = {
    ContextsSpec: (
        *_sentences(),
        Choice("split", (), UNKNOWN, "not stated", ours="all sentences of the data"),
        Choice(
            "sentences", (), "25,572 and more, where mteb has fewer", "code: word2sent.json",
            never_followed=True, ours="those of the data above",
        ),
        Choice("layers", ("layer",), tuple(range(13)), "section 3.1", covers=True,
               where=lambda s: s.model in UNITS),
        Choice(
            "unit of a word",
            ("unit",),
            lambda s: UNITS[s.model],
            "code",
            lambda s: f"{s.model}: words by {s.unit}, the authors' by {UNITS[s.model]}",
            lambda s: s.model in UNITS,
        ),
        Choice(
            "random words of a baseline",
            ("n_baseline",),
            1000,
            "section 3.4",
            "{value:,} random words, the authors have {theirs:,}",
        ),
        Choice("draws of these words", ("n_draws",), UNKNOWN, "not stated"),
        Choice("seeds", ("seed",), UNKNOWN, "not stated"),
        Choice("metrics", (), "self-similarity, intra-sentence similarity, MEV", "section 3.3"),
    ),
    StaticWordsSpec: (
        *_sentences("static vectors: "),
        Choice(
            "static vectors: vocabulary",
            (),
            "cut to ELMo's",
            "section 4.3",
            "words are means of their pieces; the vocabulary is not cut to ELMo's",
            never_followed=True,
            ours="not cut",
        ),
        Choice(
            "static vectors",
            ("vectors",),
            list(BASELINES),
            "table 1",
            "the static vectors for comparison are not GloVe 42B and fastText's wiki.en",
            accepts=lambda s: set(s.vectors) <= set(BASELINES),
        ),
    ),
}  # fmt: skip
WITHOUT_INFLUENCE: Mapping[type[PaperSpec], Mapping[str, str]] = {
    ContextsSpec: {
        "texts": "names the data sets together",
        "units": "each is a row of its own: tables say which is not the authors'",
        "variants": "each is a row of its own: tables say which is not the authors'",
    },
    StaticWordsSpec: {
        "texts": "names the data sets together",
        "layers": "each is a row of its own",
        "benchmarks": "each is a row of its own",
    },
}
"""Fields that no choice binds -> why."""
