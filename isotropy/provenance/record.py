"""Records: what really happened in a job, written beside its outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from isotropy.errors import IsotropyError
from isotropy.files import files_below, read_json, record_of, sha256_file

Determinism = Literal["bitwise", "tolerance", "statistical"]
FORMAT = 1


class File(BaseModel):
    """A file as it was when a job read or wrote it; the path is relative to the folder of the run."""

    model_config = ConfigDict(extra="forbid")

    path: str
    sha256: str
    bytes: int


class Lineage(BaseModel):
    """Whether a result stands on the paper's own data and model, and on which sources."""

    model_config = ConfigDict(extra="forbid")

    status: Literal["original", "stand-in"] = "original"
    reasons: list[str] = []
    """Why it is a stand-in."""
    sources: list[dict[str, Any]] = []
    """Every fetched source below this result (`isotropy.sources.fetch.FetchedSource`)."""

    def join(self, other: Lineage) -> None:
        """Add what another input stands on."""
        if other.status == "stand-in":
            self.status = "stand-in"
        self.reasons += [r for r in other.reasons if r not in self.reasons]
        self.sources += [s for s in other.sources if s not in self.sources]


class Record(BaseModel):
    """One job. See docs/records.md for each field."""

    model_config = ConfigDict(extra="forbid")

    format: int = FORMAT
    rule: str
    wildcards: dict[str, str]
    spec: dict[str, Any]
    code: dict[str, Any]
    inputs: list[File]
    outputs: list[File]
    lineage: Lineage
    determinism: Determinism
    seeds: dict[str, int]
    measurements: dict[str, Any]
    environment: dict[str, Any]
    started: str
    ended: str
    seconds: float
    peak_memory_bytes: int
    exit: Literal["completed"]


def describe_files(paths: list[Path]) -> list[File]:
    """Digest files, and all files below folders."""
    return [File(path=os.path.relpath(f), sha256=sha256_file(f), bytes=f.stat().st_size) for p in paths for f in files_below(p)]


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        IsotropyError: the file is missing or is not a record of this format.
    """
    try:
        return Record.model_validate(read_json(path))
    except (OSError, ValueError) as error:
        raise IsotropyError(f"{path} is not a readable record: {error}") from error


def lineage_of(inputs: list[Path], files: list[File]) -> Lineage:
    """Join the lineages of a job's inputs; each input must be what its own record says.

    Raises:
        IsotropyError: an input without a record, or changed since it was made.
    """
    total = Lineage()
    digests = {f.path: f.sha256 for f in files}
    for path in inputs:
        record = read_record(record_of(path))
        for output in record.outputs:
            if digests.get(output.path, output.sha256) != output.sha256:
                raise IsotropyError(
                    f"{output.path} is not what the job that made it wrote; delete it, so that it is made again"
                )
        total.join(record.lineage)
    return total
