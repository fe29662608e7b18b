"""Its tables and figures: an entry for each function of `tables.py` and `figures.py`."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.papers.mickus2024.comparison import compare
from isotropy.papers.mickus2024.plan import plan
from isotropy.papers.mickus2024.study import Mickus2024
from isotropy.papers.registry import Paper
from isotropy.tables.spec import TableSpec

TABLES = (
    TableSpec(
        id="mickus2024/table1",
        function="table1",
        runs="section3",
        kind="trajectory",
        published=[],
        section="3.1",
        caption=(
            "Number of items and of trainable parameters per setup, computed from what was "
            "optimized, beside the published numbers."
        ),
    ),
    TableSpec(
        id="mickus2024/correlations",
        function="correlations",
        tables=["mickus2024/trajectories"],
        published=[],
        section="3.2",
        caption=(
            "Correlation of IsoScore with silhouette over all updates of each trajectory, "
            "per seed, with mean and standard deviation over seeds, beside the published "
            "value and how far to trust it."
        ),
    ),
    TableSpec(
        id="mickus2024/seeds",
        function="seeds",
        tables=["mickus2024/trajectories"],
        section="3.2",
        caption=(
            "Standard deviation of both scores over the initializations: the largest at any "
            "step, and the mean over steps. The paper calls it negligible."
        ),
    ),
    TableSpec(
        id="mickus2024/table2",
        function="table2",
        runs="glue",
        kind="trajectory",
        published=[],
        needs="glue",
        section="A",
        caption=(
            "Number of items and of trainable parameters of the GLUE tasks, computed from "
            "what was optimized, beside the published numbers."
        ),
    ),
    TableSpec(
        id="mickus2024/table3",
        function="table3",
        tables=["mickus2024/correlations-glue"],
        published=[],
        needs="glue",
        section="A",
        caption=(
            "Correlation of IsoScore with silhouette over the updates, per GLUE task and "
            "encoder, mean over seeds. The numbers of the paper's Table 3 are missing "
            "from the text that we have."
        ),
    ),
    TableSpec(
        id="mickus2024/sensitivity",
        function="sensitivity",
        tables=["mickus2024/trajectories", "mickus2024/trajectories-sensitivity"],
        published=[],
        needs="sensitivity",
        section="3",
        caption=(
            "What changes the result: the correlation and the direction of both scores with "
            "one thing changed at a time, and whether the verdict changes with it."
        ),
    ),
    TableSpec(
        id="mickus2024/appendix_b",
        function="appendix_b",
        runs="section3",
        kind="trajectory",
        section="B",
        caption=(
            "The objective of equation 5 against the two that it is said to bound from "
            "above: the silhouette objective (equation 1), over all items, and the triplet "
            "objective (margin 0), on 200 items; before and after training."
        ),
    ),
    TableSpec(
        id="mickus2024/simplices",
        function="simplices",
        section="2",
        caption=(
            "IsoScore and silhouette of K equal clusters on the vertices of a simplex in d "
            "dimensions. Tight ones have IsoScore (K - 2)/(d - 1): anisotropic where K is far "
            "below d, isotropic and clustered at K = d + 1."
        ),
    ),
    TableSpec(
        id="mickus2024/limits",
        function="limits",
        runs="section3",
        kind="trajectory",
        section="2",
        caption=(
            "The study's own classes against the IsoScore that as many tight and equally "
            "distant clusters would have, at the first and the last step."
        ),
    ),
    TableSpec(
        id="mickus2024/trajectories",
        function="trajectories",
        runs="section3",
        kind="trajectory",
        section="3.2",
        caption=(
            "Loss, accuracy, IsoScore and silhouette of every setup and seed after each "
            "update: the numbers behind Figures 2 and 3."
        ),
    ),
    TableSpec(
        id="mickus2024/trajectories-glue",
        function="trajectories",
        runs="glue",
        kind="trajectory",
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
        caption=(
            "Correlation of IsoScore with silhouette per GLUE task, encoder and seed: the "
            "numbers behind Table 3."
        ),
    ),
    TableSpec(
        id="mickus2024/trajectories-sensitivity",
        function="trajectories",
        runs="sensitivity",
        kind="trajectory",
        needs="sensitivity",
        section="3",
        caption="The same for the setups with one thing changed at a time.",
    ),
)

FIGURES = (
    FigureSpec(
        id="mickus2024/figure1",
        function="chord_and_angle",
        tables=[],
        section="2.2",
        caption=(
            "The isotropy defect as a chord between the observed and the ideal variance "
            "vector: the shorter the chord, the smaller the angle, the higher IsoScore."
        ),
    ),
    FigureSpec(
        id="mickus2024/figure2",
        function="scores_over_updates",
        tables=["mickus2024/trajectories"],
        section="3.2",
        caption=(
            "IsoScore, silhouette and loss while embeddings are optimized for a linear "
            "classifier. The paper finds that IsoScore falls and silhouette rises."
        ),
    ),
    FigureSpec(
        id="mickus2024/figure3",
        function="isoscore_against_silhouette",
        tables=["mickus2024/trajectories", "mickus2024/correlations"],
        section="3.2",
        caption=(
            "Silhouette against IsoScore along the same trajectories. The paper finds a "
            "monotonically decreasing relationship in every setup."
        ),
    ),
    FigureSpec(
        id="mickus2024/theorem",
        function="clusters_and_dimensions",
        tables=["mickus2024/simplices", "mickus2024/limits"],
        section="2",
        caption=(
            "When clusters and isotropy exclude each other: K equal clusters in d dimensions have "
            "IsoScore (K - 2)/(d - 1), which is 1 at K = d + 1. Right: the study's own classes "
            "before and after training, with the IsoScore of as many tight clusters."
        ),
    ),
    FigureSpec(
        id="mickus2024/figure4",
        function="glue_over_updates",
        tables=["mickus2024/trajectories-glue"],
        needs="glue",
        section="A",
        caption=(
            "IsoScore and silhouette on GLUE tasks. The paper finds the same trend in every "
            "task and encoder: silhouette increases, IsoScore decreases."
        ),
    ),
    FigureSpec(
        id="mickus2024/sensitivity",
        function="what_changes_the_result",
        tables=["mickus2024/sensitivity"],
        needs="sensitivity",
        section="3",
        caption="What changes the result: Pearson's r with one thing changed at a time.",
    ),
)

RUNS = {
    "mickus2024/correlations": "seeds",
    "mickus2024/seeds": "seeds",
    "mickus2024/appendix_b": "seeds",
    "mickus2024/correlations-glue": "glue.seeds",
}

PAPER = Paper(
    key="mickus2024",
    title="Isotropy, Clusters, and Classifiers",
    reference="Mickus, Grönroos & Attieh (2024), ACL, short papers",
    says=(
        "Embeddings cannot be isotropic and form clusters at once, and a linear classifier "
        "needs clusters: so training embeddings for classification lowers their isotropy."
    ),
    lead="mickus2024/figure3",
    study=Mickus2024,
    plan=plan,
    compare=compare,
    tables=TABLES,
    figures=FIGURES,
    runs=RUNS,
    model_column="model",
)
