"""Records: facts about the execution of a job, written beside its outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from isotropy.errors import IsotropyError
from isotropy.files import read_json, record_path
from replication.provenance.code import Code
from replication.provenance.format import (
    FORMAT,
    IDENTITY_FIELDS,
    MAX_RECORD_BYTES,
    identity,
    other_format,
)
from replication.provenance.identity import File, ResultPath, digests
from replication.provenance.lineage import Lineage
from replication.spec import Spec, digest

Determinism = Literal["bitwise", "tolerance", "once"]
"""Agreement to expect from a rerun on the same kind of machine. `once`: the output describes a
single run, so that a rerun is meaningless."""


class OtherFormat(IsotropyError):
    """A record has another format, such as that of an earlier version of the project."""


class Environment(BaseModel):
    """The environment that a job ran in (`environment.py`): fields that the audit
    compares, and further ones that it only displays.
    """

    model_config = ConfigDict(extra="allow")

    python: str
    prefix: str
    packages: dict[str, str]
    threads: int


class Record(BaseModel):
    """The record of one job. docs/records.md describes each field."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[4] = FORMAT
    id: str
    """Digest of rule, wildcards, spec and inputs. It is embedded in the outputs where their formats
    allow (`Job.mark`)."""
    rule: str
    wildcards: dict[str, str]
    spec: dict[str, Any]
    code: Code
    inputs: list[File]
    input_records: dict[ResultPath, str]
    """Path of each input's record -> its `identity` when it was read."""
    outputs: list[File]
    input_names: dict[str, list[ResultPath]]
    """Input names in the rule -> paths."""
    output_names: dict[str, ResultPath]
    temporary: list[ResultPath] = []
    """Outputs that the rule declares temporary, which may have been removed."""
    lineage: Lineage
    determinism: Determinism
    seeds: dict[str, int]
    measurements: dict[str, Any]
    environment: Environment
    started: str
    ended: str
    seconds: float
    cpu_seconds: float | None = None
    """CPU time of the job's process, all threads; None in older records."""
    peak_memory_bytes: int
    exit: Literal["completed"]

    def identity(self) -> str:
        """Digest what the result is and what it was made from, without when, where and by which
        version of the code it was made.

        Records of results made from this one contain this digest, so that a changed record is
        detected. Code is left out, so that a job rerun by edited code with the same bytes does not
        affect results made from it.
        """
        return identity(self.model_dump(mode="json", include=set(IDENTITY_FIELDS)))

    def summary(self) -> dict[str, Any]:
        """What the ledger repeats of a record, so that `isotropy status` need not read thousands:
        the rule, digests of spec and code, and the times.
        """
        return {
            "rule": self.rule,
            "spec": digest(self.spec),
            "code": self.code.param(),
            "seconds": self.seconds,
            "cpu_seconds": self.cpu_seconds,
        }


def spec_digest(spec: Spec) -> str:
    """Digest a spec as it is in records, except that nothing personal is removed, which takes long
    and rarely changes it.
    """
    return digest(spec.model_dump(mode="json", exclude=set(spec.machine_fields)))


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        OtherFormat: the record has another format.
        IsotropyError: the file is missing or not a record.
    """
    try:
        if (size := path.stat().st_size) > MAX_RECORD_BYTES:
            raise ValueError(f"it has {size:,} bytes, a record has {MAX_RECORD_BYTES:,} at most")
        content = read_json(path)
        if problem := other_format(content):
            raise OtherFormat(f"{path}: {problem}")
        record = Record.model_validate(content)
        record.identity()  # fails for text that is not valid Unicode
        return record
    except (OSError, ValueError, RecursionError) as error:
        message = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            message = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise IsotropyError(
            f"{path} is not a readable record: {' '.join(message.split())}"
        ) from error


def find_record(path: Path) -> Record | None:
    """Read a record if it exists and has the current format; else return None.

    Raises:
        IsotropyError: the file is not a readable record.
    """
    try:
        return read_record(path) if path.is_file() else None
    except OtherFormat:
        return None


def producers(inputs: list[Path], files: list[File]) -> dict[str, Record]:
    """Read the records of a job's inputs, by path of the record, and check that each input is what
    its record says.

    Args:
        inputs: files and folders.
        files: the files in these, with digests (`describe_files`).

    Raises:
        IsotropyError: an input has no record, or its files were changed, added or removed since it
            was made.
    """
    records = {}
    for path in inputs:
        record = read_record(record_path(path))
        name = os.path.relpath(path)
        present, written = (
            digests(f for f in described if Path(f.path).is_relative_to(name))
            for described in (files, record.outputs)
        )
        if changed := sorted(
            p for p in present.keys() | written.keys() if present.get(p) != written.get(p)
        ):
            raise IsotropyError(
                f"{changed[0]} is not what {record.rule} wrote; delete {name}, so that it is made "
                "again"
            )
        records[os.path.relpath(record_path(path))] = record
    return records
