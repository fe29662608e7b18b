"""Summarize a run for its pages: inputs, outputs, time and machine of each job, and the state of
all files.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.files import RECORD_SUFFIX, RESULTS
from replication.provenance.audit import GOOD, verify
from replication.provenance.format import LEDGER, ledger_bytes, read_ledger
from replication.provenance.graph import RecordGraph
from replication.provenance.record import Record

KEYS = ("setup", "seed", "dataset")
"""Fields of specs by which the row of a claim selects among the inputs of its table."""
MOST_FINDINGS = 20


GRAPH = "lineageOfClaims"
"""Name of the variable in the script `Summary.graph`."""


class Summary(NamedTuple):
    """The lineage of the results, the same as a script, and what is particular to this run."""

    lineage: dict[str, Any]
    """jobs: record, rule, status, determinism, seeds, keys, outputs with SHA-256, inputs; sources:
    as records have them, and their files."""
    graph: str
    """JavaScript with a list per job, for the page that unfolds lineages: rule, common beginning of
    its files' names, their ends with digests, numbers of the jobs whose files it read, setup and
    seed."""
    run: dict[str, Any]
    """files by state, findings, ledger, times and machines of jobs, environments."""


def summarize(root: Path, results: list[Path], threads: int) -> Summary:
    """Summarize the jobs behind results, and check every file that they wrote.

    Args:
        root: the folder of the run, to which the results are relative.
        results: files; all files that they were made from are included.
        threads: number of threads that digest files.
    """
    graph = RecordGraph(root)
    starts = sorted({name for path in results if (name := graph.producer(path.as_posix()))})
    records = dict(sorted(graph.below(starts).items()))
    findings = verify(root, results, threads=threads)
    read = {file.path for record in records.values() for file in record.inputs}
    jobs = [_job(name, record, read) for name, record in records.items()]
    return Summary(
        lineage={
            "jobs": jobs,
            "sources": [
                _source(record)
                for record in records.values()
                if record.lineage.sources and not record.inputs
            ],
        },
        graph=_graph(jobs, records),
        run={
            "files": dict(sorted(Counter(f.state for f in findings).items())),
            "findings": [list(f) for f in findings if f.state not in GOOD][:MOST_FINDINGS],
            "ledger": _ledger(root),
            "started": min(record.started for record in records.values()),
            "ended": max(record.ended for record in records.values()),
            "jobs": [_timing(name, record) for name, record in records.items()],
            "environments": _environments(records),
        },
    )


def stage(record: str) -> str:
    """The stage of a job: the top folder of its record, or the record's name if it has none."""
    return Path(record).relative_to(RESULTS).parts[0].removesuffix(RECORD_SUFFIX)


def _job(name: str, record: Record, read: set[str]) -> dict[str, Any]:
    stem = name.removesuffix(RECORD_SUFFIX)
    outputs = [f for f in record.outputs if f.path in read or f.path.startswith(f"{stem}.")]
    return {
        "record": name,
        "id": record.id,
        "rule": record.rule,
        "stage": stage(name),
        "status": record.lineage.status,
        "determinism": record.determinism,
        "seeds": record.seeds,
        "keys": {key: record.spec[key] for key in KEYS if key in record.spec},
        "outputs": [[f.path, f.sha256] for f in outputs or record.outputs],
        "inputs": [f.path for f in record.inputs],
    }


def _graph(jobs: list[dict[str, Any]], records: dict[str, Record]) -> str:
    numbers = {name: i for i, name in enumerate(records)}
    nodes = [
        [
            job["rule"],
            *_files(job),
            sorted(numbers[n] for n in records[job["record"]].input_records if n in numbers),
            job["keys"].get("setup"),
            job["keys"].get("seed"),
        ]
        for job in jobs
    ]
    return f"const {GRAPH} = {json.dumps(nodes, separators=(',', ':'))};\n"


def _files(job: dict[str, Any]) -> tuple[str, list[list[str]]]:
    stem = job["record"].removesuffix(RECORD_SUFFIX)
    return stem, [[path.removeprefix(stem), sha256] for path, sha256 in job["outputs"]]


def _source(record: Record) -> dict[str, Any]:
    files = [[f.path, f.sha256, f.bytes] for f in record.outputs]
    return {"sources": record.lineage.sources, "files": files, "status": record.lineage.status}


def _timing(name: str, record: Record) -> dict[str, Any]:
    environment = record.environment.model_dump(mode="json")
    return {
        "record": name,
        "started": record.started,
        "seconds": record.seconds,
        "peak_memory_bytes": record.peak_memory_bytes,
        "threads": environment["threads"],
        "host": _describe(environment.get("host")),
        "cpu": _describe(environment.get("cpu")),
        "gpu": _describe(environment.get("gpu")),
    }


def _describe(value: Any) -> str | None:
    """A field of an environment as text; None: unknown, for a reason that the record has."""
    if isinstance(value, dict):
        value = value.get("name", value.get("value"))
    return None if value is None else str(value)


def _environments(records: dict[str, Record]) -> list[dict[str, Any]]:
    """Different sets of packages, and how many jobs ran in each."""
    counts: Counter[str] = Counter()
    for record in records.values():
        environment = {"python": record.environment.python, "packages": record.environment.packages}
        counts[json.dumps(environment, sort_keys=True)] += 1
    return [{"jobs": n, **json.loads(text)} for text, n in counts.most_common()]


def _ledger(root: Path) -> dict[str, Any]:
    """Number of lines in the ledger, and the digest of the last one, which covers all of them."""
    lines = read_ledger(ledger_bytes(root / RESULTS / LEDGER))[2]
    return {"lines": len(lines), "head": lines[-1]}
