"""Records: what really happened in a job, written beside its outputs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from isotropy.errors import IsotropyError
from isotropy.files import read_json, record_of
from isotropy.provenance.code import CodeIdentity
from isotropy.provenance.format import (
    FORMAT,
    IDENTITY_FIELDS,
    MAX_RECORD_BYTES,
    identity,
    name_problem,
    other_format,
)
from isotropy.provenance.identity import File, Inside, digests
from isotropy.provenance.lineage import Lineage

Determinism = Literal["bitwise", "tolerance", "statistical", "once"]
"""What a repetition on the same kind of machine gives; `once`: it says what happened in one run."""


class OtherFormat(IsotropyError):
    """A record of another format, such as an earlier version of the project wrote."""


def _plain(name: str) -> str:
    """A path in the checkout."""
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


CodeName = Annotated[str, AfterValidator(_plain)]


class Code(BaseModel):
    """The code behind a job, see `isotropy.provenance.code.CodeIdentity` for each field."""

    model_config = ConfigDict(extra="forbid")

    files: dict[CodeName, str]
    sha256: dict[CodeName, str]
    infrastructure: dict[CodeName, str]
    rule: str
    modules: list[str]

    def param(self) -> str:
        """The parameter by which the rule carried this code."""
        return CodeIdentity(**dict(self)).param()


class Environment(BaseModel):
    """What did the work (`isotropy.provenance.environment`): what the audit asks of it, and more
    that it only shows.
    """

    model_config = ConfigDict(extra="allow")

    python: str
    prefix: str
    packages: dict[str, str]
    threads: int


class Record(BaseModel):
    """One job. See docs/records.md for each field."""

    model_config = ConfigDict(extra="forbid")

    format: Literal[4] = FORMAT
    id: str
    """Digest of rule, wildcards, spec and inputs. The outputs carry it inside, where their formats
    allow (`mark`)."""
    rule: str
    wildcards: dict[str, str]
    spec: dict[str, Any]
    code: Code
    inputs: list[File]
    input_records: dict[Inside, str]
    """Path of each input's record -> its `identity` when it was read."""
    outputs: list[File]
    input_names: dict[str, list[Inside]]
    """The rule's names of its inputs -> paths."""
    output_names: dict[str, Inside]
    temporary: list[Inside] = []
    """Outputs that the rule declares temporary: they may be gone."""
    lineage: Lineage
    determinism: Determinism
    seeds: dict[str, int]
    measurements: dict[str, Any]
    environment: Environment
    started: str
    ended: str
    seconds: float
    cpu_seconds: float | None = None
    """Of the job's own process, all its threads; None in older records."""
    peak_memory_bytes: int
    exit: Literal["completed"]

    def identity(self) -> str:
        """Digest of what a result is and is made from, without when, where and by which version of
        the code it was made.

        The records of results made from this one hold it, so that a changed record is noticed. Code
        is left out: a job that is made again by edited code, with the same bytes, leaves what was
        made from it as it is.
        """
        return identity(self.model_dump(mode="json", include=set(IDENTITY_FIELDS)))


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        OtherFormat: it is a record of another format.
        IsotropyError: the file is missing or is not a record.
    """
    try:
        if (size := path.stat().st_size) > MAX_RECORD_BYTES:
            raise ValueError(f"it has {size:,} bytes, a record has {MAX_RECORD_BYTES:,} at most")
        content = read_json(path)
        if other := other_format(content):
            raise OtherFormat(f"{path}: {other}")
        record = Record.model_validate(content)
        record.identity()  # which text that is no Unicode does not have
        return record
    except (OSError, ValueError, RecursionError) as error:
        said = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise IsotropyError(f"{path} is not a readable record: {' '.join(said.split())}") from error


def find_record(path: Path) -> Record | None:
    """A record of this format; None: there is none, or one of another format.

    Raises:
        IsotropyError: it is not a readable record.
    """
    try:
        return read_record(path) if path.is_file() else None
    except OtherFormat:
        return None


def producers(inputs: list[Path], files: list[File]) -> dict[str, Record]:
    """The records of a job's inputs, by path; each input must be exactly what its own record says.

    Args:
        inputs: files and folders.
        files: what `describe_files` found in them.

    Raises:
        IsotropyError: an input without a record; or files changed, added or removed since it was
            made.
    """
    found = {}
    for path in inputs:
        record = read_record(record_of(path))
        name = os.path.relpath(path)
        present, written = (
            digests(f for f in known if Path(f.path).is_relative_to(name))
            for known in (files, record.outputs)
        )
        if changed := sorted(
            p for p in present.keys() | written.keys() if present.get(p) != written.get(p)
        ):
            raise IsotropyError(
                f"{changed[0]} is not what {record.rule} wrote; delete {name}, so that it is made "
                "again"
            )
        found[os.path.relpath(record_of(path))] = record
    return found
