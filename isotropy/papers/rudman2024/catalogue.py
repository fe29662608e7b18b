"""Its tables and figures: an entry for each function of `tables.py` and `figures.py`."""

from __future__ import annotations

from isotropy.figures.spec import FigureSpec
from isotropy.papers.registry import Paper
from isotropy.papers.rudman2024.comparison import compare
from isotropy.papers.rudman2024.plan import plan
from isotropy.papers.rudman2024.study import Rudman2024
from isotropy.tables.spec import TableSpec

TABLES = (
    TableSpec(
        id="rudman2024/table1",
        function="table1",
        tables=["rudman2024/runs"],
        section="Table 1",
        caption=(
            "Performance per model, task and method on the whole validation set, mean and "
            "sd over seeds, times 100. I-STAR with the best negative lambda and zeta per "
            "task, chosen on the same set, as the paper seems to. Of the paper's table we have "
            "only what secondary sources quote."
        ),
    ),
    TableSpec(
        id="rudman2024/averages",
        function="averages",
        runs="finetune",
        kind="finetuned",
        part="points",
        tables=["rudman2024/runs"],
        section="poster, Figure 6",
        caption=(
            "Performance averaged over tasks, per model and seed: I-STAR (per task the negative "
            "lambda and zeta that are best on the other seeds; the mean over all; the best on "
            "the same seeds), no penalty, CosReg."
        ),
    ),
    TableSpec(
        id="rudman2024/directions",
        function="directions",
        tables=["rudman2024/runs"],
        section="4, 5",
        caption=(
            "What the claims are about, per task, model and seed: how IsoScore*, "
            "performance, intrinsic dimension and silhouette go with lambda (no penalty is "
            "lambda = 0) and with each other."
        ),
    ),
    TableSpec(
        id="rudman2024/steps",
        function="steps",
        tables=["rudman2024/runs"],
        section="3",
        caption="By how much IsoScore* changes from each lambda to the next, per seed.",
    ),
    TableSpec(
        id="rudman2024/cosreg",
        function="cosreg",
        tables=["rudman2024/runs"],
        section="5",
        caption="What CosReg changes against no penalty, per seed: mean cosine, and IsoScore*.",
    ),
    TableSpec(
        id="rudman2024/shrinkage",
        function="shrinkage",
        tables=["rudman2024/runs"],
        section="appendix",
        caption=(
            "Performance of I-STAR with shrinkage minus that without (zeta = 0), per seed; empty "
            "where the study has no zeta = 0."
        ),
    ),
    TableSpec(
        id="rudman2024/post_processing",
        function="post_processing",
        runs="finetune",
        kind="finetuned",
        part="layers",
        section="2",
        caption=(
            "All-But-The-Top as post-processing of models without penalty: performance of "
            "the model itself (head), of a linear model on frozen sentence embeddings "
            "before and after."
        ),
    ),
    TableSpec(
        id="rudman2024/stability_of_batches",
        function="stability_of_batches",
        tables=["rudman2024/stability"],
        section="poster, Figure 4",
        caption=(
            "Relative error of IsoScore* in samples of about 700 points, the published "
            "number, and how far it is from IsoScore in the smallest and in the largest "
            "samples, per cloud, zeta and repeat (the seed)."
        ),
    ),
    TableSpec(
        id="rudman2024/runs",
        function="runs",
        runs="finetune",
        kind="finetuned",
        part="layers",
        section="4",
        caption=(
            "Every fine-tuned model: performance, IsoScore and IsoScore* of all token "
            "vectors of all layers, intrinsic dimension and silhouette of sentence "
            "embeddings."
        ),
    ),
    TableSpec(
        id="rudman2024/layers",
        function="layers",
        runs="finetune",
        kind="finetuned",
        part="layers",
        section="5",
        caption=(
            "The geometry of every fine-tuned model layer by layer: the numbers behind Figure 7."
        ),
    ),
    TableSpec(
        id="rudman2024/activations",
        function="activations",
        runs="shown",
        kind="finetuned",
        part="layers",
        section="poster, Figure 1",
        caption=(
            "Mean of each dimension of the sentence embeddings, last layer, first seed: the "
            "numbers behind Figure 1."
        ),
    ),
    TableSpec(
        id="rudman2024/points",
        function="points",
        runs="shown",
        kind="finetuned",
        part="points",
        section="poster, Figures 2 and 3",
        caption=(
            "Sentence embeddings of the last layer in the plane of their mean and their "
            "first component, first seed."
        ),
    ),
    TableSpec(
        id="rudman2024/stability",
        function="stability",
        runs="stability",
        kind="stability",
        section="poster, Figure 4",
        caption=(
            "IsoScore* of samples of a cloud by size and zeta, beside the score of the whole."
        ),
    ),
)

FIGURES = (
    FigureSpec(
        id="rudman2024/figure1",
        function="activation_diagrams",
        tables=["rudman2024/activations"],
        section="poster, Figure 1",
        caption=(
            "Mean activation of each dimension of sentence embeddings of the validation "
            "set, by method."
        ),
    ),
    FigureSpec(
        id="rudman2024/figure2",
        function="point_clouds",
        tables=["rudman2024/points", "rudman2024/runs"],
        section="poster, Figures 2 and 3",
        caption=(
            "Clouds of sentence embeddings with their average cosine. CosReg can lower the "
            "average cosine by moving the mean alone. The poster's clouds have 0.978 and "
            "0.005; what they show is not stated."
        ),
    ),
    FigureSpec(
        id="rudman2024/figure4",
        function="stability_of_isoscore",
        tables=["rudman2024/stability"],
        section="poster, Figure 4",
        caption=(
            "IsoScore* against shrinkage and sample size; dashed, the score of the whole "
            "cloud. At zeta = 0 it is IsoScore."
        ),
    ),
    FigureSpec(
        id="rudman2024/figure5",
        function="performance_against_isoscore",
        tables=["rudman2024/runs"],
        section="poster, Figure 5",
        caption=(
            "Performance against IsoScore* for models fine-tuned with different lambda. The "
            "paper finds that they are negatively correlated."
        ),
    ),
    FigureSpec(
        id="rudman2024/figure6",
        function="average_performance",
        tables=["rudman2024/averages"],
        section="poster, Figure 6",
        caption=(
            "Performance averaged over tasks. The paper finds that I-STAR with negative "
            "lambda is above no penalty, and that above CosReg."
        ),
    ),
    FigureSpec(
        id="rudman2024/figure7",
        function="dimension_per_layer",
        tables=["rudman2024/layers"],
        section="poster, Figure 7",
        caption=(
            "TwoNN intrinsic dimension of sentence embeddings of the validation set, layer "
            "by layer. The paper finds that it falls with lambda."
        ),
    ),
)

RUNS = {
    "rudman2024/averages": "seeds",
    "rudman2024/cosreg": "seeds",
    "rudman2024/directions": "seeds",
    "rudman2024/post_processing": "seeds",
    "rudman2024/runs": "seeds",
    "rudman2024/shrinkage": "seeds",
    "rudman2024/steps": "seeds",
    "rudman2024/stability_of_batches": "stability.repeats",
}

PAPER = Paper(
    key="rudman2024",
    title="Stable Anisotropic Regularization",
    reference="Rudman & Eickhoff (2024), ICLR, and its poster",
    says=(
        "I-STAR, a penalty on IsoScore* that is stable on mini-batches, steers the isotropy "
        "of a model while it is fine-tuned, and models become better when they are made less "
        "isotropic."
    ),
    lead="rudman2024/figure5",
    study=Rudman2024,
    plan=plan,
    compare=compare,
    tables=TABLES,
    figures=FIGURES,
    runs=RUNS,
    model_column="model",
)
