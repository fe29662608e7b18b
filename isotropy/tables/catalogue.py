"""The list of tables on the results page, and the published numbers that they are compared with."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

from isotropy.figures.catalogue import StudyPart
from isotropy.spec import Spec, Strict

TrajectoryGroup = Literal["section3", "glue", "sensitivity"]
RunGroup = (
    TrajectoryGroup
    | Literal["finetune", "shown", "stability"]
    | Literal["similarity", "pictured", "tuning", "classification", "clustered"]
    | Literal["layers", "vectors"]
)


class PublishedNumber(Strict):
    """A number that a paper prints, and how far to trust it. The rows of
    `published/<paper>.csv`.
    """

    locator: str
    """Table, figure or section."""
    dataset: str
    model: str
    quantity: str
    value: float
    trust: str


class TableSpec(Spec):
    """What defines a table; also its entry on the results page."""

    id: str
    """Paper and name: `results/tables/<id>.parquet`, `.csv`, `.md`."""
    function: str
    """Function in `isotropy.tables.<paper>`. Its arguments: runs, tables, published numbers, as far
    as named."""
    runs: RunGroup | None = None
    """Runs that it is made from: trajectories of mickus2024; of rudman2024 fine-tuned models, those
    of them whose points are shown, or sampled clouds; of rajaee2021 measurements, those that are
    pictured, choices of numbers, classifications, or fine-tuned models; of cai2021 layers or static
    vectors."""
    part: Literal["steps", "layers", "points", "silhouettes"] | None = None
    """Which of the tables of a run, where it has several."""
    tables: list[str] = []
    """Tables that it is made from."""
    published: list[PublishedNumber] | None = None
    """What the paper prints, for the tables that set it beside our numbers."""
    needs: StudyPart | None = None
    """Part of the study without which there is no such table."""
    section: str
    """Section of the paper."""
    caption: str


def read_published(path: Path) -> list[PublishedNumber]:
    """The numbers that a paper prints."""
    with path.open(encoding="utf8", newline="") as stream:
        return [
            PublishedNumber.model_validate({**row, "value": float(row["value"])})
            for row in csv.DictReader(stream)
        ]


VERDICTS = TableSpec(
    id="claims/verdicts",
    function="evaluate",
    section="all",
    caption="Every claim of the papers against our number. Reproduced, deviates, contradicted: on "
    "the paper's own "
    "data and model; consistent, inconsistent: on a stand-in, which never counts as a "
    "reproduction; undecided: the "
    "interval over seeds does not tell.",
)
"""The table that the stage `claims` makes: `results/claims.parquet`."""

TABLES = {
    entry.id: entry
    for entry in (
        TableSpec(
            id="mickus2024/table1",
            function="table1",
            runs="section3",
            published=[],
            section="3.1",
            caption="Number of items and of trainable parameters per setup, computed from what "
            "was optimized, beside the "
            "published numbers.",
        ),
        TableSpec(
            id="mickus2024/correlations",
            function="correlations",
            tables=["mickus2024/trajectories"],
            published=[],
            section="3.2",
            caption="Correlation of IsoScore with silhouette over all updates of each trajectory, "
            "per seed, with mean and "
            "standard deviation over seeds, beside the published value and how far to trust it.",
        ),
        TableSpec(
            id="mickus2024/seeds",
            function="seeds",
            tables=["mickus2024/trajectories"],
            section="3.2",
            caption="Standard deviation of both scores over the initializations: the largest at "
            "any step, and the mean over "
            "steps. The paper calls it negligible.",
        ),
        TableSpec(
            id="mickus2024/table2",
            function="table2",
            runs="glue",
            published=[],
            needs="glue",
            section="A",
            caption="Number of items and of trainable parameters of the GLUE tasks, computed from "
            "what was optimized, beside "
            "the published numbers.",
        ),
        TableSpec(
            id="mickus2024/table3",
            function="table3",
            tables=["mickus2024/correlations-glue"],
            published=[],
            needs="glue",
            section="A",
            caption="Correlation of IsoScore with silhouette over the updates, per GLUE task and "
            "encoder, mean over seeds. "
            "The numbers of the paper's Table 3 did not survive in the source that we have.",
        ),
        TableSpec(
            id="mickus2024/sensitivity",
            function="sensitivity",
            tables=["mickus2024/trajectories", "mickus2024/trajectories-sensitivity"],
            published=[],
            needs="sensitivity",
            section="3",
            caption="What changes the result: the correlation and the direction of both scores "
            "with one thing changed at a "
            "time, and whether the verdict changes with it.",
        ),
        TableSpec(
            id="mickus2024/appendix_b",
            function="appendix_b",
            runs="section3",
            section="B",
            caption="The objective of equation 5 against the two that it is said to bound from "
            "above: the silhouette "
            "objective (equation 1), over all items, and the triplet objective (margin 0), on 200 "
            "items; before and after "
            "training.",
        ),
        TableSpec(
            id="mickus2024/trajectories",
            function="trajectories",
            runs="section3",
            section="3.2",
            caption="Loss, accuracy, IsoScore and silhouette of every setup and seed after each "
            "update: the numbers behind "
            "Figures 2 and 3.",
        ),
        TableSpec(
            id="mickus2024/trajectories-glue",
            function="trajectories",
            runs="glue",
            needs="glue",
            section="A",
            caption="The same for each GLUE task and encoder: the numbers behind Figure 4.",
        ),
        TableSpec(
            id="mickus2024/correlations-glue",
            function="correlations",
            tables=["mickus2024/trajectories-glue"],
            published=[],
            needs="glue",
            section="A",
            caption="Correlation of IsoScore with silhouette per GLUE task, encoder and seed: the "
            "numbers behind Table 3.",
        ),
        TableSpec(
            id="mickus2024/trajectories-sensitivity",
            function="trajectories",
            runs="sensitivity",
            needs="sensitivity",
            section="3",
            caption="The same for the setups with one thing changed at a time.",
        ),
        TableSpec(
            id="rudman2024/table1",
            function="table1",
            tables=["rudman2024/runs"],
            needs="rudman2024",
            section="Table 1",
            caption="Performance per model, task and method on the whole validation set, mean and "
            "sd over seeds, times 100. "
            "I-STAR with the best negative lambda and zeta per task, chosen on the same set, as "
            "the paper seems to. Of the "
            "paper's table only fragments survived, quoted by others.",
        ),
        TableSpec(
            id="rudman2024/averages",
            function="averages",
            tables=["rudman2024/runs"],
            needs="rudman2024",
            section="poster, Figure 6",
            caption="Performance averaged over tasks, per model and seed: I-STAR (mean over "
            "negative lambdas, and the best of "
            "them per task), no penalty, CosReg.",
        ),
        TableSpec(
            id="rudman2024/directions",
            function="directions",
            tables=["rudman2024/runs"],
            needs="rudman2024",
            section="4, 5",
            caption="What the claims are about, per task, model and seed: how IsoScore*, "
            "performance, intrinsic dimension and "
            "silhouette go with lambda (no penalty is lambda = 0) and with each other.",
        ),
        TableSpec(
            id="rudman2024/post_processing",
            function="post_processing",
            runs="finetune",
            part="layers",
            needs="rudman2024",
            section="2",
            caption="All-But-The-Top as post-processing of models without penalty: performance of "
            "the model itself (head), of "
            "a linear model on frozen sentence embeddings before and after.",
        ),
        TableSpec(
            id="rudman2024/stability_of_batches",
            function="stability_of_batches",
            tables=["rudman2024/stability"],
            needs="rudman2024",
            section="poster, Figure 4",
            caption="Relative error of IsoScore* in samples of about 700 points, the published "
            "number, and how far it is from "
            "IsoScore in the smallest and in the largest samples, per cloud, zeta and repeat (the "
            "seed).",
        ),
        TableSpec(
            id="rudman2024/runs",
            function="runs",
            runs="finetune",
            part="layers",
            needs="rudman2024",
            section="4",
            caption="Every fine-tuned model: performance, IsoScore and IsoScore* of all token "
            "vectors of all layers, "
            "intrinsic dimension and silhouette of sentence embeddings.",
        ),
        TableSpec(
            id="rudman2024/layers",
            function="layers",
            runs="finetune",
            part="layers",
            needs="rudman2024",
            section="5",
            caption="The geometry of every fine-tuned model layer by layer: the numbers behind "
            "Figure 7.",
        ),
        TableSpec(
            id="rudman2024/activations",
            function="activations",
            runs="shown",
            part="layers",
            needs="rudman2024",
            section="poster, Figure 1",
            caption="Mean of each dimension of the sentence embeddings, last layer, first seed: "
            "the numbers behind Figure 1.",
        ),
        TableSpec(
            id="rudman2024/points",
            function="points",
            runs="shown",
            part="points",
            needs="rudman2024",
            section="poster, Figures 2 and 3",
            caption="Sentence embeddings of the last layer in the plane of their mean and their "
            "first component, first seed.",
        ),
        TableSpec(
            id="rudman2024/stability",
            function="stability",
            runs="stability",
            needs="rudman2024",
            section="poster, Figure 4",
            caption="IsoScore* of samples of a cloud by size and zeta, beside the score of the "
            "whole.",
        ),
        TableSpec(
            id="rajaee2021/slides",
            function="slides",
            tables=["rajaee2021/measurements"],
            published=[],
            needs="rajaee2021",
            section="slides",
            caption="The six methods of the 2020 slides: Pearson and Spearman correlation (times "
            "100) of people's scores with "
            "cosines of sentences, Spearman's also of what a method removes from them (about its "
            "mean), and log10 of the "
            "isotropy I(W) of all token vectors; mean and sd over clusterings. The slides state "
            "no split, layer or numbers.",
        ),
        TableSpec(
            id="rajaee2021/table2",
            function="table2",
            tables=["rajaee2021/measurements"],
            published=[],
            needs="rajaee2021",
            section="Tables 2 and 6",
            caption="No, global and cluster-based post-processing: Spearman correlation (times "
            "100) and log10 of I(W), mean "
            "and sd over clusterings, with the number of pairs beside that of Dzubur (2022), "
            "after contact with the authors, "
            "and of the official release. The paper's baselines of I(W) are most probably those "
            "of sentences, its others of "
            "tokens.",
        ),
        TableSpec(
            id="rajaee2021/table1",
            function="table1",
            tables=["rajaee2021/measurements"],
            published=[],
            needs="rajaee2021-more-clusters",
            section="Table 1",
            caption="The effect of the number of clusters: log10 of I(W) after k-means and "
            "subtracting each cluster's mean.",
        ),
        TableSpec(
            id="rajaee2021/table5",
            function="table5",
            tables=["rajaee2021/measurements"],
            published=[],
            needs="rajaee2021-profile",
            section="Table 5",
            caption="Isotropy of every layer without post-processing: log10 of I(W) of all token "
            "vectors.",
        ),
        TableSpec(
            id="rajaee2021/table3",
            function="table3",
            tables=["rajaee2021/convergence"],
            published=[],
            needs="rajaee2021-classification",
            section="Table 3",
            caption="Classification on frozen features: score on the validation set at the best "
            "epoch, as the authors take "
            "it, and at the last; the paper's numbers are of test servers. Transductive: clusters "
            "of training and validation "
            "items together, as the authors; inductive: of training items alone.",
        ),
        TableSpec(
            id="rajaee2021/finetuning",
            function="finetuning",
            tables=["rajaee2021/cls_layers"],
            published=[],
            needs="rajaee2021-finetuning",
            section="slides, fine-tuning",
            caption="Fine-tuning without and with the method inside, on the first tokens of each "
            "batch: performance, and "
            "log10 of I(W) of first tokens of the last layer. Clusters, components, rate and "
            "batch are not stated on the "
            "slides.",
        ),
        TableSpec(
            id="rajaee2021/directions",
            function="directions",
            tables=["rajaee2021/measurements"],
            needs="rajaee2021",
            section="4",
            caption="What the claims on isotropy are about, per setup and clustering: orders of "
            "magnitude that it rises by.",
        ),
        TableSpec(
            id="rajaee2021/directions_similarity",
            function="directions_similarity",
            tables=["rajaee2021/measurements"],
            needs="rajaee2021",
            section="4.1",
            caption="What the claims on similarity are about, per setup and clustering: Spearman "
            "correlations, times 100, and "
            "their differences.",
        ),
        TableSpec(
            id="rajaee2021/classification_directions",
            function="classification_directions",
            tables=["rajaee2021/convergence"],
            needs="rajaee2021-classification",
            section="4.2",
            caption="What the claims on classification are about, per task and seed: best score "
            "of the cluster-based method "
            "minus that without post-processing.",
        ),
        TableSpec(
            id="rajaee2021/tuning",
            function="tuning",
            runs="tuning",
            needs="rajaee2021-tuning",
            section="B.2",
            caption="All numbers of clusters and components that were tried on the development "
            "set, and which were chosen.",
        ),
        TableSpec(
            id="rajaee2021/measurements",
            function="measurements",
            runs="similarity",
            needs="rajaee2021",
            section="4",
            caption="Every measurement: data set, model, layer, method and clustering.",
        ),
        TableSpec(
            id="rajaee2021/words",
            function="words",
            runs="pictured",
            part="points",
            needs="rajaee2021-pictured",
            section="slides; Figures 1 and 2",
            caption="Tokens in the plane of their first two principal components, before and "
            "after the method.",
        ),
        TableSpec(
            id="rajaee2021/convergence",
            function="convergence",
            runs="classification",
            needs="rajaee2021-classification",
            section="Figure 4",
            caption="Scores of classifiers on frozen features after each epoch; epoch 0 is the "
            "linear control.",
        ),
        TableSpec(
            id="rajaee2021/cls_layers",
            function="cls_layers",
            runs="clustered",
            part="layers",
            needs="rajaee2021-finetuning",
            section="slides, fine-tuning analysis",
            caption="First tokens of fine-tuned models layer by layer: log10 of I(W), and the "
            "norm of their mean over the "
            "mean of their norms.",
        ),
        TableSpec(
            id="cai2021/table3",
            function="table3",
            tables=["cai2021/layers", "cai2021/vectors"],
            published=[],
            needs="cai2021",
            section="Table 3",
            caption="Local intrinsic dimension of contextual and static vectors, by cosines as "
            "published (squares of "
            "distances, which halve it) and conventional, and by Euclidean distances; mean over "
            "layers, mean and sd over "
            "seeds. The slides do not name the corpus, which follows from n.",
        ),
        TableSpec(
            id="cai2021/reference",
            function="reference",
            tables=["cai2021/layers"],
            published=[],
            needs="cai2021",
            section="3",
            caption="IsoScore and mean cosine of all tokens per layer, beside those of Rudman et "
            "al. (2022) for the same "
            "models, corpus and stream: an independent check.",
        ),
        TableSpec(
            id="cai2021/directions",
            function="directions",
            tables=["cai2021/layers"],
            needs="cai2021",
            section="3 to 5",
            caption="What the claims are about, per corpus, model and seed: extremes over layers, "
            "and how the local dimension "
            "goes with depth.",
        ),
        TableSpec(
            id="cai2021/against_static",
            function="against_static",
            tables=["cai2021/layers", "cai2021/vectors"],
            needs="cai2021",
            section="5",
            caption="Conventional local dimension by cosines, mean over layers, against that of "
            "static vectors.",
        ),
        TableSpec(
            id="cai2021/layers",
            function="layers",
            runs="layers",
            needs="cai2021",
            section="3 to 5",
            caption="Every score of every layer: cosines, clusters, local dimension, IsoScore.",
        ),
        TableSpec(
            id="cai2021/silhouettes",
            function="silhouettes",
            runs="layers",
            part="silhouettes",
            needs="cai2021",
            section="4",
            caption="Silhouette for each number of clusters that was tried.",
        ),
        TableSpec(
            id="cai2021/points",
            function="points",
            runs="layers",
            part="points",
            needs="cai2021",
            section="4, 5",
            caption="A part of the tokens of each layer on principal components of the whole and "
            "of the largest cluster.",
        ),
        TableSpec(
            id="cai2021/vectors",
            function="vectors",
            runs="vectors",
            needs="cai2021",
            section="Table 3",
            caption="Local intrinsic dimension of static vectors.",
        ),
    )
}
