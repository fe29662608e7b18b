"""What a study does beside the text of Rajaee & Pilehvar (2021), its notebook, and the slides."""

from __future__ import annotations

from isotropy.context import Context
from isotropy.papers.comparison import Line, always, line, revisions, shown
from isotropy.papers.rajaee2021 import protocol
from isotropy.papers.rajaee2021.study import Classification, ClusterFineTuning, Rajaee2021
from isotropy.similarity.spec import Clusterer, Parameters


def compare(study: Rajaee2021, context: Context) -> list[Line]:
    """The lines of the paper's page."""
    known = {name: own for name, own in study.embeddings.items() if name in protocol.AUTHORS}
    sets = sorted({name for own in study.embeddings.values() for name in own.datasets})
    layers = sorted({layer for own in known.values() for layer in own.layers})
    lines = [
        line("models", list(protocol.AUTHORS), sorted(study.embeddings), "section 4"),
        revisions(study.embeddings, context.registry),
        line("data", protocol.SETS, sets, "tables 2 and 6, slides"),
        always("split", "test", "section 4"),
        line("layer", [protocol.LAST], layers, "section 4"),
        always("pooling", "mean of tokens", "notebook"),
    ]
    for name, own in sorted(known.items()):
        lines += [
            line(f"{name}: clusters, components", _counts(protocol.AUTHORS[name]),
                 _counts(own.parameters), "appendix B.2"),
            line(f"{name}: tokens left out", None if name == "gpt2" else protocol.DROPPED[name][0],
                 own.drop_tokens, "notebook"),
        ]  # fmt: skip
    lines += [
        line("k-means", _clusterer(protocol.KMEANS), _clusterer(study.clusterer),
             "notebook: kmeans2"),
        line("seeds", None, study.n_clusterings, "not seeded"),
        line("a repeated sentence counts", "each time",
             "each time" if study.repeat_texts else "once", "notebook"),
        always("metric", "Spearman", "section 4"),
    ]  # fmt: skip
    if study.classification is not None:
        lines += _of_classification(study.classification)
    if study.finetuning is not None:
        lines += _of_finetuning(study.finetuning)
    return lines


def _of_classification(own: Classification) -> list[Line]:
    mlp = own.mlp
    fields = (own.max_length, mlp.hidden, mlp.epochs, mlp.batch_size)
    where = "notebook"
    rates = protocol.MLP_LEARNING_RATES
    rate = mlp.learning_rate if mlp.learning_rate in rates else None
    return [
        line("classification: tasks", protocol.TASKS, own.run_tasks, "table 3"),
        line("classification: model", {"bert-base-uncased"}, sorted(own.embeddings), "table 3"),
        line("classification: items", "all", own.n_train or "all", "table 3"),
        line(
            "classification: length, units, epochs, batch", "64, 100, 10, 32", shown(fields), where
        ),
        always("classification: optimizer", "Adam", where),
        line(
            "classification: rate",
            rate or " or ".join(f"{r:g}" for r in rates),
            mlp.learning_rate,
            f"{where}, or an e-mail to Dzubur (2022)",
        ),
        line("classification: seeds", None, len(own.seeds), "not seeded"),
    ]


def _of_finetuning(own: ClusterFineTuning) -> list[Line]:
    training = own.training
    return [
        line("fine-tuning: models", protocol.TUNED_MODELS, own.models, "slides"),
        line("fine-tuning: tasks", protocol.TUNED_TASKS, own.run_tasks, "slides"),
        line("fine-tuning: epochs", protocol.TRAINING["epochs"], training.epochs, "slides"),
        line("fine-tuning: rate", None, training.learning_rate, "slides: not said"),
        line("fine-tuning: batch", None, training.batch_size, "slides: not said"),
        line("fine-tuning: clusters, components", None, (own.n_clusters, own.n_components),
             "slides: not said"),
        line("fine-tuning: seeds", None, len(own.seeds), "slides: not said"),
    ]  # fmt: skip


def _counts(own: Parameters | None) -> str:
    if own is None:
        return "tuned"
    return (
        f"{own.n_clusters} clusters, {own.n_components} of each, {own.n_components_global} of all"
    )


def _clusterer(own: Clusterer) -> str:
    return f"starts: {own.init}, iterations: {own.max_iter}, tolerance: {own.tol:g}"
