"""Audit: recompute every digest on the chain from results to sources, and say what is no longer
what a record says; find the record of a stray file.
"""

from __future__ import annotations

import mmap
import os
import re
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS, record_of, sha256_file
from isotropy.provenance.chain import Chain
from isotropy.provenance.format import LEDGER, ledger_bytes, producer, read_ledger
from isotropy.provenance.identity import MARK, File
from isotropy.provenance.record import Record

if TYPE_CHECKING:
    from isotropy.provenance.checkout import Checkout

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
SEVERITY: dict[State, int] = {
    "intact": 0,
    "temporary": 0,
    "other version": 1,
    "other environment": 2,
    "stale": 3,
    "input changed": 4,
    "without record": 5,
    "missing": 5,
    "altered": 6,
}
GOOD: set[State] = {"intact", "temporary"}

LINK = "a symbolic link: results hold plain files only"
NO_FILE = "named like a record, and no plain file"

BUNDLE = "bundle.zip"
NOT_RESULTS = (LEDGER, BUNDLE, "README.md")
"""Files of the results folder that no job makes; the last belongs to the checkout."""


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
        checkout: what specs, code and packages are compared with; None: they are not compared.
        threads: threads that digest files; None: one per processor.

    Raises:
        IsotropyError: all records have another format.

    Returns:
        One finding per file, sorted by path; records and the ledger are named only where something
        is wrong with them. A file is

        - intact: its bytes are those that the job which made it wrote, each job on the way read the
          bytes that are there now, and the records of what it read say what they said then;
          temporary: gone, as its rule declares;
        - other version: a package had another version than the checkout's lock has; other
          environment: it was made outside the declared environment; stale: its spec, or code that
          made it, differs from the checkout's, or its record has another format;
        - input changed: made from other bytes than those that its input's own job wrote, or by the
          word of a record that has changed since; without record; missing; altered.
    """
    audit = _Audit(root, checkout)
    for path in paths:
        audit.start(path)
    return audit.findings(threads or os.cpu_count() or 1, whole=False)


def verify_all(
    root: Path, checkout: Checkout | None = None, threads: int | None = None
) -> list[Finding]:
    """Check every record below the results folder, the ledger, and name files there that no record
    lists.

    Raises:
        IsotropyError: there is no results folder, or all records in it have another format.
    """
    if not (root / RESULTS).is_dir():
        raise IsotropyError(
            f"{root / RESULTS} is not there: run the workflow first, or give --root the folder of "
            "the run"
        )
    audit = _Audit(root, checkout)
    audit.start(RESULTS)
    return audit.findings(threads or os.cpu_count() or 1, whole=True)


class _Audit:
    """Gathers records first, then digests files, side by side, then judges."""

    def __init__(self, root: Path, checkout: Checkout | None) -> None:
        self.root, self.checkout, self.chain = root, checkout, Chain(root)
        self._starts: list[str] = []
        self._folders: list[Path] = []
        self._seen: list[str] = []
        self._unread: dict[str, str] = {}
        self._links: dict[Path, bool] = {}
        self._findings: dict[str, Finding] = {}

    def start(self, path: Path) -> None:
        """Take in a file, or all files of a folder."""
        file = self.root / path
        if self._is_link(path):
            self._note(path.as_posix(), "altered", LINK)
        elif not file.exists():
            if (writer := self.chain.producer(path.as_posix())) is not None:
                self._starts.append(writer)
            else:
                self._note(path.as_posix(), "missing", "there is no such file")
        elif file.is_dir():
            self._start_folder(path)
        elif path.name.endswith(RECORD_SUFFIX):
            self._starts.append(path.as_posix())
        elif (writer := self.chain.producer(path.as_posix())) is not None:
            self._starts.append(writer)
        else:
            self._note_unlisted(path.as_posix(), f"{record_of(path)} does not list it")

    def _start_folder(self, path: Path) -> None:
        if writer := self.chain.producer(path.as_posix()):  # a folder that a job wrote whole
            self._starts.append(writer)
        self._folders.append(path)
        self._starts += self.chain.names(path)
        files = self._files_below(path)
        for file in files:
            within = file.relative_to(RESULTS).parts if file.is_relative_to(RESULTS) else file.parts
            if within[0] in ("logs", *NOT_RESULTS):
                continue
            if (self.root / file).is_symlink():
                self._note(file.as_posix(), "altered", LINK)
            elif not file.name.endswith(RECORD_SUFFIX):
                self._seen.append(file.as_posix())
        for name in self.chain.names(path):
            if not (self.root / name).is_file():
                self._note(name, "altered", NO_FILE)
        if not files:
            self._note(path.as_posix(), "missing", "an empty folder")

    def _files_below(self, path: Path) -> list[Path]:
        """Files and links below a folder, without what Snakemake and jobs at work leave beside
        results.
        """
        found = [
            p.relative_to(self.root)
            for p in (self.root / path).rglob("*")
            if p.is_symlink() or not p.is_dir()
        ]
        return [p for p in found if not any(_passing(part) for part in p.parts)]

    def findings(self, threads: int, whole: bool) -> list[Finding]:
        """All findings, by path."""
        records = self.chain.below(self._starts)
        self._digests = self._digest(
            [*(f.path for r in records.values() for f in r.outputs), *self._names(records)], threads
        )
        if self.chain.other_format and not records:
            raise IsotropyError(next(iter(self.chain.other_format.values())))
        for name, reason in self.chain.unreadable.items():
            self._note(name, "altered", reason)
        for name, reason in self.chain.other_format.items():
            self._note(name, "stale", reason)
        for name, record in records.items():
            self._judge_outputs(record)
            self._judge_inputs(record)
            if self.checkout is not None:
                self._compare(self.checkout, name, record)
        self._judge_ledger(whole)
        for path in self._seen:
            if path not in self._findings:
                self._note_unlisted(path, "no record lists it")
        return [self._findings[path] for path in sorted(self._findings)]

    def _names(self, records: dict[str, Record]) -> list[str]:
        return [*records, *self.chain.unreadable, *self.chain.other_format]

    def _digest(self, paths: list[str], threads: int) -> dict[str, str | None]:
        """Digest files once each, the largest first, so that no thread is left with a large one at
        the end.
        """
        sizes = {
            path: None if self._is_link(Path(path)) else _size(self.root / path) for path in paths
        }
        present = sorted(
            (p for p, size in sizes.items() if size is not None), key=lambda p: -(sizes[p] or 0)
        )
        with ThreadPoolExecutor(threads) as pool:
            found = dict(zip(present, pool.map(self._sha256, present), strict=True))
        return {path: found.get(path) for path in sizes}

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
        written = {f.path for f in record.outputs}
        # A folder holds what its job wrote, and nothing else
        for name in record.output_names.values():
            files = self._files_below(Path(name)) if (self.root / name).is_dir() else []
            for path in (file.as_posix() for file in files):
                if path not in written:
                    self._note(path, "without record", f"added to what {record.rule} wrote")

    def _state_of(self, record: Record, output: File) -> tuple[State, str]:
        """The state of an output by its bytes, and what to say of it."""
        found = self._digests[output.path]
        if self._is_link(Path(output.path)):
            return "altered", LINK
        if output.path in self._unread:
            return "missing", self._unread[output.path]
        if found is None:
            if any(Path(output.path).is_relative_to(t) for t in record.temporary):
                return "temporary", f"{record.rule} declares it so"
            return "missing", f"{record.rule} wrote it"
        if found != output.sha256:
            return "altered", f"{record.rule} wrote {output.sha256[:12]}…, now {found[:12]}…"
        return "intact", ""

    def _judge_inputs(self, record: Record) -> None:
        for read in record.inputs:
            writer = self.chain.producer(read.path)
            made = None if writer is None else self.chain.record(writer)
            if writer is None or made is None:
                if _size(self.root / read.path) is None:
                    self._note(read.path, "missing", f"{record.rule} read it")
                else:
                    self._note_unlisted(read.path, f"{record.rule} read it")
            elif self.chain.written(writer).get(read.path) != read.sha256:
                self._blame(
                    record,
                    f"made from another {read.path} than {made.rule} wrote: run the workflow again",
                )
        for name, identity in record.input_records.items():
            if self.chain.identity(name) not in (None, identity):
                self._blame(record, f"{name} no longer says what it said when this was made")

    def _compare(self, checkout: Checkout, name: str, record: Record) -> None:
        checkout.note_infrastructure(record)
        spec, code = checkout.spec_differs(name, record), checkout.code_differs(record)
        states: dict[State, list[str]] = {
            "stale": [*spec, *code],
            "other environment": checkout.environment_mismatch(record),
            "other version": checkout.packages_differ(record),
        }
        for state, differs in states.items():
            for output in record.outputs if differs else []:
                self._note(output.path, state, f"{record.rule}: {', '.join(differs)}")

    def _judge_ledger(self, whole: bool) -> None:
        """The ledger's lines follow on each other, and name every record with the digest that it
        has.
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
            if recorded.get(name) != self._digests[name]:
                how = (
                    "not what its job wrote, by the ledger"
                    if name in recorded
                    else "the ledger does not name it"
                )
                self._note(name, "altered", how)
        for name in recorded:
            if name not in self._digests and (
                whole or any(Path(name).is_relative_to(f) for f in self._folders)
            ):
                self._note(name, "missing", "the ledger names it")

    def _is_link(self, path: Path) -> bool:
        """Whether a path, or a folder on the way to it, is a symbolic link: its bytes would be
        elsewhere. The results folder itself may be one, as to a cluster's scratch.
        """
        if path not in self._links:
            self._links[path] = bool(path != RESULTS and path.name) and (
                os.path.islink(self.root / path) or self._is_link(path.parent)
            )
        return self._links[path]

    def _blame(self, consumer: Record, detail: str) -> None:
        for output in consumer.outputs:
            self._note(output.path, "input changed", detail)

    def _note_unlisted(self, path: str, detail: str) -> None:
        """Note a file that no readable record lists."""
        name = producer(path, self.chain.other_format.__contains__)
        if name is None:
            self._note(path, "without record", detail)
        else:
            self._note(path, "stale", self.chain.other_format[name])

    def _note(self, path: str, state: State, detail: str = "") -> None:
        """Keep the worst that is known of a file."""
        if path not in self._findings or SEVERITY[self._findings[path].state] < SEVERITY[state]:
            self._findings[path] = Finding(path, state, detail)


def _read_ledger(file: Path) -> tuple[dict[str, str], list[str]]:
    """What a ledger says of each record, and what is wrong with it."""
    try:
        recorded, breaks, _ = read_ledger(ledger_bytes(file))
    except (OSError, ValueError) as error:
        return {}, [str(error)]
    return recorded, breaks


def _size(path: Path) -> int | None:
    """Size of a plain file; None if there is none, or none that can be reached."""
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _passing(part: str) -> bool:
    """Whether a name is that of something passing: Snakemake's mark in folders, a job's work or
    half-written output.
    """
    return part == ".snakemake_timestamp" or (
        part.startswith(".") and part.endswith((".tmp", ".work"))
    )


class Identity(NamedTuple):
    """What a file is."""

    record: str
    """Name of its record."""
    path: str | None
    """The output that it is, byte by byte; None: it is none of them."""
    outputs: list[str]
    """Outputs that it can be a changed copy of: those with its suffix."""


def mark_in(path: Path) -> str | None:
    """The id of the record that a file carries inside; None if it carries none.

    PNG, PDF, SVG, HTML, Markdown, Parquet and safetensors all hold it as plain text.
    """
    if path.stat().st_size == 0:
        return None
    with path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        found = re.search(MARK.encode() + rb"([0-9a-f]{64})", data)
        return found[1].decode() if found else None


def identify(root: Path, file: Path) -> Identity:
    """Find the record of a file, however it is called and wherever it lies: by its digest, or by
    the id that it carries.

    Args:
        root: the folder of the run whose records are searched.
        file: the file.

    Raises:
        IsotropyError: there is no such file, or no record in the run lists it.
    """
    if not file.is_file():
        raise IsotropyError(f"{file} is not a file")
    sha256, mark = sha256_file(file), mark_in(file)
    chain = Chain(root)
    if not chain.names():
        raise IsotropyError(f"{root} has no records: give --root the folder of a run")
    marked = None
    for name in chain.names():
        record = chain.record(name)
        if record is None:
            continue
        if path := next((f.path for f in record.outputs if f.sha256 == sha256), None):
            return Identity(name, path, [])
        if record.id == mark:
            suffix = "".join(file.suffixes[-1:])
            marked = Identity(
                name, None, [f.path for f in record.outputs if f.path.endswith(suffix)]
            )
    if marked is not None:
        return marked
    for reason in chain.other_format.values():
        raise IsotropyError(reason)
    if mark is not None:
        raise IsotropyError(
            f"{file} carries the id {mark}, of which {root} has no record: it comes from another "
            "run"
        )
    raise IsotropyError(f"{file} carries no id, and no record in {root} has its digest")
