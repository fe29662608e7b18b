"""optimize, finetune: what is trained."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from isotropy.finetune.spec import FinetuneSpec
from isotropy.optimize.spec import OptimizeSpec
from isotropy.plan.paths import embedded, fetched, prepared, sides

if TYPE_CHECKING:
    from isotropy.plan import Plan
    from isotropy.spec import Spec


def spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a trajectory or a fine-tuned model."""
    match path:
        case ["optimize", "mickus2024", setup, seed] if re.fullmatch(r"seed\d+", seed):
            return _optimize(plan, setup, int(seed.removeprefix("seed")))
        case ["finetune", paper, run, seed] if re.fullmatch(r"seed\d+", seed):
            return _finetune(plan, paper, run, int(seed.removeprefix("seed")))
    return None


def inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["optimize", "mickus2024", name, _]:
            setup = plan.trajectories[name].setup
            return {
                "dataset": [prepared(setup.dataset, "items")],
                "embeddings": [embedded(setup.dataset, setup.embedding)],
            }
        case ["finetune", paper, name, _]:
            run = plan.run(paper, name)
            task = plan.fine_tuning(paper).tasks[run.task]
            return sides({"train": task.train, "validation": task.validation}) | {
                "model": [fetched(run.model)]
            }
    return None


def _optimize(plan: Plan, name: str, seed: int) -> OptimizeSpec:
    run = plan.trajectories[name]
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
        device=plan.study.config.compute.device,
        **run.setup.model_dump(),
    )


def _finetune(plan: Plan, paper: str, name: str, seed: int) -> FinetuneSpec:
    run, chosen = plan.run(paper, name), plan.fine_tuning(paper)
    task = chosen.tasks[run.task]
    return FinetuneSpec(
        paper=paper,
        run=name,
        task=run.task,
        train=task.train,
        validation=task.validation,
        metric=task.metric,
        model=run.model,
        method=run.method,
        training=task.trained(chosen.training),
        measure=chosen.measure,
        seed=seed,
        device=plan.study.config.compute.device,
    )
