"""Choices of Rajaee & Pilehvar (2021) and of the slides of Rajaee & Sheikhi (2020)."""

from __future__ import annotations

from collections.abc import Mapping

from replication.finetune.spec import SAMPLED, FinetuneSpec
from replication.papers.protocol import UNKNOWN, Choice, PublishedTraining
from replication.similarity.spec import (
    ClassifySpec,
    Clusterer,
    Parameters,
    SimilaritySpec,
    TuningSpec,
)
from replication.spec import PaperSpec

LAST = 12
"""The papers' layer: the last of BERT, GPT-2 and RoBERTa of base size."""
AUTHORS = {
    "bert-base-uncased": Parameters(n_clusters=27, n_components=12, n_components_global=15),
    "gpt2": Parameters(n_clusters=10, n_components=30, n_components_global=30),
    "roberta-base": Parameters(n_clusters=27, n_components=12, n_components_global=25),
}
"""The papers' models, with the numbers of appendix B.2."""
DROPPED = {
    "bert-base-uncased": ("special", "the authors' are special"),
    "gpt2": ("first-and-last", "the authors' are not known, Dzubur's (2022) are first-and-last"),
    "roberta-base": ("special", "the authors' are special"),
}
"""Tokens that do not count: the first and the last, which are BERT's and RoBERTa's special tokens.
GPT-2 has none."""
KMEANS = Clusterer(init="random", max_iter=9, tol=0)
"""The authors' k-means: `scipy.cluster.vq.kmeans2` with its ten iterations, in scikit-learn's
terms."""
SETS = (
    *("sts12", "sts13", "sts14", "sts15", "sts16"),
    *("sts-benchmark-dev", "sts-benchmark-test", "sick-r"),
)
TRAINING = PublishedTraining({"rte": 2_490, "wic": 5_428}, batch_size=32, epochs=2)
"""Fine-tuning of the slides, which state neither the rate nor the batch: that of the notebook's
classifier."""
NOTEBOOK, SLIDES = "notebook", "slides: not said"
PARAMETERS = "numbers of clusters and components are not the paper's"


def _is_processed(spec: SimilaritySpec) -> bool:
    """Whether something is removed from the vectors."""
    return len(spec.methods) > 1


def _is_known(spec: SimilaritySpec) -> bool:
    return spec.embedding in AUTHORS


def _kmeans(topic: str) -> Choice:
    text = "k-means is not the authors': ten iterations of SciPy's from random points"
    return Choice(topic, ("clusterer",), KMEANS, "notebook: kmeans2", text)


CHOICES: Mapping[type[PaperSpec], tuple[Choice, ...]] = {
    SimilaritySpec: (
        Choice(
            "models",
            ("embedding",),
            tuple(AUTHORS),
            "section 4",
            "{value} is not among the paper's models",
            covers=True,
        ),
        Choice(
            "data",
            ("dataset",),
            SETS,
            "tables 2 and 6, slides",
            "{value} is not among the paper's data sets",
            accepts=lambda s: s.dataset.removesuffix("-quoted") in SETS,
            covers=True,
        ),
        Choice("split", (), "test", "section 4", where=lambda s: s.dataset in SETS),
        Choice(
            "a repeated sentence counts",
            ("repeat_texts",),
            True,
            f"{NOTEBOOK}: each time",
            "a sentence counts once, the authors count it as often as it occurs",
        ),
        Choice(
            "layer",
            ("layer",),
            (LAST,),
            "section 4",
            f"layer {{value}}, the paper has the last of its models, {LAST}",
            lambda s: _is_processed(s) and s.layer is not None,  # static vectors have none
            covers=True,
        ),
        Choice("pooling", (), "mean of tokens", NOTEBOOK),
        Choice(
            "tokens left out",
            ("drop_tokens",),
            lambda s: DROPPED[s.embedding][0],
            NOTEBOOK,
            lambda s: f"tokens that do not count: {s.drop_tokens}, {DROPPED[s.embedding][1]}",
            _is_known,
        ),
        Choice(
            "clusters, components",
            ("parameters",),
            lambda s: AUTHORS[s.embedding],
            "appendix B.2",
            PARAMETERS,
            lambda s: _is_known(s) and _is_processed(s),
        ),
        _kmeans("k-means"),
        Choice("seeds", ("n_clusterings",), UNKNOWN, "not seeded"),
        Choice("metric", (), "Spearman", "section 4"),
    ),
    TuningSpec: (
        Choice("clusters tried", ("n_clusters",), UNKNOWN, "not stated"),
        Choice("components tried", ("n_components",), UNKNOWN, "not stated"),
    ),
    ClassifySpec: (
        Choice(
            "classification: model",
            ("embedding",),
            ("bert-base-uncased",),
            "table 3",
            "{value} is not among the paper's models",
            covers=True,
        ),
        Choice(
            "classification: tasks",
            ("task",),
            ("sst2", "rte", "cola", "mrpc", "wic", "boolq"),
            "table 3",
            "{value} is not among the paper's tasks",
            covers=True,
        ),
        Choice(
            "classification: layer",
            ("layer",),
            (LAST,),
            "section 4",
            "layer {value}, the paper has the last of BERT, {theirs[0]}",
            covers=True,
        ),
        Choice(
            "classification: clusters, components",
            ("parameters",),
            AUTHORS["bert-base-uncased"],
            "appendix B.2",
            PARAMETERS,
        ),
        Choice(
            "classification: length, units, epochs, batch",
            ("max_length", "mlp.hidden", "mlp.epochs", "mlp.batch_size"),
            (64, 100, 10, 32),
            NOTEBOOK,
            "length, hidden units, epochs or batch size are not the authors'",
        ),
        Choice("classification: optimizer", (), "Adam", NOTEBOOK),
        Choice(
            "classification: rate",
            ("mlp.learning_rate",),
            (3e-5, 5e-3),
            f"{NOTEBOOK}, or an e-mail to Dzubur (2022)",
            "learning rate {value:g}, the authors' are {theirs[0]:g} and {theirs[1]:g}",
        ),
        Choice("classification: precision", ("dtype",), "float32", NOTEBOOK, "computed in {value}"),
        _kmeans("classification: k-means"),
        Choice("classification: items", ("n_train",), None, "table 3", SAMPLED, absent="all"),
        Choice("classification: seeds", ("seeds",), UNKNOWN, "not seeded"),
        Choice("classification: metric", ("metric",), UNKNOWN, "table 3: not stated"),
    ),
    FinetuneSpec: (
        Choice(
            "fine-tuning: models",
            ("model",),
            ("bert-base-uncased",),
            "slides",
            "fine-tuned is {value}, which is not among the paper's encoders",
            covers=True,
        ),
        Choice(
            "fine-tuning: tasks",
            ("task",),
            ("rte", "wic"),
            "slides",
            "{value} is not among the paper's tasks",
            covers=True,
        ),
        Choice("fine-tuning: items", ("training.n_train",), None, "slides", SAMPLED, absent="all"),
        Choice(
            "fine-tuning: epochs",
            ("training.epochs",),
            2,
            "slides",
            "epochs is {value}, the authors have {theirs}",
        ),
        Choice(
            "fine-tuning: methods",
            ("method.kind",),
            ("none", "cluster"),
            "slides",
            "{value} is not among the paper's methods",
            covers=True,
        ),
        *(
            Choice(
                f"fine-tuning: {topic}",
                (field,),
                UNKNOWN,
                SLIDES,
                "unknown of the authors' fine-tuning: learning rate, batch size, clusters, "
                "components",
            )
            for topic, field in {
                "rate": "training.learning_rate",
                "batch": "training.batch_size",
                "clusters": "method.n_clusters",
                "components": "method.n_components",
                "longest input": "training.max_length",
                "token types": "training.token_types",
                "padding": "training.pad_to_max_length",
                "schedule": "training.schedule",
                "warm-up": "training.warmup",
                "weight decay": "training.weight_decay",
                "gradient clipping": "training.max_grad_norm",
                "precision": "training.precision",
            }.items()
        ),
        Choice("fine-tuning: seeds", ("seed",), UNKNOWN, SLIDES),
        Choice("fine-tuning: metric", ("metric",), "accuracy", "slides",
               "measured by {value}, the authors' by {theirs}"),
    ),
}  # fmt: skip
WITHOUT_INFLUENCE: Mapping[type[PaperSpec], Mapping[str, str]] = {
    SimilaritySpec: {
        "methods": "each is a row of its own; which there are decides what other choices bind",
        "cluster_counts": "each is a row of its own, of table 1",
        "profiled": "chooses the rows of table 5",
        "plotted": "chooses the layers that are drawn",
    },
    TuningSpec: dict.fromkeys(
        (
            *("dataset", "embedding", "layer", "drop_tokens", "repeat_texts"),
            *("n_clusterings", "clusterer"),
        ),
        "chooses numbers for models that the paper lacks; what is measured with them deviates",
    ),
    ClassifySpec: {
        "train": "its source says whether it is the paper's",
        "validation": "its source says whether it is the paper's",
        "encoder": "token vectors are read, which are neither pooled nor normalized",
        "methods": "each is a row of its own",
    },
    FinetuneSpec: {
        "run": "names the run",
        "train": "its source says whether it is the paper's",
        "validation": "its source says whether it is the paper's",
        "method.strength": "of a penalty, which the paper does not have",
        "method.zeta": "of a penalty, which the paper does not have",
        "method.layers": "of a penalty, which the paper does not have",
        "training.keep_padding": "of a penalty, which the paper does not have",
        "training.shrinkage_tokens": "of a penalty, which the paper does not have",
        "measure.zeta": "of IsoScore*, which the paper does not measure",
        "measure.tokens": "of IsoScore*, which the paper does not measure",
    },
}
"""Fields that no choice binds -> why."""
