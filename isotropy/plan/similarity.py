"""similarity: cluster-based isotropy enhancement (rajaee2021) of clouds, and classification on
frozen features.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotropy.files import RESULTS
from isotropy.plan.paths import fetched, prepared, sides, token_vectors
from isotropy.similarity.spec import ClassifySpec, SimilaritySpec, TuningSpec

if TYPE_CHECKING:
    from isotropy.plan import Plan
    from isotropy.similarity.study import Measurement
    from isotropy.spec import Spec

TUNING = "-tuning"
"""How the last part of the path of a choice of numbers ends."""


def spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a measurement, a tuning or a classification."""
    match path:
        case ["similarity", "rajaee2021", "classification", task, embedding]:
            return _classify(plan, task, embedding)
        case ["similarity", "rajaee2021", dataset, embedding, layer] if layer.endswith(TUNING):
            return _tuning(plan, dataset, embedding, layer.removesuffix(TUNING))
        case ["similarity", "rajaee2021", *end]:
            return _similarity(plan, plan.measured["/".join(end)])
    return None


def inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["similarity", "rajaee2021", "classification", task, embedding]:
            assert plan.rajaee2021.classification is not None
            datasets = plan.rajaee2021.classification.tasks[task].model_dump(
                include={"train", "validation"}
            )
            return sides(datasets) | {"model": [fetched(embedding)]}
        case ["similarity", "rajaee2021", dataset, embedding, layer] if layer.endswith(TUNING):
            return _cloud(plan, dataset, embedding)
        case ["similarity", "rajaee2021", *end]:
            one = plan.measured["/".join(end)]
            tuned = {"tuning": [f"{tuning_stem(plan, one)}.json"]} if is_tuned(plan, one) else {}
            return _cloud(plan, one.dataset, one.embedding) | tuned
    return None


def is_tuned(plan: Plan, one: Measurement) -> bool:
    """Whether the numbers of a measurement are chosen by the tuning: those without clusters need
    none.
    """
    return plan.rajaee2021.embeddings[one.embedding].numbers is None and len(one.methods) > 1


def tuning_stem(plan: Plan, one: Measurement) -> str:
    """The choice of a measurement's numbers, without a suffix."""
    assert plan.rajaee2021.tuning is not None
    return f"{RESULTS}/similarity/rajaee2021/{one._replace(dataset=plan.rajaee2021.tuning.dataset).stem}{TUNING}"


def _similarity(plan: Plan, one: Measurement) -> SimilaritySpec:
    paper, encoding = plan.rajaee2021, plan.rajaee2021.embeddings[one.embedding]
    return SimilaritySpec(
        paper="rajaee2021",
        drop=encoding.drop,
        repeat_texts=paper.repeat_texts,
        numbers=encoding.numbers,
        runs=paper.runs,
        clusterer=paper.clusterer,
        **one._asdict(),
    )


def _tuning(plan: Plan, dataset: str, embedding: str, layer: str) -> TuningSpec:
    paper = plan.rajaee2021
    if paper.tuning is None or paper.tuning.dataset != dataset:
        raise LookupError(f"the study tunes nothing on {dataset}")
    return TuningSpec(
        paper="rajaee2021",
        embedding=embedding,
        layer=None if layer == "words" else int(layer.removeprefix("layer")),
        drop=paper.embeddings[embedding].drop,
        repeat_texts=paper.repeat_texts,
        runs=paper.runs,
        clusterer=paper.clusterer,
        **paper.tuning.model_dump(),
    )


def _classify(plan: Plan, task: str, embedding: str) -> ClassifySpec:
    chosen, encoder = plan.rajaee2021.classification, plan.study.registry.sources[embedding].encoder
    if (
        chosen is None
        or task not in chosen.attempt
        or embedding not in chosen.embeddings
        or encoder is None
    ):
        raise LookupError(f"the study has no classification of {task} with {embedding}")
    common = chosen.model_dump(include={"methods", "n_train", "max_length", "mlp", "seeds"})
    return ClassifySpec.model_validate(
        {
            "paper": "rajaee2021",
            "task": task,
            "embedding": embedding,
            "encoder": encoder,
            "clusterer": plan.rajaee2021.clusterer,
            **chosen.tasks[task].model_dump(),
            **chosen.embeddings[embedding].model_dump(),
            **common,
            **plan.study.config.compute.of_encoders(),
        }
    )


def _cloud(plan: Plan, dataset: str, embedding: str) -> dict[str, list[str]]:
    """Items, and token vectors, or texts and static vectors."""
    items = {"dataset": [prepared(dataset, "items")]}
    if plan.study.registry.sources[embedding].kind == "model":
        return items | {"tokens": [token_vectors(dataset, embedding)]}
    return items | {"texts": [prepared(dataset, "texts")], "vectors_source": [fetched(embedding)]}
