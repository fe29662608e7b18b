"""Results of fine-tuning that a study asks for."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from isotropy.context import Context, Result, Results, fetched, sides
from isotropy.finetune.spec import FinetuneSpec
from isotropy.finetune.tasks import FinetuneRun, FineTuning


def stem(paper: str, run: str, seed: int) -> str:
    """Path of a fine-tuned model below the results, without a suffix."""
    return f"finetune/{paper}/{run}/seed{seed}"


def stems(paper: str, runs: Mapping[str, FinetuneRun], seeds: list[int]) -> list[str]:
    """Paths of all models: runs, then seeds."""
    return [stem(paper, run, seed) for run in runs for seed in seeds]


def results(
    paper: str, chosen: FineTuning, runs: Mapping[str, FinetuneRun], context: Context
) -> Results:
    """All fine-tuned models of a paper's part of the study."""
    found: Results = {}
    for name, run in runs.items():
        task = chosen.tasks[run.task]
        inputs = sides({"train": task.train, "validation": task.validation})
        inputs |= {"model": [fetched(run.model)]}
        for seed in chosen.seeds:
            make = partial(_spec, paper, chosen, name, run, seed, context)
            found[stem(paper, name, seed)] = Result(make, inputs)
    return found


def _spec(
    paper: str, chosen: FineTuning, name: str, run: FinetuneRun, seed: int, context: Context
) -> FinetuneSpec:
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
        device=context.compute.device,
    )
