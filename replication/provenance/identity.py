"""Identity: the id of a result, known before the result is made, so that outputs can contain it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from isotropy.files import files_below, sha256_file
from replication.provenance.format import path_problem
from replication.provenance.lineage import Lineage
from replication.spec import digest

MARK = "isotropy-record:"
"""Prefix of the record id that is embedded in output files."""


def _validate_result_path(path: str) -> str:
    """Validate a path below the results folder of a run."""
    if problem := path_problem(path):
        raise ValueError(problem)
    return path


ResultPath = Annotated[str, AfterValidator(_validate_result_path)]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class File(BaseModel):
    """A file as a job read or wrote it; the path is relative to the folder of the run."""

    model_config = ConfigDict(extra="forbid")

    path: ResultPath
    sha256: Sha256
    bytes: int


def describe_files(paths: list[Path]) -> list[File]:
    """Digest files, and all files below folders."""
    return [
        File(path=os.path.relpath(f), sha256=sha256_file(f), bytes=f.stat().st_size)
        for p in paths
        for f in files_below(p)
    ]


def digests(files: Iterable[File]) -> dict[str, str]:
    """Return the digests of files: path -> SHA-256."""
    return {f.path: f.sha256 for f in files}


class Producer(Protocol):
    """The record of the job that made an input (`replication.provenance.record.Record`)."""

    lineage: Lineage
    inputs: list[File]
    outputs: list[File]


def record_id(
    rule: str,
    wildcards: dict[str, str],
    spec: Any,
    inputs: list[File],
    producers: Iterable[Producer],
) -> str:
    """Compute the id of a job's result.

    Fetched sources are identified by their content, not by their files: the same data from another
    origin give the same id.

    Args:
        rule: rule of the job.
        wildcards: wildcards of the job.
        spec: spec of the job, as in its record.
        inputs: files that the job reads.
        producers: records of the jobs that made these files.
    """
    fetch_records = [p for p in producers if p.lineage.sources and not p.inputs]
    contents = [
        [s.get("id"), s.get("status"), s.get("content")]
        for p in fetch_records
        for s in p.lineage.sources
    ]
    fetched_paths = {f.path for p in fetch_records for f in p.outputs}
    return digest(
        [rule, wildcards, spec, contents, digests(f for f in inputs if f.path not in fetched_paths)]
    )
