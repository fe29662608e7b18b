"""Plan of the fine-tuned models of a study."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from replication.context import Context, Result, Results, source_folder, task_inputs
from replication.finetune.spec import FinetuneSpec
from replication.finetune.tasks import FinetuneRun, FineTuning


def stem(paper: str, run: str, seed: int) -> str:
    """Return the stem of a fine-tuned model: its path below the results without a suffix."""
    return f"finetune/{paper}/{run}/seed{seed}"


def stems(paper: str, runs: Iterable[str], seeds: list[int]) -> list[str]:
    """Return the stems of all fine-tuned models, by run and seed."""
    return [stem(paper, run, seed) for run in runs for seed in seeds]


def results(
    paper: str, settings: FineTuning, runs: Mapping[str, FinetuneRun], context: Context
) -> Results:
    """Plan all fine-tuned models of a paper."""
    planned: Results = {}
    for name, run in runs.items():
        task = settings.tasks[run.task]
        inputs = task_inputs({"train": task.train, "validation": task.validation})
        inputs |= {"model": [source_folder(run.model)]}
        for seed in settings.seeds:
            make_spec = partial(_spec, paper, settings, name, run, seed, context)
            planned[stem(paper, name, seed)] = Result(make_spec, inputs)
    return planned


def _spec(
    paper: str, settings: FineTuning, name: str, run: FinetuneRun, seed: int, context: Context
) -> FinetuneSpec:
    task = settings.tasks[run.task]
    training = task.training_settings(settings.training)
    return FinetuneSpec.collect(
        context.compute, settings, task, run, paper=paper, run=name, seed=seed, training=training
    )
