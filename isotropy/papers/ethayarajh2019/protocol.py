"""What Ethayarajh (2019) did, as values, and what of a measurement deviates from it."""

from __future__ import annotations

from isotropy.geometry.spec import ContextsSpec, StaticWordsSpec, Unit

MODELS: dict[str, Unit] = {"bert-base-cased": "pieces", "gpt2": "first"}
"""The paper's models, without ELMo, and what stands for a word: pieces of BERT's vocabulary; of
GPT-2's words one piece."""
SETS = ("sts12", "sts13", "sts14", "sts15", "sts16")
"""Section 3.1: SemEval's semantic textual similarity, 2012 to 2016."""
MIN_CONTEXTS = 5
"""Section 3.2: words in at least five unique contexts."""
N_BASELINE = 1000
"""Section 3.4."""
BASELINES = ("glove-42b-300d", "fasttext-wiki")
"""Table 1's static vectors: GloVe 42B, and fastText's wiki.en."""


def contexts_deviations(spec: ContextsSpec) -> list[str]:
    """What of the contextuality of a layer deviates, apart from its sources."""
    found = _of_sentences(spec.model, spec.datasets, spec.min_contexts)
    if spec.model in MODELS and spec.unit != MODELS[spec.model]:
        found.append(f"{spec.model}: words by {spec.unit}, the authors' by {MODELS[spec.model]}")
    if spec.n_baseline != N_BASELINE:
        found.append(f"{spec.n_baseline:,} random words, the authors have {N_BASELINE:,}")
    return found


def static_deviations(spec: StaticWordsSpec) -> list[str]:
    """What of static vectors deviates, apart from their sources."""
    found = _of_sentences(spec.model, spec.datasets, spec.min_contexts)
    found.append("words are means of their pieces; the vocabulary is not cut to ELMo's")
    if not set(spec.vectors) <= set(BASELINES):
        found.append("static vectors beside are not GloVe 42B and fastText's wiki.en")
    return found


def _of_sentences(model: str, datasets: list[str], min_contexts: int) -> list[str]:
    found = [] if model in MODELS else [f"{model} is not among the paper's models"]
    if sorted(datasets) != sorted(SETS):
        found.append("sentences are not those of STS 2012 to 2016, complete")
    if min_contexts != MIN_CONTEXTS:
        found.append(f"words in {min_contexts} sentences, the authors' in {MIN_CONTEXTS}")
    return found
