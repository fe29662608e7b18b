"""Kinds of jobs of a study: stage, architecture, and the method or task of a fine-tuned model."""

from __future__ import annotations

from collections.abc import Iterable

from tests.rehearsal.models import ARCHITECTURES

Kind = tuple[str, ...]
STAGES = ("embed", "optimize", "similarity", "geometry", "finetune")
MEASURED = ("tokens", "contexts", "static", "vectors", "classification", "words")
"""Parts of a path that name what is measured, not where."""


def kinds_of(stem: str) -> set[Kind]:
    """The kinds that a job has; none, where it is of no stage that reads a model.

    Args:
        stem: path of its record below `results/`, without `.record.json`.
    """
    parts = stem.split("/")
    if parts[0] not in STAGES:
        return set()
    if parts[0] == "finetune":
        task, model, method = parts[2].split("--")
        return {("finetune", model, method.split("_")[0]), ("finetune", task)}
    model = next((part for name in parts for part in name.split("--") if part in ARCHITECTURES), "")
    paper = "" if parts[0] == "embed" else parts[1]
    what = next((part for part in parts if part in MEASURED), "")
    return {(parts[0], paper, what, model)}


def one_of_each(stems: Iterable[str]) -> list[str]:
    """Few jobs that have all kinds together: again and again the first that adds most."""
    of = {stem: kinds for stem in stems if (kinds := kinds_of(stem))}
    missing = set().union(*of.values())
    chosen = []
    while missing:
        best = max(of, key=lambda stem: len(of[stem] & missing))
        chosen.append(best)
        missing -= of[best]
    return chosen
