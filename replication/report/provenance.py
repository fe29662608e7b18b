"""The page on the run: jobs over time, outputs and cost of each stage, versions of packages, and
all jobs with their digests.
"""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

from isotropy.files import read_json
from replication.plan.page_spec import Inputs, PageSpec
from replication.report.site import SORTABLE

SCRIPTS = SORTABLE
STAGES = (
    "fetch",
    "prepare",
    "embed",
    "optimize",
    "finetune",
    "geometry",
    "similarity",
    "tables",
    "claims",
    "figures",
)
"""Stages in the order of the workflow; others follow."""
MOST_JOBS = 400
"""Most jobs that the page lists: the longest ones; all are in the summary."""
MOST_INPUTS = 12
CHART_WIDTH = 900


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template.

    Args:
        spec: the spec of the page.
        inputs: `lineage` and `run`: the summary of the run.
        folder: folder of the page.
    """
    lineage, run = (read_json(inputs(name)[0]) for name in ("lineage", "run"))
    times = {timing["record"]: timing for timing in run["jobs"]}
    jobs = [{**job, **times[job["record"]], "n": i} for i, job in enumerate(lineage["jobs"])]
    makers = {path: i for i, job in enumerate(jobs) for path, _ in job["outputs"]}
    for job in jobs:
        job["reads"] = sorted({makers[path] for path in job["inputs"] if path in makers})
    longest = sorted(jobs, key=lambda job: -job["seconds"])[:MOST_JOBS]
    return {
        "run": run,
        "jobs": sorted(longest, key=lambda job: job["n"]),
        "listed": {job["n"] for job in longest},
        "names": [job["record"].removeprefix("results/").split(".")[0] for job in jobs],
        "n_jobs": len(jobs),
        "most_inputs": MOST_INPUTS,
        "stages": _stages(jobs),
        "chart": _chart(jobs),
        "packages": _packages(run["environments"], spec.locked),
    }


def _stages(jobs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Jobs, seconds and memory of each stage, and the stages whose results it reads, in the
    workflow's order.
    """
    names = sorted(
        {job["stage"] for job in jobs}, key=lambda n: (n not in STAGES, _stage_index(n), n)
    )
    return [
        {
            "name": name,
            "jobs": len(stage_jobs),
            "seconds": sum(job["seconds"] for job in stage_jobs),
            "memory": max(job["peak_memory_bytes"] for job in stage_jobs),
            "reads": _count_by_stage(jobs, {i for job in stage_jobs for i in job["reads"]}),
        }
        for name in names
        if (stage_jobs := [job for job in jobs if job["stage"] == name])
    ]


def _count_by_stage(jobs: list[dict[str, Any]], numbers: set[int]) -> list[tuple[str, int]]:
    """Count some jobs, given by their numbers, by stage."""
    counts = Counter(jobs[i]["stage"] for i in numbers)
    return sorted(counts.items(), key=lambda pair: _stage_index(pair[0]))


def _stage_index(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def _chart(jobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Jobs as bars over time, one line for each stage."""
    starts = [datetime.fromisoformat(job["started"]).timestamp() for job in jobs]
    first = min(starts)
    duration = max(s + job["seconds"] for s, job in zip(starts, jobs, strict=True)) - first or 1.0
    lines = {stage["name"]: i for i, stage in enumerate(_stages(jobs))}
    return {
        "minutes": duration / 60,
        "lines": lines,
        "bars": [
            {
                "x": round((start - first) / duration * CHART_WIDTH, 1),
                "width": round(max(job["seconds"] / duration * CHART_WIDTH, 1.0), 1),
                "line": lines[job["stage"]],
            }
            for start, job in zip(starts, jobs, strict=True)
        ],
    }


def _packages(environments: list[dict[str, Any]], locked: dict[str, str]) -> list[dict[str, Any]]:
    """Compare environments with the lock file: packages of other versions, packages not in it."""
    return [
        {
            "jobs": environment["jobs"],
            "python": environment["python"],
            "n": len(environment["packages"]),
            "other": [
                (name, version, locked[name])
                for name, version in sorted(environment["packages"].items())
                if name in locked and version.split("+")[0] != locked[name]
            ],
            "unlocked": sorted(name for name in environment["packages"] if name not in locked),
        }
        for environment in environments
    ]
