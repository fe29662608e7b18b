"""The list of figures: a new figure is one function and one entry here."""

from __future__ import annotations

from typing import Literal

from isotropy.spec import Spec

StudyPart = (
    Literal["glue", "sensitivity", "rudman2024", "rajaee2021"]
    | Literal[
        "rajaee2021-pictured", "rajaee2021-profile", "rajaee2021-more-clusters", "rajaee2021-tuning"
    ]
    | Literal["rajaee2021-classification", "rajaee2021-finetuning"]
    | Literal["cai2021"]
)
"""Parts of papers that a study may leave out."""


class FigureSpec(Spec):
    """What defines a figure; also its entry on the results page."""

    id: str
    """Paper and number: `results/figures/<id>.pdf`."""
    function: str
    """Function in `isotropy.figures.<paper>`."""
    tables: list[str]
    """Tables it reads, in the order of the function's arguments:
    `results/tables/<table>.parquet`."""
    needs: StudyPart | None = None
    """Part of the study without which there is no such figure."""
    section: str
    """Section of the paper."""
    caption: str


FIGURES = {
    entry.id: entry
    for entry in (
        FigureSpec(
            id="claims/published",
            function="published_against_obtained",
            tables=["claims"],
            section="all",
            caption="Published numbers beside ours, each with its 95 % interval over seeds.",
        ),
        FigureSpec(
            id="mickus2024/figure1",
            function="chord_and_angle",
            tables=[],
            section="2.2",
            caption="The isotropy defect as a chord between the observed and the ideal variance "
            "vector: the shorter the "
            "chord, the smaller the angle, the higher IsoScore.",
        ),
        FigureSpec(
            id="mickus2024/figure2",
            function="scores_over_updates",
            tables=["mickus2024/trajectories"],
            section="3.2",
            caption="IsoScore, silhouette and loss while embeddings are optimized for a linear "
            "classifier. The paper finds "
            "that IsoScore falls and silhouette rises.",
        ),
        FigureSpec(
            id="mickus2024/figure3",
            function="isoscore_against_silhouette",
            tables=["mickus2024/trajectories", "mickus2024/correlations"],
            section="3.2",
            caption="Silhouette against IsoScore along the same trajectories. The paper finds a "
            "monotonically decreasing "
            "relationship in every setup.",
        ),
        FigureSpec(
            id="mickus2024/figure4",
            function="glue_over_updates",
            tables=["mickus2024/trajectories-glue"],
            needs="glue",
            section="A",
            caption="IsoScore and silhouette on GLUE tasks. The paper finds the same trend in "
            "every task and encoder: "
            "silhouette increases, IsoScore decreases.",
        ),
        FigureSpec(
            id="mickus2024/sensitivity",
            function="what_changes_the_result",
            tables=["mickus2024/sensitivity"],
            needs="sensitivity",
            section="3",
            caption="What changes the result: Pearson's r with one thing changed at a time.",
        ),
        FigureSpec(
            id="rudman2024/figure1",
            function="activation_diagrams",
            tables=["rudman2024/activations"],
            needs="rudman2024",
            section="poster, Figure 1",
            caption="Mean activation of each dimension of sentence embeddings of the validation "
            "set, by method.",
        ),
        FigureSpec(
            id="rudman2024/figure2",
            function="point_clouds",
            tables=["rudman2024/points", "rudman2024/runs"],
            needs="rudman2024",
            section="poster, Figures 2 and 3",
            caption="Clouds of sentence embeddings with their average cosine. CosReg can lower "
            "the average cosine by moving "
            "the mean alone. The poster's clouds have 0.978 and 0.005; what they show is not "
            "stated.",
        ),
        FigureSpec(
            id="rudman2024/figure4",
            function="stability_of_isoscore",
            tables=["rudman2024/stability"],
            needs="rudman2024",
            section="poster, Figure 4",
            caption="IsoScore* against shrinkage and sample size; dashed, the score of the whole "
            "cloud. At zeta = 0 it is "
            "IsoScore.",
        ),
        FigureSpec(
            id="rudman2024/figure5",
            function="performance_against_isoscore",
            tables=["rudman2024/runs"],
            needs="rudman2024",
            section="poster, Figure 5",
            caption="Performance against IsoScore* for models fine-tuned with different lambda. "
            "The paper finds that they are "
            "negatively correlated.",
        ),
        FigureSpec(
            id="rudman2024/figure6",
            function="average_performance",
            tables=["rudman2024/averages"],
            needs="rudman2024",
            section="poster, Figure 6",
            caption="Performance averaged over tasks. The paper finds that I-STAR with negative "
            "lambda is above no penalty, "
            "and that above CosReg.",
        ),
        FigureSpec(
            id="rudman2024/figure7",
            function="dimension_per_layer",
            tables=["rudman2024/layers"],
            needs="rudman2024",
            section="poster, Figure 7",
            caption="TwoNN intrinsic dimension of sentence embeddings of the validation set, "
            "layer by layer. The paper finds "
            "that it falls with lambda.",
        ),
        FigureSpec(
            id="rajaee2021/similarity",
            function="similarity_by_method",
            tables=["rajaee2021/slides"],
            needs="rajaee2021",
            section="slides; Table 2",
            caption="Correlation of cosines with people's scores, before and after each method. "
            "The paper finds that it rises "
            "on every set, and most with the cluster-based method.",
        ),
        FigureSpec(
            id="rajaee2021/isotropy",
            function="isotropy_by_method",
            tables=["rajaee2021/slides"],
            needs="rajaee2021",
            section="slides; Table 6",
            caption="Isotropy of all token vectors before and after each method. The paper finds "
            "that it rises by orders of "
            "magnitude.",
        ),
        FigureSpec(
            id="rajaee2021/layers",
            function="isotropy_per_layer",
            tables=["rajaee2021/table5"],
            needs="rajaee2021-profile",
            section="Table 5",
            caption="Isotropy of every layer without post-processing.",
        ),
        FigureSpec(
            id="rajaee2021/clusters",
            function="effect_of_clusters",
            tables=["rajaee2021/table1"],
            needs="rajaee2021-more-clusters",
            section="Table 1",
            caption="Isotropy against the number of clusters whose means are subtracted. The "
            "paper finds that it rises.",
        ),
        FigureSpec(
            id="rajaee2021/words",
            function="words_before_and_after",
            tables=["rajaee2021/words"],
            needs="rajaee2021-pictured",
            section="slides; Figures 1 and 2",
            caption="Tokens in the plane of their first two principal components, before and "
            "after the cluster-based method, "
            "by frequency and by cluster.",
        ),
        FigureSpec(
            id="rajaee2021/convergence",
            function="convergence",
            tables=["rajaee2021/convergence"],
            needs="rajaee2021-classification",
            section="Figure 4",
            caption="Score of the authors' classifier on frozen features after each epoch. The "
            "paper finds that it rises "
            "faster and a little higher with the cluster-based method.",
        ),
        FigureSpec(
            id="rajaee2021/cls",
            function="first_tokens_per_layer",
            tables=["rajaee2021/cls_layers"],
            needs="rajaee2021-finetuning",
            section="slides, fine-tuning analysis",
            caption="Isotropy of first tokens in each layer after fine-tuning, without and with "
            "the method inside.",
        ),
        FigureSpec(
            id="cai2021/cosines",
            function="cosines_per_layer",
            tables=["cai2021/layers"],
            needs="cai2021",
            section="3, 4",
            caption="Cosines between and within types, layer by layer, before and after "
            "clustering and centring. The paper "
            "finds that both are high everywhere, and that S_inter is near zero within clusters.",
        ),
        FigureSpec(
            id="cai2021/silhouettes",
            function="clusters_per_layer",
            tables=["cai2021/layers", "cai2021/silhouettes"],
            needs="cai2021",
            section="4",
            caption="How many clusters a layer has: the silhouette for each number of clusters.",
        ),
        FigureSpec(
            id="cai2021/clusters",
            function="isolated_clusters",
            tables=["cai2021/points", "cai2021/layers"],
            needs="cai2021",
            section="4",
            caption="Tokens of a layer on its first two principal components. The paper finds "
            "that isolated clusters dominate.",
        ),
        FigureSpec(
            id="cai2021/manifolds",
            function="manifolds",
            tables=["cai2021/points"],
            needs="cai2021",
            section="5",
            caption="The largest cluster of a low layer, by position, frequency and kind of "
            "token. The paper finds a Swiss "
            "roll in GPT and GPT-2.",
        ),
        FigureSpec(
            id="cai2021/figure9",
            function="dimension_per_layer",
            tables=["cai2021/layers"],
            needs="cai2021",
            section="Figure 9",
            caption="Local intrinsic dimension, layer by layer. The paper finds that it rises "
            "with depth.",
        ),
    )
}
