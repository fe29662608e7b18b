"""Its tables and figures: an entry for each function of `tables.py` and `figures.py`."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.papers.cai2021.comparison import compare
from isotropy.papers.cai2021.plan import plan
from isotropy.papers.cai2021.study import Cai2021
from isotropy.papers.registry import Paper
from isotropy.tables.spec import TableSpec

TABLES = (
    TableSpec(
        id="cai2021/table3",
        function="table3",
        tables=["cai2021/layers", "cai2021/vectors"],
        published=[],
        section="Table 3",
        caption=(
            "Local intrinsic dimension of contextual and static vectors, by cosines as "
            "published (squares of distances, which halve it) and conventional, and by "
            "Euclidean distances; mean over layers, mean and sd over seeds. The slides do "
            "not name the corpus, which follows from n."
        ),
    ),
    TableSpec(
        id="cai2021/reference",
        function="reference",
        tables=["cai2021/layers"],
        published=[],
        section="3",
        caption=(
            "IsoScore and mean cosine of all tokens per layer, beside those of Rudman et "
            "al. (2022) for the same models, corpus and stream: an independent check."
        ),
    ),
    TableSpec(
        id="cai2021/directions",
        function="directions",
        tables=["cai2021/layers"],
        section="3 to 5",
        caption=(
            "What the claims are about, per corpus, model, layer and seed: cosines before and "
            "after clustering and centring, local dimension, and how much goes with position."
        ),
    ),
    TableSpec(
        id="cai2021/against_static",
        function="against_static",
        tables=["cai2021/layers", "cai2021/vectors"],
        section="5",
        caption=(
            "Conventional local dimension by cosines of each layer, against that of static "
            "vectors: of all points, and of an equal number, on which the dimension depends."
        ),
    ),
    TableSpec(
        id="cai2021/layers",
        function="layers",
        runs="layers",
        kind="layer",
        section="3 to 5",
        caption="Every score of every layer: cosines, clusters, local dimension, IsoScore.",
    ),
    TableSpec(
        id="cai2021/variants",
        function="variants",
        runs="layers",
        kind="layer",
        needs="variants",
        section="3 to 5",
        caption=(
            "Every score of every layer of models with variants: all tokens, without the first "
            "of each window, without massive activations, and with standardized dimensions."
        ),
    ),
    TableSpec(
        id="cai2021/variant_directions",
        function="variant_directions",
        tables=["cai2021/variants"],
        needs="variants",
        section="3 to 5",
        caption="What the claims on variants are about, per model, layer, variant and seed.",
    ),
    TableSpec(
        id="cai2021/turns",
        function="turns",
        tables=["cai2021/variants"],
        needs="variants",
        section="3 to 5",
        caption=(
            "In how many layers each statement holds with all tokens and with each variant, and "
            "whether the variant turns it. Ours: in decoders a few tokens and dimensions can "
            "hide the rest."
        ),
    ),
    TableSpec(
        id="cai2021/silhouettes",
        function="silhouettes",
        runs="layers",
        kind="layer",
        part="silhouettes",
        section="4",
        caption="Silhouette for each number of clusters that was tried.",
    ),
    TableSpec(
        id="cai2021/points",
        function="points",
        runs="layers",
        kind="layer",
        part="points",
        section="4, 5",
        caption=(
            "A part of the tokens of each layer on principal components of the whole and of "
            "the largest cluster."
        ),
    ),
    TableSpec(
        id="cai2021/vectors",
        function="vectors",
        runs="vectors",
        kind="vectors",
        section="Table 3",
        caption="Local intrinsic dimension of static vectors.",
    ),
)

FIGURES = (
    FigureSpec(
        id="cai2021/cosines",
        function="cosines_per_layer",
        tables=["cai2021/layers"],
        section="3, 4",
        caption=(
            "Cosines between and within types, layer by layer, before and after clustering "
            "and centring. The paper finds that both are high everywhere, and that S_inter "
            "is near zero within clusters."
        ),
    ),
    FigureSpec(
        id="cai2021/silhouettes",
        function="clusters_per_layer",
        tables=["cai2021/layers", "cai2021/silhouettes"],
        section="4",
        caption="How many clusters a layer has: the silhouette for each number of clusters.",
    ),
    FigureSpec(
        id="cai2021/clusters",
        function="isolated_clusters",
        tables=["cai2021/points", "cai2021/layers"],
        section="4",
        caption=(
            "Tokens of a layer on its first two principal components. The paper finds that "
            "isolated clusters dominate."
        ),
    ),
    FigureSpec(
        id="cai2021/manifolds",
        function="manifolds",
        tables=["cai2021/points"],
        section="5",
        caption=(
            "The largest cluster of a low layer, by position, frequency and kind of token. "
            "The paper finds a Swiss roll in GPT and GPT-2."
        ),
    ),
    FigureSpec(
        id="cai2021/figure9",
        function="dimension_per_layer",
        tables=["cai2021/layers"],
        section="Figure 9",
        caption=(
            "Local intrinsic dimension, layer by layer. The paper finds that it rises with depth."
        ),
    ),
)

RUNS = {
    "cai2021/directions": "seeds",
    "cai2021/table3": "seeds",
    "cai2021/variant_directions": "seeds",
}

PAPER = Paper(
    key="cai2021",
    title="Isotropy in the Contextual Embedding Space: Clusters and Manifolds",
    reference="Cai, Huang, Bian & Church (2021), ICLR, and its slides",
    says=(
        "Contextual embeddings look anisotropic because they lie in a few isolated clusters: "
        "within clusters they are nearly isotropic, on manifolds of low dimension."
    ),
    lead="cai2021/cosines",
    study=Cai2021,
    plan=plan,
    compare=compare,
    tables=TABLES,
    figures=FIGURES,
    runs=RUNS,
    model_column="embedding",
)
