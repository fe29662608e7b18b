"""Results that a study makes of Mickus et al. (2024): trajectories."""

from __future__ import annotations

from functools import partial

from isotropy.context import Context
from isotropy.optimize.spec import OptimizeSpec
from isotropy.papers.mickus2024.study import Mickus2024, Trajectory
from isotropy.papers.registry import PaperPlan
from isotropy.paths import embedded, prepared
from isotropy.planned import Result, Results


def plan(study: Mickus2024, context: Context) -> PaperPlan:
    """Trajectories of section 3, of Appendix A (GLUE), and with one thing changed at a time."""
    results: Results = {}
    groups: dict[str, list[str]] = {}
    for name, run in study.trajectories().items():
        setup = run.setup
        inputs = {
            "dataset": [prepared(setup.dataset, "items")],
            "embeddings": [embedded(setup.dataset, setup.embedding)],
        }
        for seed in run.seeds:
            stem = f"optimize/mickus2024/{name}/seed{seed}"
            results[stem] = Result(partial(_spec, name, run, seed, context), inputs)
            groups.setdefault(run.group, []).append(stem)
    return PaperPlan(results, groups, parts=frozenset(groups))


def _spec(name: str, run: Trajectory, seed: int, context: Context) -> OptimizeSpec:
    return OptimizeSpec(
        paper="mickus2024",
        setup=name,
        group=run.group,
        base=run.base,
        variant=run.variant,
        seed=seed,
        updates=run.updates,
        learning_rate=run.learning_rate,
        measure=run.measure,
        device=context.compute.device,
        **run.setup.model_dump(exclude={"seeds"}),
    )
