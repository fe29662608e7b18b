"""In what a measurement departs from Cai et al. 2021, apart from its sources: why it is a
stand-in.
"""

from __future__ import annotations

from isotropy.geometry.spec import LayerSpec, Lid, VectorsSpec

MODELS = ("bert-base-uncased", "distilbert-base-uncased", "openai-gpt", "gpt2")
"""The paper's models, without ELMo."""
CORPORA = ("wikitext-2", "ptb")
ENOUGH = 10_000
"""Points at which the mean local dimension has a standard error of about 0.4 %."""
VECTORS = ("glove-twitter-100d", "glove-840b-300d", "word2vec-googlenews")
"""The paper's static vectors, inferred from the sizes that Table 3 prints."""


def deviations(spec: LayerSpec) -> list[str]:
    """Of the geometry of a layer."""
    found = [] if spec.model in MODELS else [f"{spec.model} is not among the paper's models"]
    if spec.source not in CORPORA:
        found.append(f"{spec.source} is not among the paper's corpora")
    if spec.source == "wikitext-2" and spec.empty != " ":
        found.append("empty lines do not read as in the official file")
    if spec.window != 512:
        found.append("windows are not the authors', of 512 tokens")
    how = spec.clustering
    if (how.k_max, how.sample_size, how.threshold, how.max_iter) != (15, 20_000, 0.1, 300):
        found.append("clusters are not counted as in the authors' code")
    return found + _of_lid(spec.lid)


def vectors_deviations(spec: VectorsSpec) -> list[str]:
    """Of the local dimension of static vectors."""
    found = [] if spec.vectors in VECTORS else [f"{spec.vectors} are not among the paper's vectors"]
    return found + _of_lid(spec.lid)


def _of_lid(lid: Lid) -> list[str]:
    found = [] if lid.k == 100 else [f"{lid.k} neighbours, the authors have 100"]
    if lid.n_queries is not None and lid.n_queries < ENOUGH:
        found.append(f"local dimension at {lid.n_queries} points only")
    return found
