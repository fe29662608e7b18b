"""Identity: the name of what a job makes, known before it is made, so that outputs carry it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, BaseModel, ConfigDict, StringConstraints

from isotropy.files import files_below, sha256_file
from isotropy.provenance.format import path_problem
from isotropy.provenance.lineage import Lineage
from isotropy.spec import digest

MARK = "isotropy-record:"
"""What precedes the id of its record in a file."""


def _inside(path: str) -> str:
    """A path below the results folder of a run, and nowhere else."""
    if problem := path_problem(path):
        raise ValueError(problem)
    return path


Inside = Annotated[str, AfterValidator(_inside)]
Sha256 = Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]


class File(BaseModel):
    """A file as it was when a job read or wrote it; the path is relative to the folder of the
    run.
    """

    model_config = ConfigDict(extra="forbid")

    path: Inside
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
    """Path -> SHA-256."""
    return {f.path: f.sha256 for f in files}


class Producer(Protocol):
    """What made an input (`isotropy.provenance.record.Record`)."""

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
    """Name of what a job makes.

    Fetched sources count by their content, not by their files: the same data from another origin
    give the same id.

    Args:
        rule: the job's rule.
        wildcards: its wildcards.
        spec: its spec, as its record has it.
        inputs: files that it reads.
        producers: what made these files.
    """
    fetched = [p for p in producers if p.lineage.sources and not p.inputs]
    contents = [
        [s.get("id"), s.get("status"), s.get("content")] for p in fetched for s in p.lineage.sources
    ]
    known = {f.path for p in fetched for f in p.outputs}
    return digest(
        [rule, wildcards, spec, contents, digests(f for f in inputs if f.path not in known)]
    )
