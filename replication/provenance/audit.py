"""Audit: recompute every digest from results to sources, report what differs from its
record, and find the record of a stray file.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Container, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS, record_path, sha256_file
from replication.provenance.format import (
    DATA,
    LEDGER,
    METADATA,
    ledger_bytes,
    producer,
    read_ledger,
)
from replication.provenance.graph import RecordGraph, cached_method
from replication.provenance.identity import MARK, File
from replication.provenance.record import Record

if TYPE_CHECKING:
    from replication.provenance.checkout import Checkout

ENTRY_OF_JOB = ("event", "n", "previous", "record", "sha256", "time")
"""Fields of a job's line in the ledger, besides the summary of its record."""
State = Literal[
    "intact",
    "temporary",
    "other version",
    "other environment",
    "stale",
    "input changed",
    "without record",
    "missing",
    "altered",
]
"""States of a file, the most severe last:

- intact: its bytes are those that its job wrote, each job upstream read the bytes that are there
  now, and the records of its inputs have not changed since;
- temporary: removed, as its rule declares, or left out of a bundle;
- other version: a package had another version than in the checkout's lock file;
- other environment: it was made outside the declared environment;
- stale: its spec or the code that made it differs from the checkout's, a run would make it again
  for another reason, or its record has another format;
- input changed: it was made from other bytes than the job of its input wrote, or the record of an
  input has changed since;
- without record, missing, altered.
"""
STATES: tuple[State, ...] = get_args(State)
GOOD: set[State] = {"intact", "temporary"}


class NotIntact(IsotropyError):
    """A file that was to be shown is not what its job wrote."""

    exit_code = 1


LINK = "a symbolic link: results must be regular files"
NO_FILE = "has the name of a record, but is not a regular file"

BUNDLE = "bundle.zip"
NOT_RESULTS = (LEDGER, BUNDLE, "README.md")
"""Files in the results folder that no job makes; README.md is part of the checkout."""


class Finding(NamedTuple):
    """The state of one file, its path relative to the folder of the run."""

    path: str
    state: State
    detail: str = ""


def verify(
    root: Path, paths: Iterable[Path], checkout: Checkout | None = None, threads: int | None = None
) -> list[Finding]:
    """Check results and everything below them, back to the sources.

    Args:
        root: the folder of the run, to which the paths in records are relative.
        paths: files or folders of results, relative to `root`.
        checkout: checkout to compare specs, code and packages with; None: they are not compared.
        threads: number of threads that digest files; None: the executor's default.

    Raises:
        IsotropyError: all records have another format.

    Returns:
        One finding per file, sorted by path; records and the ledger are included only if something
        is wrong with them.
    """
    audit = _Audit(root, checkout)
    for path in paths:
        audit.start(path)
    return audit.findings(threads, covers_all_results=False)


def verify_all(
    root: Path, checkout: Checkout | None = None, threads: int | None = None
) -> list[Finding]:
    """Check every record in the results folder and the ledger, and find files without a record.

    Raises:
        IsotropyError: there is no results folder, or all records in it have another format.
    """
    if not (root / RESULTS).is_dir():
        raise IsotropyError(
            f"{root / RESULTS} does not exist: run the workflow first, or name the folder of the "
            "run with --root"
        )
    audit = _Audit(root, checkout)
    audit.start(RESULTS)
    return audit.findings(threads, covers_all_results=True)


def require_intact(root: Path, paths: Iterable[Path], *, upstream: bool = True) -> None:
    """Check files that are about to be read and shown by their bytes and records, and the ledger.
    A path that is neither a file of the results nor in a record is left to the caller.

    Args:
        root: the folder of the run.
        paths: files, relative to `root`.
        upstream: whether to check what they were made from, too.

    Raises:
        NotIntact: a file is not what its job wrote.
    """
    audit = _Audit(root, None)
    for path in paths:
        if audit.knows(path):
            audit.start(path)
    refuse_bad(audit.findings(None, covers_all_results=False, upstream=upstream), GOOD)


def refuse_bad(findings: Iterable[Finding], good: Container[State]) -> None:
    """Raise an error that names the worst finding, unless all states are good: the ledger before
    records, which are judged by it, and these before their files.
    """
    if bad := [finding for finding in findings if finding.state not in good]:
        worst = max(
            bad,
            key=lambda f: (
                STATES.index(f.state),
                f.path.endswith(LEDGER),
                f.path.endswith(RECORD_SUFFIX),
            ),
        )
        raise NotIntact(
            f"{worst.path}: {worst.state} ({worst.detail}); findings in all: {len(bad)}; isotropy "
            "audit verify --all lists them"
        )


class _Audit:
    """One audit: collects records, then digests files in parallel, then judges them."""

    def __init__(self, root: Path, checkout: Checkout | None) -> None:
        self.root, self.checkout, self.graph = root, checkout, RecordGraph(root)
        self._is_bundle = (root / METADATA).is_file()
        self._starts: list[str] = []
        self._folders: list[Path] = []
        self._seen: list[str] = []
        self._unread: dict[str, str] = {}
        self._findings: dict[str, Finding] = {}

    def knows(self, path: Path) -> bool:
        """Return whether a path is a file of the results, or may be in a record."""
        if os.path.lexists(self.root / path):
            return path.is_relative_to(RESULTS)
        name = producer(path.as_posix(), lambda record: (self.root / record).is_file())
        if name is None:
            return False
        is_readable = self.graph.record(name) is not None
        return not is_readable or self.graph.producer(path.as_posix()) is not None

    def start(self, path: Path) -> None:
        """Add a file, or all files of a folder, to the audit."""
        name, file = path.as_posix(), self.root / path
        is_record = name.endswith(RECORD_SUFFIX) and file.is_file()
        record_name = name if is_record else self.graph.producer(name)
        if self._is_link(path):
            self._note(name, "altered", LINK)
            return
        if record_name is not None:
            self._starts.append(record_name)
        if file.is_dir():
            self._start_folder(path)
        elif record_name is None and file.exists():
            self._note_unlisted(name, f"{record_path(path)} does not list it")
        elif record_name is None:
            self._note(name, "missing", "there is no such file")

    def _start_folder(self, path: Path) -> None:
        records = self.graph.names(path)
        self._folders.append(path)
        self._starts += records
        files = self._files_below(path)
        for file in files:
            parts = file.relative_to(RESULTS).parts if file.is_relative_to(RESULTS) else file.parts
            if parts[0] in ("logs", *NOT_RESULTS):
                continue
            if (self.root / file).is_symlink():
                self._note(file.as_posix(), "altered", LINK)
            elif not file.name.endswith(RECORD_SUFFIX):
                self._seen.append(file.as_posix())
        for name in records:
            if not (self.root / name).is_file():
                self._note(name, "altered", NO_FILE)
        if not files:
            self._note(path.as_posix(), "missing", "an empty folder")

    def _files_below(self, path: Path) -> list[Path]:
        """List files and links below a folder, without the temporary files that Snakemake and
        running jobs keep beside results.
        """
        files = [
            p.relative_to(self.root)
            for p in (self.root / path).rglob("*")
            if p.is_symlink() or not p.is_dir()
        ]
        return [p for p in files if not any(_is_temporary(part) for part in p.parts)]

    def findings(
        self, threads: int | None, covers_all_results: bool, *, upstream: bool = True
    ) -> list[Finding]:
        """Judge all files, and return the findings sorted by path."""
        records = self.graph.below(self._starts, upstream=upstream)
        outputs = [f.path for record in records.values() for f in record.outputs]
        names = [*records, *self.graph.unreadable, *self.graph.other_format]
        self._digests = self._digest([*outputs, *names], threads)
        if self.graph.other_format and not records:
            raise IsotropyError(next(iter(self.graph.other_format.values())))
        for name, record in records.items():
            self._judge_outputs(record)
            self._judge_inputs(record)
            if self.checkout is not None:
                self._compare(self.checkout, name, record)
        for name, reason in self.graph.unreadable.items():
            self._note(name, "altered", reason)
        for name, reason in self.graph.other_format.items():
            self._note(name, "stale", reason)
        self._judge_ledger(covers_all_results)
        for path in self._seen:
            if path not in self._findings:
                self._note_unlisted(path, "no record lists it")
        return [self._findings[path] for path in sorted(self._findings)]

    def _digest(self, paths: list[str], threads: int | None) -> dict[str, str | None]:
        """Digest each file once, the largest first, so that no thread has a large one left at the
        end.
        """
        sizes = {
            path: None if self._is_link(Path(path)) else _size(self.root / path) for path in paths
        }
        present = sorted(
            (p for p, size in sizes.items() if size is not None), key=lambda p: -(sizes[p] or 0)
        )
        with ThreadPoolExecutor(threads) as pool:
            digests = dict(zip(present, pool.map(self._sha256, present), strict=True))
        return {path: digests.get(path) for path in sizes}

    def _sha256(self, path: str) -> str | None:
        try:
            return sha256_file(self.root / path)
        except OSError as error:
            self._unread[path] = f"it cannot be read: {error.strerror}"
            return None

    def _judge_outputs(self, record: Record) -> None:
        for output in record.outputs:
            state, detail = self._state_of(record, output)
            self._note(output.path, state, detail)
        listed = {f.path for f in record.outputs}
        # An output folder must contain nothing but what its job wrote
        for name in record.output_names.values():
            files = self._files_below(Path(name)) if (self.root / name).is_dir() else []
            for path in (file.as_posix() for file in files):
                if path not in listed:
                    self._note(path, "without record", f"added to what {record.rule} wrote")

    def _state_of(self, record: Record, output: File) -> tuple[State, str]:
        """Return the state of an output by its bytes, and the detail to report."""
        digest = self._digests[output.path]
        if self._is_link(Path(output.path)):
            return "altered", LINK
        if output.path in self._unread:
            return "missing", self._unread[output.path]
        if digest is None:
            if self._is_bundle and Path(output.path).parts[1].split(".")[0] in DATA:
                return "temporary", "left out of the bundle"
            if any(Path(output.path).is_relative_to(folder) for folder in record.temporary):
                return "temporary", f"{record.rule} declares it so"
            return "missing", f"{record.rule} wrote it"
        if digest != output.sha256:
            return "altered", f"{record.rule} wrote {output.sha256[:12]}…, now {digest[:12]}…"
        return "intact", ""

    def _judge_inputs(self, record: Record) -> None:
        for file in record.inputs:
            record_name = self.graph.producer(file.path)
            if record_name is None:
                if _size(self.root / file.path) is None:
                    self._note(file.path, "missing", f"{record.rule} read it")
                else:
                    self._note_unlisted(file.path, f"{record.rule} read it")
            elif self.graph.written(record_name).get(file.path) != file.sha256:
                self._note_input_changed(
                    record,
                    f"made from another {file.path} than {record_name} lists: "
                    "run the workflow again",
                )
        for name, identity in record.input_records.items():
            if _size(self.root / name) is None:
                self._note(name, "missing", f"{record.rule} read its outputs")
            if self.graph.identity(name) not in (None, identity):
                self._note_input_changed(record, f"{name} has changed since this was made")

    def _compare(self, checkout: Checkout, name: str, record: Record) -> None:
        stale = [*checkout.spec_differs(name, record), *checkout.code_differs(record)]
        states: dict[State, list[str]] = {
            "stale": stale or checkout.made_again(name),
            "other environment": checkout.environment_mismatch(record),
            "other version": checkout.packages_differ(record),
        }
        for state, differences in states.items():
            for output in record.outputs if differences else []:
                self._note(output.path, state, f"{record.rule}: {', '.join(differences)}")

    def _judge_ledger(self, covers_all_results: bool) -> None:
        """Check that the lines of the ledger form a chain, and list every record with its present
        digest.
        """
        path = RESULTS / LEDGER
        file = self.root / path
        if self._is_link(path):
            self._note(path.as_posix(), "altered", LINK)
        if not file.is_file():
            if any(digest is not None for digest in self._digests.values()):
                self._note(path.as_posix(), "missing", "every run and every job writes to it")
            return
        recorded, breaks = _read_ledger(file)
        records = [name for name in self._digests if name.endswith(RECORD_SUFFIX)]
        if records and not recorded:
            breaks.append("it names no record")
        if breaks:
            self._note(path.as_posix(), "altered", "; ".join(breaks[:3]))
        for name in records:
            self._judge_entry(path.as_posix(), name, recorded.get(name))
        for name in recorded.keys() - self._digests.keys():
            covered = any(Path(name).is_relative_to(folder) for folder in self._folders)
            is_wanted = self.checkout is None or self.checkout.asks_for(name)
            if (covers_all_results or covered) and is_wanted:
                self._note(name, "missing", "the ledger names it")

    def _judge_entry(self, ledger: str, name: str, entry: Mapping[str, Any] | None) -> None:
        """Compare a record with its digest and its summary in the ledger."""
        if entry is None:
            self._note(name, "altered", "the ledger does not name it")
        elif entry["sha256"] != self._digests[name]:
            self._note(name, "altered", "not what its job wrote, by the ledger")
        elif self._differs_from_summary(name, entry):
            self._note(ledger, "altered", f"its summary of {name} is another")

    def _differs_from_summary(self, name: str, entry: Mapping[str, Any]) -> bool:
        """Return whether the ledger's summary of a record is not that of the record. Lines of
        earlier versions have none.
        """
        record = self.graph.record(name)
        if record is None or entry.keys() <= {*ENTRY_OF_JOB}:
            return False
        return {k: v for k, v in entry.items() if k not in ENTRY_OF_JOB} != record.summary()

    @cached_method
    def _is_link(self, path: Path) -> bool:
        """Return whether a path, or a folder above it, is a symbolic link, so that its bytes are
        elsewhere. The results folder itself may be one, for instance to a cluster's scratch space.
        """
        return bool(path != RESULTS and path.name) and (
            os.path.islink(self.root / path) or self._is_link(path.parent)
        )

    def _note_input_changed(self, consumer: Record, detail: str) -> None:
        for output in consumer.outputs:
            self._note(output.path, "input changed", detail)

    def _note_unlisted(self, path: str, detail: str) -> None:
        """Report a file that no readable record lists."""
        name = producer(path, self.graph.other_format.__contains__)
        if name is None:
            self._note(path, "without record", detail)
        else:
            self._note(path, "stale", self.graph.other_format[name])

    def _note(self, path: str, state: State, detail: str = "") -> None:
        """Record a finding, unless a more severe one is known for the file."""
        noted = self._findings.get(path)
        if noted is None or STATES.index(noted.state) < STATES.index(state):
            self._findings[path] = Finding(path, state, detail)


def _read_ledger(file: Path) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Read the last entry of each record from a ledger, and descriptions of breaks in its chain."""
    try:
        return read_ledger(ledger_bytes(file))[:2]
    except (OSError, ValueError) as error:
        return {}, [str(error)]


def _size(path: Path) -> int | None:
    """Return the size of a regular file; None if there is none, or it is not accessible."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _is_temporary(name: str) -> bool:
    """Return whether a name is that of a temporary file: Snakemake's time stamp in folders, the
    work folder of a job, or a partly written output.
    """
    return name == ".snakemake_timestamp" or (
        name.startswith(".") and name.endswith((".tmp", ".work"))
    )


class Identity(NamedTuple):
    """The result of `identify`: the record of a file."""

    record: str
    """Name of its record."""
    path: str | None
    """The output with the same bytes; None if there is none."""
    outputs: list[str]
    """Outputs that the file may be an altered copy of: those with the same suffix."""


def mark_in(path: Path) -> str | None:
    """Find the id of a record that is embedded in a file; None if there is none.

    PNG, PDF, SVG, HTML, Markdown, Parquet and safetensors files contain it as plain text.
    """
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        match = re.search(MARK.encode() + rb"([0-9a-f]{64})", data)
        return match[1].decode() if match else None


def identify(root: Path, file: Path) -> Identity:
    """Find the record of a file with any name and in any place, by its digest or by the id embedded
    in it.

    Args:
        root: the folder of the run whose records are searched.
        file: the file.

    Raises:
        IsotropyError: there is no such file, or no record in the run lists it.
    """
    if not file.is_file():
        raise IsotropyError(f"{file} is not a file")
    sha256, mark = sha256_file(file), mark_in(file)
    graph = RecordGraph(root)
    if not graph.names():
        raise IsotropyError(f"{root} has no records: name the folder of a run with --root")
    by_mark = None
    for name, record in graph.records().items():
        if path := next((f.path for f in record.outputs if f.sha256 == sha256), None):
            return Identity(name, path, [])
        if record.id == mark:
            outputs = [f.path for f in record.outputs if f.path.endswith(file.suffix)]
            by_mark = Identity(name, None, outputs)
    if by_mark is not None:
        return by_mark
    for reason in graph.other_format.values():
        raise IsotropyError(reason)
    if mark is not None:
        raise IsotropyError(
            f"{file} contains the id {mark}, but {root} has no record with it: the file is from "
            "another run"
        )
    raise IsotropyError(f"{file} contains no id, and no record in {root} lists its digest")
