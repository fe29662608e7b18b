"""Its tables and figures: an entry for each function of `tables.py` and `figures.py`."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.papers.rajaee2021.comparison import compare
from isotropy.papers.rajaee2021.plan import plan
from isotropy.papers.rajaee2021.study import Rajaee2021
from isotropy.papers.registry import Paper
from isotropy.tables.spec import TableSpec

TABLES = (
    TableSpec(
        id="rajaee2021/slides",
        function="slides",
        tables=["rajaee2021/measurements"],
        published=[],
        section="slides",
        caption=(
            "The six methods of the 2020 slides: Pearson and Spearman correlation (times "
            "100) of people's scores with cosines of sentences, Spearman's also of what a "
            "method removes from them (about its mean), and log10 of the isotropy I(W) of "
            "all token vectors; mean and sd over clusterings. The slides state no split, "
            "layer or numbers."
        ),
    ),
    TableSpec(
        id="rajaee2021/table2",
        function="table2",
        tables=["rajaee2021/measurements"],
        published=[],
        section="Tables 2 and 6",
        caption=(
            "No, global and cluster-based post-processing: Spearman correlation (times 100) "
            "and log10 of I(W), mean and sd over clusterings, with the number of pairs "
            "beside that of Dzubur (2022), after contact with the authors, and of the "
            "official release. The paper's baselines of I(W) are most probably those of "
            "sentences, its others of tokens."
        ),
    ),
    TableSpec(
        id="rajaee2021/table1",
        function="table1",
        tables=["rajaee2021/measurements"],
        published=[],
        needs="cluster-counts",
        section="Table 1",
        caption=(
            "The effect of the number of clusters: log10 of I(W) after k-means and "
            "subtracting each cluster's mean."
        ),
    ),
    TableSpec(
        id="rajaee2021/table5",
        function="table5",
        tables=["rajaee2021/measurements"],
        published=[],
        needs="isotropy-by-layer",
        section="Table 5",
        caption=(
            "Isotropy of every layer without post-processing: log10 of I(W) of all token vectors."
        ),
    ),
    TableSpec(
        id="rajaee2021/against_input",
        function="against_input",
        tables=["rajaee2021/table5"],
        needs="isotropy-by-layer",
        section="slides, BERT",
        caption="Isotropy of each hidden layer against that of the input, layer 0.",
    ),
    TableSpec(
        id="rajaee2021/table3",
        function="table3",
        tables=["rajaee2021/convergence"],
        published=[],
        needs="classification",
        section="Table 3",
        caption=(
            "Classification on frozen features: score on the validation set at the best "
            "epoch, as the authors take it, and at the last; the paper's numbers are of "
            "test servers. Transductive: clusters of training and validation items "
            "together, as the authors; inductive: of training items alone."
        ),
    ),
    TableSpec(
        id="rajaee2021/finetuning",
        function="finetuning",
        runs="clustered",
        kind="finetuned",
        part="points",
        tables=["rajaee2021/cls_layers"],
        published=[],
        needs="finetuning",
        section="slides, fine-tuning",
        caption=(
            "Fine-tuning without and with the method inside, on the first tokens of each "
            "batch: performance, and log10 of I(W) of first tokens of the last layer. "
            "Clusters, components, rate and batch are not stated on the slides."
        ),
    ),
    TableSpec(
        id="rajaee2021/directions",
        function="directions",
        tables=["rajaee2021/measurements"],
        section="4",
        caption=(
            "What the claims on isotropy are about, per setup and clustering: orders of "
            "magnitude that I(W) rises by, the same with all clouds at the root mean square norm "
            "that they had before (shorter vectors alone raise I(W)), and IsoScore."
        ),
    ),
    TableSpec(
        id="rajaee2021/directions_similarity",
        function="directions_similarity",
        runs="similarity",
        kind="similarity",
        part="pairs",
        section="4.1",
        caption=(
            "What the claims on similarity are about, per setup: differences of Spearman "
            "correlations, times 100, with 95 % intervals from a paired bootstrap over pairs, "
            "with clusterings drawn outside."
        ),
    ),
    TableSpec(
        id="rajaee2021/classification_directions",
        function="classification_directions",
        runs="classification",
        kind="classified",
        part="answers",
        tables=["rajaee2021/convergence"],
        needs="classification",
        section="4.2",
        caption=(
            "What the claims on classification are about, per task and seed: best score of "
            "the cluster-based method minus that without post-processing."
        ),
    ),
    TableSpec(
        id="rajaee2021/tuning",
        function="tuning",
        runs="tuning",
        kind="tuning",
        needs="tuning",
        section="B.2",
        caption=(
            "All numbers of clusters and components that were tried on the development set, "
            "and which were chosen."
        ),
    ),
    TableSpec(
        id="rajaee2021/measurements",
        function="measurements",
        runs="similarity",
        kind="similarity",
        section="4",
        caption="Every measurement: data set, model, layer, method and clustering.",
    ),
    TableSpec(
        id="rajaee2021/words",
        function="words",
        runs="plotted",
        kind="similarity",
        part="points",
        needs="plotted",
        section="slides; Figures 1 and 2",
        caption=(
            "Tokens in the plane of their first two principal components, before and after "
            "the method."
        ),
    ),
    TableSpec(
        id="rajaee2021/convergence",
        function="convergence",
        runs="classification",
        kind="classified",
        needs="classification",
        section="Figure 4",
        caption=(
            "Scores of classifiers on frozen features after each epoch; epoch 0 is the "
            "linear control."
        ),
    ),
    TableSpec(
        id="rajaee2021/cls_layers",
        function="cls_layers",
        runs="clustered",
        kind="finetuned",
        part="layers",
        needs="finetuning",
        section="slides, fine-tuning analysis",
        caption=(
            "First tokens of fine-tuned models layer by layer: log10 of I(W), and the norm "
            "of their mean over the mean of their norms."
        ),
    ),
)

FIGURES = (
    FigureSpec(
        id="rajaee2021/similarity",
        function="similarity_by_method",
        tables=["rajaee2021/slides"],
        section="slides; Table 2",
        caption=(
            "Correlation of cosines with people's scores, before and after each method. The "
            "paper finds that it rises on every set, and most with the cluster-based "
            "method."
        ),
    ),
    FigureSpec(
        id="rajaee2021/isotropy",
        function="isotropy_by_method",
        tables=["rajaee2021/slides"],
        section="slides; Table 6",
        caption=(
            "Isotropy of all token vectors before and after each method. The paper finds "
            "that it rises by orders of magnitude."
        ),
    ),
    FigureSpec(
        id="rajaee2021/scale",
        function="isotropy_and_scale",
        tables=["rajaee2021/slides"],
        section="4",
        caption=(
            "How much of the gain in isotropy is scale: log10 of I(W) as published, the same with "
            "all clouds at the norm that they had before, and IsoScore."
        ),
    ),
    FigureSpec(
        id="rajaee2021/layers",
        function="isotropy_per_layer",
        tables=["rajaee2021/table5"],
        needs="isotropy-by-layer",
        section="Table 5",
        caption="Isotropy of every layer without post-processing.",
    ),
    FigureSpec(
        id="rajaee2021/clusters",
        function="effect_of_clusters",
        tables=["rajaee2021/table1"],
        needs="cluster-counts",
        section="Table 1",
        caption=(
            "Isotropy against the number of clusters whose means are subtracted. The paper "
            "finds that it rises."
        ),
    ),
    FigureSpec(
        id="rajaee2021/words",
        function="words_before_and_after",
        tables=["rajaee2021/words"],
        needs="plotted",
        section="slides; Figures 1 and 2",
        caption=(
            "Tokens in the plane of their first two principal components, before and after "
            "the cluster-based method, by frequency and by cluster."
        ),
    ),
    FigureSpec(
        id="rajaee2021/convergence",
        function="convergence",
        tables=["rajaee2021/convergence"],
        needs="classification",
        section="Figure 4",
        caption=(
            "Score of the authors' classifier on frozen features after each epoch. The "
            "paper finds that it rises faster and a little higher with the cluster-based "
            "method."
        ),
    ),
    FigureSpec(
        id="rajaee2021/cls",
        function="first_tokens_per_layer",
        tables=["rajaee2021/cls_layers"],
        needs="finetuning",
        section="slides, fine-tuning analysis",
        caption=(
            "Isotropy of first tokens in each layer after fine-tuning, without and with the "
            "method inside."
        ),
    ),
)

RUNS = {
    "rajaee2021/directions": "n_clusterings",
    "rajaee2021/measurements": "n_clusterings",
    "rajaee2021/slides": "n_clusterings",
    "rajaee2021/classification_directions": "classification.seeds",
    "rajaee2021/finetuning": "finetuning.seeds",
}

PAPER = Paper(
    key="rajaee2021",
    title="Cluster-based Isotropy Enhancement",
    reference=(
        "Rajaee & Pilehvar (2021), ACL, short papers, and the slides of Rajaee & Sheikhi (2020)"
    ),
    says=(
        "Token vectors lie in clusters: removing each cluster's mean and dominant directions "
        "makes them isotropic and improves similarity and classification."
    ),
    lead="rajaee2021/similarity",
    study=Rajaee2021,
    plan=plan,
    compare=compare,
    tables=TABLES,
    figures=FIGURES,
    runs=RUNS,
    model_column="embedding",
)
