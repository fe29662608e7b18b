"""Its tables and figures: an entry for each function of `tables.py` and `figures.py`."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.papers.ethayarajh2019.comparison import compare
from isotropy.papers.ethayarajh2019.plan import plan
from isotropy.papers.ethayarajh2019.study import Ethayarajh2019
from isotropy.papers.registry import Paper
from isotropy.tables.spec import TableSpec

TABLES = (
    TableSpec(
        id="ethayarajh2019/statements",
        function="statements",
        tables=["ethayarajh2019/measures"],
        section="4",
        caption=(
            "In how many layers each statement holds (its whole 95 % interval lies on the "
            "statement's side), by estimator, unit and variant."
        ),
    ),
    TableSpec(
        id="ethayarajh2019/table1",
        function="table1",
        runs="static",
        kind="static_words",
        published=[],
        needs="benchmarks",
        section="Table 1",
        caption=(
            "Spearman's rho of static vectors on word similarity, by layer and kind: all pairs, a "
            "word without vector having the mean of all, as the authors; and the pairs whose words "
            "all vectors have."
        ),
    ),
    TableSpec(
        id="ethayarajh2019/static_differences",
        function="static_differences",
        runs="static",
        kind="static_words",
        needs="benchmarks",
        section="Table 1",
        caption=(
            "First components of the first hidden layer against those of the last and against "
            "other static vectors: differences of Spearman's rho, paired bootstrap over pairs."
        ),
    ),
    TableSpec(
        id="ethayarajh2019/stop_words",
        function="stop_words",
        runs="layers",
        kind="contexts",
        part="words",
        section="4.2",
        caption=(
            "Share of all words with a lower self-similarity: of the words that the paper names, "
            "and the mean over function words, with its 95 % interval over these."
        ),
    ),
    TableSpec(
        id="ethayarajh2019/measures",
        function="measures",
        tables=["ethayarajh2019/layers"],
        published=[],
        section="4",
        caption=(
            "Every quantity of every layer with its 95 % interval, as published and over its null, "
            "beside the paper's number."
        ),
    ),
    TableSpec(
        id="ethayarajh2019/layers",
        function="layers",
        runs="layers",
        kind="contexts",
        section="3, 4",
        caption="Every score of every layer, with standard errors, by unit and variant.",
    ),
    TableSpec(
        id="ethayarajh2019/dimensions",
        function="dimensions",
        runs="layers",
        kind="contexts",
        part="dimensions",
        section="Timkey & van Schijndel (2021)",
        caption="Dimensions that contribute most to the mean cosine, per layer and variant.",
    ),
    TableSpec(
        id="ethayarajh2019/published_layers",
        function="published_layers",
        tables=[],
        published=[],
        section="Figures 1 to 4",
        caption="The numbers of the authors' result files, layer by layer.",
    ),
)

FIGURES = (
    FigureSpec(
        id="ethayarajh2019/figure1",
        function="anisotropy",
        tables=["ethayarajh2019/measures", "ethayarajh2019/published_layers"],
        section="Figure 1",
        caption=(
            "Mean cosine of words of different sentences, layer by layer: published, and here. "
            "The paper finds that all layers but the input's are anisotropic."
        ),
    ),
    FigureSpec(
        id="ethayarajh2019/figure2",
        function="self_similarity",
        tables=["ethayarajh2019/measures", "ethayarajh2019/published_layers"],
        section="Figure 2",
        caption=(
            "Self-similarity of words, less the mean cosine of the layer. The paper finds that it "
            "falls with depth."
        ),
    ),
    FigureSpec(
        id="ethayarajh2019/figure3",
        function="intra_sentence",
        tables=["ethayarajh2019/measures", "ethayarajh2019/published_layers"],
        section="Figure 3",
        caption=(
            "Intra-sentence similarity, less the mean cosine of the layer as published, and over "
            "shuffled sentences."
        ),
    ),
    FigureSpec(
        id="ethayarajh2019/figure4",
        function="explainable_variance",
        tables=["ethayarajh2019/measures", "ethayarajh2019/published_layers"],
        section="Figure 4",
        caption=(
            "Maximum explainable variance of words by three estimates, each with its baselines. "
            "The paper finds less than 5 % everywhere, which one of the estimates gives."
        ),
    ),
    FigureSpec(
        id="ethayarajh2019/dimensions",
        function="dimensions",
        tables=["ethayarajh2019/measures", "ethayarajh2019/dimensions"],
        section="Timkey & van Schijndel (2021)",
        caption=(
            "Mean cosine with and without the dimensions that contribute most, and the shares of "
            "the three largest."
        ),
    ),
    FigureSpec(
        id="ethayarajh2019/table1",
        function="static_vectors",
        tables=["ethayarajh2019/table1"],
        needs="benchmarks",
        section="Table 1",
        caption=(
            "Static vectors made from each layer on word similarity, beside other static vectors."
        ),
    ),
)

PAPER = Paper(
    key="ethayarajh2019",
    title="How Contextual are Contextualized Word Representations?",
    reference="Ethayarajh (2019), EMNLP",
    says=(
        "Upper layers give a word more context-specific vectors, which lie in a narrow cone; a "
        "static embedding explains less than 5 % of their variance."
    ),
    lead="ethayarajh2019/figure1",
    study=Ethayarajh2019,
    plan=plan,
    compare=compare,
    tables=TABLES,
    figures=FIGURES,
    runs={},
    model_column="embedding",
)
