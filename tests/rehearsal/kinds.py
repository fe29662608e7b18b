"""Kinds of jobs of a study: a stage with the measurement, a stage with the architecture; for
fine-tuning, also the method and the head of the task.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain
from pathlib import Path

from isotropy.files import record_path
from isotropy.provenance.chain import stem_of
from isotropy.workflow.plan import Plan
from tests.rehearsal.models import ARCHITECTURES

Kind = tuple[str, ...]
STAGES = ("embed", "optimize", "similarity", "geometry", "finetune")
MEASURED = ("tokens", "contexts", "static", "vectors", "classification", "words")
"""Parts of a path that name what is measured."""
HEADS = {"squad": "spans", "stsb": "scores"}
"""Heads of tasks that are not classification."""
SPANS = ("finetune", HEADS["squad"])


def kinds_of(stem: str) -> set[Kind]:
    """Return the kinds of a job; an empty set if its stage is not in `STAGES`.

    Args:
        stem: path of its record below `results/`, without `.record.json`.
    """
    parts = stem.split("/")
    if parts[0] not in STAGES:
        return set()
    if parts[0] == "finetune":
        task, model, method = parts[2].split("--")
        head = HEADS.get(task, "classes")
        return {("finetune", measured) for measured in (model, method.split("_")[0], head)}
    paper = "" if parts[0] == "embed" else parts[1]
    measured = next((part for part in parts if part in MEASURED), "")
    model = next((part for name in parts for part in name.split("--") if part in ARCHITECTURES), "")
    return {(parts[0], paper, measured), (parts[0], model)}


def combinations_of(stem: str) -> set[Kind]:
    """Return one kind for the combination that a job covers: measurement and architecture; for
    fine-tuning, task, architecture and method."""
    parts = stem.split("/")
    if parts[0] == "finetune":
        task, model, method = parts[2].split("--")
        return {("finetune", task, model, method.split("_")[0])}
    kinds = kinds_of(stem)
    return {tuple(part for kind in sorted(kinds) for part in kind)} if kinds else set()


def covering_jobs(plan: Plan, kinds: Callable[[str], set[Kind]] = kinds_of) -> list[str]:
    """Choose a small set of jobs of a study that together cover all kinds.

    Greedy choice: next is the job with the most new kinds per job that must still be run for it;
    at equal numbers, one without spans, since long texts take most time.

    Args:
        plan: the study's plan.
        kinds: maps a job to its kinds; the job is given as the path of its record below
            `results/` without `.record.json`.

    Returns:
        Paths of the chosen jobs' records, in the same form.
    """
    kinds_by_job = {stem: job_kinds for stem in plan.stems() if (job_kinds := kinds(stem))}

    @cache
    def needed(stem: str) -> frozenset[str]:
        """Return a result and all results that it is made from, directly or indirectly."""
        paths = chain.from_iterable(plan.inputs(stem).values())
        inputs = {stem_of(record_path(Path(path)).as_posix()) for path in paths}
        return frozenset({stem}).union(*map(needed, inputs))

    missing, scheduled = set().union(*kinds_by_job.values()), set[str]()
    chosen = []

    def priority(stem: str) -> tuple[float, bool]:
        return len(kinds_by_job[stem] & missing) / (
            1 + len(needed(stem) - scheduled)
        ), SPANS not in kinds_by_job[stem]

    while missing:
        best = max(kinds_by_job, key=priority)
        chosen.append(best)
        missing -= kinds_by_job[best]
        scheduled |= needed(best)
    return chosen
