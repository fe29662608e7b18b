"""geometry: layers and static vectors of cai2021, point clouds of rudman2024."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isotropy.geometry.spec import LayerSpec, StabilitySpec, VectorsSpec
from isotropy.plan.paths import embedded, fetched, token_vectors

if TYPE_CHECKING:
    from isotropy.plan import Plan
    from isotropy.spec import Spec


def spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a measured layer, file of vectors or cloud."""
    match path:
        case ["geometry", "rudman2024", cloud]:
            return _stability(plan, cloud)
        case ["geometry", "cai2021", "vectors", vectors]:
            return _vectors(plan, vectors)
        case ["geometry", "cai2021", dataset, model, layer]:
            return _layer(plan, dataset, model, layer)
    return None


def inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["geometry", "rudman2024", name]:
            cloud = plan.rudman2024.stability.clouds[name]
            if cloud.dataset is None or cloud.embedding is None:  # drawn, not embedded
                return {}
            return {"embeddings": [embedded(cloud.dataset, cloud.embedding)]}
        case ["geometry", "cai2021", "vectors", vectors]:
            return {"vectors_source": [fetched(vectors)]}
        case ["geometry", "cai2021", dataset, model, _]:
            return {"tokens": [token_vectors(dataset, model)]}
    return None


def _stability(plan: Plan, name: str) -> StabilitySpec:
    chosen = plan.rudman2024.stability
    return StabilitySpec(
        paper="rudman2024",
        name=name,
        cloud=chosen.clouds[name],
        **chosen.model_dump(exclude={"clouds"}),
    )


def _vectors(plan: Plan, vectors: str) -> VectorsSpec:
    if vectors not in plan.cai2021.vectors:
        raise LookupError(f"the study does not measure {vectors}")
    return VectorsSpec(
        paper="cai2021", vectors=vectors, lid=plan.cai2021.lid, seeds=plan.cai2021.seeds
    )


def _layer(plan: Plan, dataset: str, model: str, layer: str) -> LayerSpec:
    paper, number = plan.cai2021, int(layer.removeprefix("layer"))
    if (dataset, model, number) not in paper.measured():
        raise LookupError(f"the study does not measure {layer} of {model} on {dataset}")
    common = paper.model_dump(include={"window", "types", "clustering", "lid", "n_points", "seeds"})
    corpus = plan.study.config.datasets[dataset].model_dump(include={"source", "empty"})
    own = {"paper": "cai2021", "dataset": dataset, "model": model, "layer": number}
    return LayerSpec.model_validate(own | corpus | common)
