"""Results that a study makes of Ethayarajh (2019): layers of models, and static vectors."""

from __future__ import annotations

from functools import partial

from isotropy.context import Context
from isotropy.geometry.spec import ContextsSpec, StaticWordsSpec
from isotropy.papers.ethayarajh2019.study import Benchmarks, Ethayarajh2019, Measured
from isotropy.papers.registry import PaperPlan
from isotropy.paths import fetched, prepared, token_vectors
from isotropy.planned import Result, Results, TokenLayers

KEY = "ethayarajh2019"


def plan(study: Ethayarajh2019, context: Context) -> PaperPlan:
    """Every layer of every model on its texts, and static vectors on benchmarks."""
    layers: Results = {
        f"geometry/{KEY}/contexts/{one.texts}/{one.model}/layer{layer}": Result(
            partial(_layer, study, one, layer), _sentences(one)
        )
        for one in study.measured()
        for layer in one.layers
    }
    static: Results = {}
    if study.benchmarks is not None:
        beside = _benchmarks(study.benchmarks)
        static = {
            f"geometry/{KEY}/static/{one.texts}/{one.model}": Result(
                partial(_static, study, study.benchmarks, one), _sentences(one) | beside
            )
            for one in study.measured()
        }
    layers_of: dict[tuple[str, str], set[int]] = {}
    for one in study.measured():
        for dataset in one.datasets:
            layers_of.setdefault((dataset, one.model), set()).update(one.layers)
    tokens = [TokenLayers(*key, sorted(found), None) for key, found in layers_of.items()]
    groups = {"layers": list(layers), "static": list(static)}
    return PaperPlan(layers | static, groups, frozenset(study.parts()), tokens)


def _sentences(one: Measured) -> dict[str, list[str]]:
    return {
        "tokens": [token_vectors(dataset, one.model) for dataset in one.datasets],
        "texts": [prepared(dataset, "texts") for dataset in one.datasets],
    }


def _benchmarks(benchmarks: Benchmarks) -> dict[str, list[str]]:
    return {
        "benchmark_items": [prepared(name, "items") for name in benchmarks.datasets],
        "benchmark_texts": [prepared(name, "texts") for name in benchmarks.datasets],
        "vectors_source": [fetched(name) for name in benchmarks.vectors],
    }


def _layer(study: Ethayarajh2019, one: Measured, layer: int) -> ContextsSpec:
    return ContextsSpec(
        paper=KEY,
        texts=one.texts,
        datasets=one.datasets,
        model=one.model,
        layer=layer,
        unit=one.unit,
        units=study.units,
        variants=["all", *study.variants],
        min_contexts=study.min_contexts,
        n_baseline=study.n_baseline,
        n_draws=study.n_draws,
        seed=study.seed,
    )


def _static(study: Ethayarajh2019, benchmarks: Benchmarks, one: Measured) -> StaticWordsSpec:
    return StaticWordsSpec(
        paper=KEY,
        texts=one.texts,
        datasets=one.datasets,
        model=one.model,
        layers=one.layers,
        min_contexts=study.min_contexts,
        benchmarks=benchmarks.datasets,
        vectors=benchmarks.vectors,
    )
