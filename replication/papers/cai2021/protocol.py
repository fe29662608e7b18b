"""Choices of Cai et al. (2021)."""

from __future__ import annotations

from collections.abc import Mapping

from replication.geometry.spec import LayerSpec, VectorsSpec
from replication.papers.protocol import UNKNOWN, Choice
from replication.spec import PaperSpec

ENOUGH = 10_000
"""Points at which the mean local dimension has a standard error of about 0.4 %."""
CODE = "code: analysis.py"
DEFAULT = "scikit-learn's default of the time"

LID = (
    Choice("neighbours", ("lid.k",), 100, CODE, "{value} neighbours, the authors have {theirs}"),
    Choice(
        "points of the local dimension",
        ("lid.n_queries",),
        None,
        f"{CODE}; {ENOUGH:,} are enough",
        "local dimension at {value:,} points only",
        absent="all",
        accepts=lambda s: s.lid.n_queries is None or s.lid.n_queries >= ENOUGH,
    ),
)
CHOICES: Mapping[type[PaperSpec], tuple[Choice, ...]] = {
    LayerSpec: (
        Choice(
            "models",
            ("model",),
            ("bert-base-uncased", "distilbert-base-uncased", "openai-gpt", "gpt2", "elmo"),
            "section 2",
            "{value} is not among the paper's models",
            covers=True,
        ),
        Choice(
            "data",
            ("source",),
            ("wikitext-2", "ptb"),
            "section 2, slides",
            "{value} is not among the paper's corpora",
            covers=True,
        ),
        Choice(
            "empty lines",
            ("empty",),
            " ",
            "WikiText-2: the official file",
            "empty lines do not read as in the official file",
            lambda s: s.source == "wikitext-2",
        ),
        Choice(
            "split",
            (),
            UNKNOWN,
            ours="the data above",
            source="not stated; sizes in table 3 are those of PTB's train",
        ),
        Choice("layers", ("layer",), tuple(range(1, 13)), "section 2", covers=True),
        Choice("pooling", (), "none: tokens", CODE),
        Choice(
            "window",
            ("window",),
            512,
            "code: gen_embeds.py",
            "windows are not the authors', of {theirs} tokens",
        ),
        Choice(
            "clusters tried, items of a silhouette, silhouette of one cluster, iterations",
            (
                *("clustering.k_max", "clustering.sample_size"),
                *("clustering.threshold", "clustering.max_iter"),
            ),
            (15, 20_000, 0.1, 300),
            f"{CODE}; {DEFAULT}",
            "clusters are not counted as in the authors' code",
        ),
        Choice(
            "k-means, starts",
            ("clustering.n_init",),
            10,
            DEFAULT,
            "starts of k-means: {value}, the authors' {theirs}",
        ),
        Choice(
            "components before k-means",
            ("clustering.n_components",),
            UNKNOWN,
            "not stated",
            lambda s: (
                f"k-means sees {s.clustering.n_components} components, of which the paper says"
                " nothing"
            ),
            lambda s: s.clustering.n_components is not None,
        ),
        *LID,
        Choice("seeds", ("seeds",), UNKNOWN, "nothing is seeded"),
        Choice("metrics", (), "cosines, silhouette, LID", "sections 3 to 5"),
    ),
    VectorsSpec: (
        Choice(
            "vectors",
            ("vectors",),
            ("glove-twitter-100d", "glove-840b-300d", "word2vec-googlenews"),
            "table 3: from their sizes",
            "{value} are not among the paper's vectors",
            covers=True,
        ),
        *LID,
    ),
}
WITHOUT_INFLUENCE: Mapping[type[PaperSpec], Mapping[str, str]] = {
    LayerSpec: {
        "dataset": "its source says whether it is the paper's",
        "types": "each is a row of its own: tables say that words are not the authors' types",
        "variants": "each is a row of its own: tables say which is not the authors'",
        "lid.n_equal": "of a column of its own, at an equal number of points",
        "lid.n_types": "of columns of their own, with few points of each type",
        "n_points": "tokens in pictures",
    },
    VectorsSpec: {
        "lid.n_equal": "of a column of its own, at an equal number of points",
        "lid.n_types": "of columns of their own, with few points of each type",
        "seeds": "nothing is seeded",
    },
}
"""Fields that no choice binds -> why."""
