"""What a study does beside the text and code of Cai et al. (2021)."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.cai2021 import protocol
from isotropy.papers.cai2021.study import Cai2021
from isotropy.papers.comparison import Line, always, line, revisions

CODE = "code: analysis.py"


def compare(study: Cai2021, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    how, lid = study.clustering, study.lid
    corpora = sorted({corpus for own in study.models.values() for corpus in own.corpora})
    layers = sorted({layer for own in study.models.values() for layer in own.layers})
    enough = lid.n_queries is None or lid.n_queries >= protocol.ENOUGH
    return [
        line("models", (*protocol.MODELS, "elmo"), sorted(study.models), "section 2"),
        revisions(study.models, context.registry),
        line("data", protocol.CORPORA, corpora, "section 2, slides"),
        line("vectors", protocol.VECTORS, study.vectors, "table 3: from their sizes"),
        line("split", None, "train", "not stated; sizes in table 3 are those of PTB's train"),
        line("layers", tuple(range(1, 13)), layers, "section 2"),
        always("pooling", "none: tokens", CODE),
        line("types", {"subwords"}, study.types, CODE),
        line("window", 512, study.window, "code: gen_embeds.py"),
        line("clusters tried, at most", 15, how.k_max, CODE),
        line("items of a silhouette", 20_000, how.sample_size, CODE),
        line("silhouette of one cluster", 0.1, how.threshold, CODE),
        line("k-means, iterations", 300, how.max_iter, "scikit-learn's default of the time"),
        line("k-means, starts", protocol.STARTS, how.n_init, "scikit-learn's default of the time"),
        line("components before k-means", None, how.n_components, "not stated"),
        line("neighbours", 100, lid.k, CODE),
        line("points of the local dimension", "all", "all" if lid.n_queries is None else
             f"{lid.n_queries:,}{'' if enough else ', too few'}", CODE),
        line("seeds", None, len(study.seeds), "nothing is seeded"),
        always("metrics", "cosines, silhouette, LID", "sections 3 to 5"),
    ]  # fmt: skip
