"""Diff: where two runs first diverge on each path from the sources to the results, and why."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS
from replication.provenance.compare import changed_names, differences, shown, spec_differences
from replication.provenance.graph import RecordGraph, stem_of
from replication.provenance.identity import digests
from replication.provenance.record import Environment, Record

HARDWARE = ("cpu", "cpu_count", "gpu", "threads", "platform")
LONGEST_LIST = 6


class Divergence(NamedTuple):
    """A job with the same inputs but different outputs in two runs, or one that only one run
    has.
    """

    name: str
    """Stem of the results of the job, below `results/`."""
    causes: list[str]
    """Causes as text, each starting with source, spec, inputs, code, infrastructure, environment,
    hardware, nondeterminism, or only in."""


class Comparison(NamedTuple):
    """The result of comparing two runs."""

    first: list[Divergence]
    """First divergence on each path from the sources."""
    n_same: int
    """Number of jobs with the same outputs in both runs."""
    n_following: int
    """Number of jobs that differ because a job upstream does."""


def diff(a: Path, b: Path) -> Comparison:
    """Compare two runs.

    Records are compared, not files; `verify` checks files against records.

    Args:
        a: the folder of the first run, or of an unpacked bundle.
        b: the same of the second run.

    Raises:
        IsotropyError: one of them has no records.
    """
    before, after = _records(a), _records(b)
    differing = {
        name
        for name in before.keys() & after.keys()
        if digests(before[name].outputs) != digests(after[name].outputs)
    }
    in_one_run = before.keys() ^ after.keys()
    first = [
        name
        for name in sorted(differing)
        if not {*before[name].input_records, *after[name].input_records} & (differing | in_one_run)
    ]
    diverging = [Divergence(stem_of(name), _causes(before[name], after[name])) for name in first]
    only_in_one, n_downstream = _only_in_one(before, after)
    n_following = len(differing) - len(first) + n_downstream
    return Comparison(
        diverging + only_in_one, len(before.keys() & after.keys()) - len(differing), n_following
    )


def _records(folder: Path) -> dict[str, Record]:
    graph = RecordGraph(folder)
    records = graph.records()
    for reason in (*graph.other_format.values(), *graph.unreadable.values()):
        raise IsotropyError(reason)
    if not records:
        raise IsotropyError(
            f"{folder} has no records in {RESULTS}: expected the folder of a run; unpack a bundle"
        )
    return records


def _causes(before: Record, after: Record) -> list[str]:
    """Return causes why the same inputs gave different outputs."""
    by_kind = {
        "source": _sources(before, after),
        "spec": _changes(spec_differences(before.spec, after.spec)),
        "inputs": _inputs(before, after),
        "code": _code(before, after),
        "infrastructure": changed_names(before.code.infrastructure, after.code.infrastructure),
        "environment": [
            *_changes(differences(before.environment.packages, after.environment.packages)),
            *_environment(before.environment, after.environment, ("python", "prefix")),
        ],
        "hardware": _environment(before.environment, after.environment, HARDWARE),
    }
    causes = [f"{kind}: {_join(items)}" for kind, items in by_kind.items() if items]
    return causes or [
        f"nondeterminism: no recorded fact differs; determinism of the job: {before.determinism}"
    ]


def _changes(changes: Iterable[tuple[str, Any, Any]]) -> list[str]:
    return [f"{field} {shown(old)} → {shown(new)}" for field, old, new in changes]


def _sources(before: Record, after: Record) -> list[str]:
    """List differences of the fetched sources; empty for jobs that fetch nothing."""
    sources = _changes(differences(before.lineage.sources, after.lineage.sources))
    if not sources or before.inputs:
        return []
    changed = changed_names(digests(before.outputs), digests(after.outputs))
    return [*sources, f"other bytes in {_join([Path(p).name for p in changed])}"]


def _inputs(before: Record, after: Record) -> list[str]:
    names = sorted(digests(before.inputs).keys() ^ digests(after.inputs).keys())
    return [f"only one of the runs reads {_join(names)}"] if names else []


def _code(before: Record, after: Record) -> list[str]:
    """List code files that differ, and the rule if its text differs."""
    files = changed_names(before.code.files, after.code.files)
    rule = [f"the text of rule {before.rule}"] if before.code.rule != after.code.rule else []
    return files + rule


def _environment(before: Environment, after: Environment, fields: Iterable[str]) -> list[str]:
    x, y = before.model_dump(), after.model_dump()
    return _changes(
        (name, x.get(name), y.get(name)) for name in fields if x.get(name) != y.get(name)
    )


def _only_in_one(
    before: dict[str, Record], after: dict[str, Record]
) -> tuple[list[Divergence], int]:
    """Find jobs that only one run has, each of the first run paired with the most similar job of
    the second; and count those that follow from others upstream.
    """
    only_before, only_after = before.keys() - after.keys(), after.keys() - before.keys()
    first = sorted(n for n in only_before if not before[n].input_records.keys() & only_before)
    second = sorted(n for n in only_after if not after[n].input_records.keys() & only_after)
    diverging, unpaired = [], list(second)
    for name in first:
        same_rule = [n for n in unpaired if after[n].rule == before[name].rule]
        differences_of = {n: spec_differences(before[name].spec, after[n].spec) for n in same_rule}
        if not differences_of:
            diverging.append(Divergence(stem_of(name), ["only in the first run"]))
            continue
        nearest = min(differences_of, key=lambda n: (len(differences_of[n]), n))
        unpaired.remove(nearest)
        fields = _join(_changes(differences_of[nearest]))
        cause = f"spec: {fields} (only in the first run; the other has {stem_of(nearest)})"
        diverging.append(Divergence(stem_of(name), [cause]))
    diverging += [Divergence(stem_of(name), ["only in the second run"]) for name in unpaired]
    return diverging, len(only_before) - len(first) + len(only_after) - len(second)


def _join(items: list[str]) -> str:
    n_more = len(items) - LONGEST_LIST
    return ", ".join(items[:LONGEST_LIST]) + (f" and {n_more} more" if n_more > 0 else "")
