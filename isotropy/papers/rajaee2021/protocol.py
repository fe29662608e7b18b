"""What Rajaee & Pilehvar (2021) and the slides of 2020 did, as values, and what deviates."""

from __future__ import annotations

from isotropy.embed.deviations import precision_deviations
from isotropy.finetune.spec import FinetuneSpec
from isotropy.similarity.spec import ClassifySpec, Clusterer, Parameters, SimilaritySpec

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
MLP_LEARNING_RATES = (3e-5, 5e-3)
"""Learning rates of the classifier: the notebook's, and that of the authors' e-mail to Dzubur
(2022)."""
SETS = (
    "sts12",
    "sts13",
    "sts14",
    "sts15",
    "sts16",
    "sts-benchmark-dev",
    "sts-benchmark-test",
    "sick-r",
)
"""Tables 2 and 6, and the slides."""
TASKS = ("sst2", "rte", "cola", "mrpc", "wic", "boolq")
"""Table 3."""
TUNED_MODELS, TUNED_TASKS = ("bert-base-uncased",), ("rte", "wic")
"""Models and tasks of fine-tuning (slides)."""
TRAINING: dict[str, object] = {"epochs": 2}
"""How they fine-tune, as far as the slides say."""
NOT_STATED = ("learning rate", "batch size", "clusters", "components")
"""What the slides do not say of fine-tuning."""


def similarity_deviations(spec: SimilaritySpec, parameters: Parameters | None) -> list[str]:
    """What of a measurement deviates. Layers count where something is post-processed: Table 5 has
    all of them.

    Args:
        spec: the measurement.
        parameters: clusters and components that were used, given or tuned.
    """
    found = _of_model(spec.embedding)
    if spec.dataset.removesuffix("-quoted") not in SETS:
        found.append(f"{spec.dataset} is not among the paper's data sets")
    if not spec.repeat_texts:
        found.append("a sentence counts once, the authors count it as often as it occurs")
    if len(spec.methods) > 1 and spec.layer not in (LAST, None):  # static vectors have no layers
        found.append(f"layer {spec.layer}, the paper has the last of its models, {LAST}")
    dropped, whose = DROPPED.get(spec.embedding, (spec.drop_tokens, ""))
    if spec.drop_tokens != dropped:
        found.append(f"tokens that do not count: {spec.drop_tokens}, {whose}")
    known = AUTHORS.get(spec.embedding)
    if known is not None and len(spec.methods) > 1 and parameters != known:
        found.append("numbers of clusters and components are not the paper's")
    return found + _of_clusterer(spec.clusterer)


def classification_deviations(spec: ClassifySpec) -> list[str]:
    """What of a classification deviates, which the paper has for BERT alone."""
    found = _of_model(spec.embedding, "bert-base-uncased")
    if spec.task not in TASKS:
        found.append(f"{spec.task} is not among the paper's tasks")
    if spec.layer != LAST:
        found.append(f"layer {spec.layer}, the paper has the last of BERT, {LAST}")
    if spec.parameters != AUTHORS["bert-base-uncased"]:
        found.append("numbers of clusters and components are not the paper's")
    mlp = spec.mlp
    if (spec.max_length, mlp.hidden, mlp.epochs, mlp.batch_size) != (64, 100, 10, 32):
        found.append("length, hidden units, epochs or batch size are not the authors'")
    if mlp.learning_rate not in MLP_LEARNING_RATES:
        theirs = " and ".join(f"{rate:g}" for rate in MLP_LEARNING_RATES)
        found.append(f"learning rate {mlp.learning_rate:g}, the authors' are {theirs}")
    found += precision_deviations(spec.dtype)
    return found + _of_clusterer(spec.clusterer)


def finetune_deviations(spec: FinetuneSpec, n_train: int, n_items: int) -> list[str]:
    """What of a fine-tuned model deviates, apart from the data.

    Args:
        spec: of the model.
        n_train: items that it was trained on.
        n_items: items that there are.
    """
    found = spec.deviations(TUNED_MODELS, TUNED_TASKS, TRAINING, n_train, n_items)
    return [*found, f"unknown of the authors' fine-tuning: {', '.join(NOT_STATED)}"]


def _of_model(name: str, *models: str) -> list[str]:
    return [] if name in (models or AUTHORS) else [f"{name} is not among the paper's models"]


def _of_clusterer(clusterer: Clusterer) -> list[str]:
    return (
        []
        if clusterer == KMEANS
        else ["k-means is not the authors': ten iterations of SciPy's from random points"]
    )
