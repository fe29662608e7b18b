"""Records: what really happened in a job, written beside its outputs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, files_below, read_json, record_of, sha256_file
from isotropy.provenance.verify_bundle import IDENTITY_FIELDS, identity
from isotropy.spec import digest

MARK = "isotropy-record:"
"""What precedes the id of its record in a file."""

Determinism = Literal["bitwise", "tolerance", "statistical"]


def _inside(path: str) -> str:
    """A path below the results folder of a run, and nowhere else."""
    pure = PurePosixPath(path)
    if (
        pure.parts[:1] != (RESULTS.name,)
        or ".." in pure.parts
        or "\\" in path
        or "\0" in path
        or len(path) > 1000
    ):
        raise ValueError(f"{path!r} is not a path below {RESULTS}/")
    return path


Inside = Annotated[str, AfterValidator(_inside)]


class File(BaseModel):
    """A file as it was when a job read or wrote it; the path is relative to the folder of the
    run.
    """

    model_config = ConfigDict(extra="forbid")

    path: Inside
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

    def titles(self, *kinds: str) -> list[str]:
        """Titles of the contents of sources of some kinds, each once."""
        return list(
            dict.fromkeys(
                s["content"]["title"] for kind in kinds for s in self.sources if s["kind"] == kind
            )
        )

    def deviate(self, reasons: list[str]) -> None:
        """Note in what the job departs from the papers' own way; what does so anywhere is a
        stand-in.
        """
        if reasons:
            self.merge(Lineage(status="stand-in", reasons=reasons))

    def merge(self, other: Lineage) -> None:
        """Add what another input stands on."""
        if other.status == "stand-in":
            self.status = "stand-in"
        self.reasons += [r for r in other.reasons if r not in self.reasons]
        self.sources += [s for s in other.sources if s not in self.sources]


class Code(BaseModel):
    """The code behind a job (`isotropy.provenance.code.CodeIdentity`)."""

    model_config = ConfigDict(extra="forbid")

    files: dict[str, str]
    """Project file -> sha256."""
    rule: str
    """SHA-256 of the rule's text."""
    modules: list[str]
    """Modules that the script loads by name."""


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

    format: Literal[2] = 2
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
    peak_memory_bytes: int
    exit: Literal["completed"]

    def identity(self) -> str:
        """Digest of what a result is and stands on, without when, where and by which version of the
        code it was made.

        The records of results made from this one hold it, so that a changed record is noticed. Code
        is left out: a job that is made again by edited code, with the same bytes, leaves what was
        made from it as it is.
        """
        return identity(self.model_dump(mode="json", include=set(IDENTITY_FIELDS)))


def record_id(
    rule: str,
    wildcards: dict[str, str],
    spec: Any,
    inputs: list[File],
    producers: Iterable[Record],
) -> str:
    """Name of what a job makes, known before it is made, so that the outputs can carry it.

    Fetched sources count by their content, not by their files: the same data from another origin
    give the same id.

    Args:
        rule: the job's rule.
        wildcards: its wildcards.
        spec: its spec, as its record has it.
        inputs: files that it reads.
        producers: the records of these files.
    """
    fetched = [
        producer for producer in producers if producer.lineage.sources and not producer.inputs
    ]
    contents = [
        [s.get("id"), s.get("status"), s.get("content")]
        for producer in fetched
        for s in producer.lineage.sources
    ]
    known = {f.path for producer in fetched for f in producer.outputs}
    return digest(
        [rule, wildcards, spec, contents, digests(f for f in inputs if f.path not in known)]
    )


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


def read_record(path: Path) -> Record:
    """Read a record.

    Raises:
        IsotropyError: the file is missing or is not a record of this format.
    """
    try:
        record = Record.model_validate(read_json(path))
        record.identity()  # which text that is no Unicode does not have
        return record
    except (OSError, ValueError, RecursionError) as error:
        said = str(error)
        if isinstance(error, ValidationError):
            first = error.errors()[0]
            said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise IsotropyError(f"{path} is not a readable record: {' '.join(said.split())}") from error


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
        there, written = (
            digests(f for f in known if Path(f.path).is_relative_to(name))
            for known in (files, record.outputs)
        )
        if changed := sorted(
            p for p in there.keys() | written.keys() if there.get(p) != written.get(p)
        ):
            raise IsotropyError(
                f"{changed[0]} is not what {record.rule} wrote; delete {name}, so that it is made "
                "again"
            )
        found[os.path.relpath(record_of(path))] = record
    return found
