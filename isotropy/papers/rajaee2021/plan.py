"""Results that a study makes of Rajaee & Pilehvar (2021) and the slides of 2020."""

from __future__ import annotations

from functools import partial

from isotropy.context import Context
from isotropy.files import RESULTS
from isotropy.finetune import plan as finetune
from isotropy.papers.rajaee2021.study import Classification, Measurement, Rajaee2021, Tuning
from isotropy.papers.registry import PaperPlan
from isotropy.paths import fetched, prepared, sides, token_vectors
from isotropy.planned import Result, Results, TokenLayers
from isotropy.similarity.spec import ClassifySpec, SimilaritySpec, TuningSpec

KEY = "rajaee2021"
TUNING = "-tuning"
"""How the last part of the path of a choice of numbers ends."""


def plan(study: Rajaee2021, context: Context) -> PaperPlan:
    """Measurements, choices of numbers, classifications, fine-tuned models."""
    measured = study.measured()
    measurements = {
        _stem(one): Result(partial(_similarity, study, one), _inputs(study, one, context))
        for one in measured.values()
    }
    tunings: Results = {}
    for one in measured.values():
        if study.tuning is not None and study.is_tuned(one):
            make = partial(_tuning, study, study.tuning, one)
            cloud = _cloud(study.tuning.dataset, one.embedding, context)
            tunings[_tuning_stem(study.tuning, one)] = Result(make, cloud)
    classified = _classified(study, context)
    results = measurements | tunings | classified
    groups = {
        "similarity": list(measurements),
        "plotted": [_stem(one) for one in measured.values() if one.plotted],
        "tuning": list(tunings),
        "classification": list(classified),
    }
    if study.finetuning is not None:
        runs = study.finetuning.runs()
        results |= finetune.results(KEY, study.finetuning, runs, context)
        groups["clustered"] = finetune.stems(KEY, runs, study.finetuning.seeds)
    return PaperPlan(results, groups, frozenset(study.parts()), _tokens(study))


def _stem(one: Measurement) -> str:
    return f"similarity/{KEY}/{one.stem}"


def _tuning_stem(tuning: Tuning, one: Measurement) -> str:
    """The choice of a measurement's numbers."""
    return f"{_stem(one._replace(dataset=tuning.dataset))}{TUNING}"


def _inputs(study: Rajaee2021, one: Measurement, context: Context) -> dict[str, list[str]]:
    inputs = _cloud(one.dataset, one.embedding, context)
    if study.tuning is not None and study.is_tuned(one):
        inputs |= {"tuning": [f"{RESULTS}/{_tuning_stem(study.tuning, one)}.json"]}
    return inputs


def _cloud(dataset: str, embedding: str, context: Context) -> dict[str, list[str]]:
    """Items, and token vectors, or texts and static vectors."""
    items = {"dataset": [prepared(dataset, "items")]}
    if context.registry[embedding].kind == "model":
        return items | {"tokens": [token_vectors(dataset, embedding)]}
    return items | {
        "texts": [prepared(dataset, "texts")],
        "vectors_source": [fetched(embedding)],
    }


def _similarity(study: Rajaee2021, one: Measurement) -> SimilaritySpec:
    encoding = study.embeddings[one.embedding]
    return SimilaritySpec(
        paper=KEY,
        drop_tokens=encoding.drop_tokens,
        repeat_texts=study.repeat_texts,
        parameters=encoding.parameters,
        n_clusterings=study.n_clusterings,
        clusterer=study.clusterer,
        **one._asdict(),
    )


def _tuning(study: Rajaee2021, tuning: Tuning, one: Measurement) -> TuningSpec:
    return TuningSpec(
        paper=KEY,
        embedding=one.embedding,
        layer=one.layer,
        drop_tokens=study.embeddings[one.embedding].drop_tokens,
        repeat_texts=study.repeat_texts,
        n_clusterings=study.n_clusterings,
        clusterer=study.clusterer,
        **tuning.model_dump(),
    )


def _classified(study: Rajaee2021, context: Context) -> Results:
    chosen = study.classification
    if chosen is None:
        return {}
    results: Results = {}
    for task in chosen.run_tasks:
        datasets = chosen.tasks[task].model_dump(include={"train", "validation"})
        for embedding in chosen.embeddings:
            make = partial(_classify, study, chosen, task, embedding, context)
            inputs = sides(datasets) | {"model": [fetched(embedding)]}
            results[f"similarity/{KEY}/classification/{task}/{embedding}"] = Result(make, inputs)
    return results


def _classify(
    study: Rajaee2021, chosen: Classification, task: str, embedding: str, context: Context
) -> ClassifySpec:
    fields = {"methods", "n_train", "max_length", "mlp", "seeds"}
    return ClassifySpec.model_validate(
        {
            "paper": KEY,
            "task": task,
            "embedding": embedding,
            "encoder": context.registry[embedding].encoder,
            "clusterer": study.clusterer,
            **chosen.tasks[task].model_dump(),
            **chosen.embeddings[embedding].model_dump(),
            **chosen.model_dump(include=fields),
            **context.compute.for_encoders(),
        }
    )


def _tokens(study: Rajaee2021) -> list[TokenLayers]:
    """Layers of models that measurements and the tuning read."""
    wanted = [(one.dataset, one.embedding, one.layer) for one in study.measured().values()]
    if study.tuning is not None:
        wanted += [
            (study.tuning.dataset, name, layer)
            for name, encoding in study.embeddings.items()
            if encoding.parameters is None
            for layer in encoding.layers
        ]
    layers: dict[tuple[str, str], set[int]] = {}
    for dataset, embedding, layer in wanted:
        if layer is not None:
            layers.setdefault((dataset, embedding), set()).add(layer)
    return [TokenLayers(*key, sorted(found), None) for key, found in layers.items()]
