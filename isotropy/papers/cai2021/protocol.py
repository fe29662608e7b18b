"""What Cai et al. (2021) did, as values, and what of a measurement deviates from it."""

from __future__ import annotations

from isotropy.geometry.spec import LayerSpec, Lid, VectorsSpec

MODELS = ("bert-base-uncased", "distilbert-base-uncased", "openai-gpt", "gpt2")
"""The paper's models, without ELMo."""
CORPORA = ("wikitext-2", "ptb")
"""Section 2, and the slides."""
ENOUGH = 10_000
"""Points at which the mean local dimension has a standard error of about 0.4 %."""
STARTS = 10
"""Of k-means: scikit-learn's default when the authors' code was written."""
VECTORS = ("glove-twitter-100d", "glove-840b-300d", "word2vec-googlenews")
"""The paper's static vectors, inferred from the sizes that Table 3 prints."""


def layer_deviations(spec: LayerSpec) -> list[str]:
    """What of the geometry of a layer deviates, apart from its sources."""
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
    if how.n_init != STARTS:
        found.append(f"k-means starts {how.n_init} times, the authors' {STARTS} times")
    if how.n_components is not None:
        found.append(f"k-means sees {how.n_components} components, of which the paper says nothing")
    return found + _of_lid(spec.lid)


def vectors_deviations(spec: VectorsSpec) -> list[str]:
    """What of the local dimension of static vectors deviates, apart from their source."""
    found = [] if spec.vectors in VECTORS else [f"{spec.vectors} are not among the paper's vectors"]
    return found + _of_lid(spec.lid)


def _of_lid(lid: Lid) -> list[str]:
    found = [] if lid.k == 100 else [f"{lid.k} neighbours, the authors have 100"]
    if lid.n_queries is not None and lid.n_queries < ENOUGH:
        found.append(f"local dimension at {lid.n_queries} points only")
    return found
