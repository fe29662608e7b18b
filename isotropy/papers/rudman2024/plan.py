"""Results that a study makes of Rudman & Eickhoff (2024): fine-tuned models, sampled clouds."""

from __future__ import annotations

from functools import partial

from isotropy.context import Context
from isotropy.finetune import plan as finetune
from isotropy.geometry.spec import PointCloud, StabilitySpec
from isotropy.papers.registry import PaperPlan
from isotropy.papers.rudman2024.study import Rudman2024
from isotropy.paths import embedded
from isotropy.planned import Result, Results

KEY = "rudman2024"


def plan(study: Rudman2024, context: Context) -> PaperPlan:
    """Every task with every model, method and seed; and the clouds of Figure 4."""
    runs = study.runs()
    results = finetune.results(KEY, study, runs, context)
    clouds = _clouds(study)
    return PaperPlan(
        results | clouds,
        groups={
            "finetune": finetune.stems(KEY, runs, study.seeds),
            "shown": finetune.stems(KEY, study.shown(), [min(study.seeds)]),
            "stability": list(clouds),
        },
    )


def _clouds(study: Rudman2024) -> Results:
    """Samples of point clouds: drawn from a distribution, or embeddings."""
    results: Results = {}
    for name, cloud in study.stability.clouds.items():
        inputs = {}
        if cloud.dataset is not None and cloud.embedding is not None:
            inputs = {"embeddings": [embedded(cloud.dataset, cloud.embedding)]}
        results[f"geometry/{KEY}/{name}"] = Result(partial(_stability, study, name, cloud), inputs)
    return results


def _stability(study: Rudman2024, name: str, cloud: PointCloud) -> StabilitySpec:
    common = study.stability.model_dump(exclude={"clouds"})
    return StabilitySpec(paper=KEY, name=name, cloud=cloud, **common)
