"""Results that a study makes of Cai et al. (2021): layers of models, and static vectors."""

from __future__ import annotations

from functools import partial

from isotropy.context import Context
from isotropy.geometry.spec import LayerSpec, VectorsSpec
from isotropy.papers.cai2021.study import Cai2021
from isotropy.papers.registry import PaperPlan
from isotropy.paths import fetched, token_vectors
from isotropy.planned import Result, Results, TokenLayers

KEY = "cai2021"


def plan(study: Cai2021, context: Context) -> PaperPlan:
    """Every layer of every model on every corpus, and the vectors of Table 3."""
    layers: Results = {
        f"geometry/{KEY}/{dataset}/{model}/layer{layer}": Result(
            partial(_layer, study, context, dataset, model, layer),
            {"tokens": [token_vectors(dataset, model)]},
        )
        for dataset, model, layer in study.measured()
    }
    vectors: Results = {
        f"geometry/{KEY}/vectors/{name}": Result(
            partial(_vectors, study, name), {"vectors_source": [fetched(name)]}
        )
        for name in study.vectors
    }
    tokens = [
        TokenLayers(corpus, name, model.layers, study.window)
        for name, model in study.models.items()
        for corpus in model.corpora
    ]
    groups = {"layers": list(layers), "vectors": list(vectors)}
    return PaperPlan(layers | vectors, groups, frozenset(study.parts()), tokens)


def _layer(study: Cai2021, context: Context, dataset: str, model: str, layer: int) -> LayerSpec:
    fields = {"window", "types", "clustering", "lid", "n_points", "seeds"}
    corpus = context.datasets[dataset].model_dump(include={"source", "empty"})
    own = {"paper": KEY, "dataset": dataset, "model": model, "layer": layer}
    own["variants"] = ["all", *study.models[model].variants]
    return LayerSpec.model_validate(own | corpus | study.model_dump(include=fields))


def _vectors(study: Cai2021, name: str) -> VectorsSpec:
    return VectorsSpec(paper=KEY, vectors=name, lid=study.lid, seeds=study.seeds)
