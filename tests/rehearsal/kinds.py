"""Kinds of jobs of a study: a stage with what it measures, a stage with an architecture, and of
fine-tuning a method or a head.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain

from isotropy.provenance.chain import stem_of
from isotropy.provenance.format import record_name
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
    """The kinds that a job has; none, where its stage is not of `STAGES`.

    Args:
        stem: path of its record below `results/`, without `.record.json`.
    """
    parts = stem.split("/")
    if parts[0] not in STAGES:
        return set()
    if parts[0] == "finetune":
        task, model, method = parts[2].split("--")
        head = HEADS.get(task, "classes")
        return {("finetune", what) for what in (model, method.split("_")[0], head)}
    paper = "" if parts[0] == "embed" else parts[1]
    what = next((part for part in parts if part in MEASURED), "")
    model = next((part for name in parts for part in name.split("--") if part in ARCHITECTURES), "")
    return {(parts[0], paper, what), (parts[0], model)}


def combinations_of(stem: str) -> set[Kind]:
    """What a job combines: what is measured with which architecture; of fine-tuning, task,
    architecture and method."""
    parts = stem.split("/")
    if parts[0] == "finetune":
        task, model, method = parts[2].split("--")
        return {("finetune", task, model, method.split("_")[0])}
    kinds = kinds_of(stem)
    return {tuple(part for kind in sorted(kinds) for part in kind)} if kinds else set()


def covering_jobs(plan: Plan, kinds: Callable[[str], set[Kind]] = kinds_of) -> list[str]:
    """A small set of jobs of a study that have all kinds together.

    Chosen greedily: next is the job with most new kinds for each job still to be run for it; of
    equals one without spans, whose long texts take most time.

    Args:
        plan: of the study.
        kinds: those of a job, by the path of its record below `results/` without `.record.json`.

    Returns:
        Such paths.
    """
    of = {stem: found for stem in plan.stems() if (found := kinds(stem))}

    @cache
    def needed(stem: str) -> frozenset[str]:
        """A result, and all that it is made from."""
        paths = chain.from_iterable(plan.inputs(stem).values())
        inputs = {stem_of(record_name(str(path))) for path in paths}
        return frozenset({stem}).union(*map(needed, inputs))

    missing, done = set().union(*of.values()), set[str]()
    chosen = []

    def worth(stem: str) -> tuple[float, bool]:
        return len(of[stem] & missing) / (1 + len(needed(stem) - done)), SPANS not in of[stem]

    while missing:
        best = max(of, key=worth)
        chosen.append(best)
        missing -= of[best]
        done |= needed(best)
    return chosen
