"""Audit: recompute every digest on the chain from results to sources, and say what is no longer what a record says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, files_below, record_of, sha256_file
from isotropy.provenance.record import Record, read_record

State = Literal["intact", "altered", "missing", "without record"]

RESULTS = Path("results")
NOT_RESULTS = ("logs",)  # folders of RESULTS that hold no results


class Finding(NamedTuple):
    """The state of one file, its path relative to the folder of the run."""

    path: str
    state: State
    detail: str = ""


def verify(root: Path, paths: Iterable[Path]) -> list[Finding]:
    """Check results and everything below them, back to the sources.

    Args:
        root: the folder of the run, to which the paths in records are relative.
        paths: files or folders of results, relative to `root`.

    Returns:
        One finding per file, sorted by path. A file is intact if its bytes are those that the job which made it wrote,
        and each job on the way read the bytes that are there now.
    """
    return _Chain(root).verify(paths)


def verify_all(root: Path) -> list[Finding]:
    """Check every record below the results folder, and name files there that no record speaks of.

    Raises:
        IsotropyError: there is no results folder.
    """
    folder = root / RESULTS
    if not folder.is_dir():
        raise IsotropyError(f"{folder} is not there: run the workflow first, or give --root the folder of the run")
    chain = _Chain(root)
    for record in sorted(folder.rglob(f"*{RECORD_SUFFIX}")):
        chain.follow(record.relative_to(root))
    for file in files_below(folder):
        path = file.relative_to(root)
        hidden = any(part.startswith(".") for part in path.parts)
        if not hidden and path.parts[1] not in NOT_RESULTS and not file.name.endswith(RECORD_SUFFIX):
            chain.findings.setdefault(
                path.as_posix(), Finding(path.as_posix(), "without record", "no job says that it wrote it")
            )
    return chain.sorted()


class _Chain:
    """A walk over records; each record is followed once, each file digested once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.findings: dict[str, Finding] = {}
        self._digests: dict[str, str | None] = {}
        self._followed: dict[str, Record | None] = {}

    def verify(self, paths: Iterable[Path]) -> list[Finding]:
        for path in paths:
            if not (self.root / path).exists():
                self._note(path.as_posix(), "missing", "there is no such file")
            elif path.name.endswith(RECORD_SUFFIX):
                self.follow(path)
            elif path.is_dir() and not (self.root / record_of(path)).is_file():
                for record in sorted((self.root / path).rglob(f"*{RECORD_SUFFIX}")):
                    self.follow(record.relative_to(self.root))
            else:
                maker = self.follow(record_of(path))
                if maker is None or not any(Path(f.path).is_relative_to(path) for f in maker.outputs):
                    self._note(path.as_posix(), "without record", f"{record_of(path)} does not speak of it")
        return self.sorted()

    def sorted(self) -> list[Finding]:
        return [self.findings[path] for path in sorted(self.findings)]

    def follow(self, path: Path) -> Record | None:
        """Check a record's outputs and go on to the records of its inputs."""
        key = path.as_posix()
        if key in self._followed:
            return self._followed[key]
        self._followed[key] = None
        try:
            record = read_record(self.root / path)
        except IsotropyError as error:
            self._note(key, "altered" if (self.root / path).exists() else "missing", str(error))
            return None
        self._followed[key] = record
        for output in record.outputs:
            found = self._digest(output.path)
            if found is None:
                self._note(output.path, "missing", f"{record.rule} wrote it")
            elif found != output.sha256:
                self._note(output.path, "altered", f"{record.rule} wrote {output.sha256[:12]}…, now {found[:12]}…")
            else:
                self._note(output.path, "intact")
        for source in record.inputs:
            self._check_input(record, Path(source.path), source.sha256)
        return record

    def _check_input(self, consumer: Record, path: Path, expected: str) -> None:
        producer_path = self._producer(path)
        if producer_path is None:
            self._note(path.as_posix(), "without record", f"{consumer.rule} read it")
            return
        producer = self.follow(producer_path)
        written = {f.path: f.sha256 for f in producer.outputs} if producer else {}
        if written.get(path.as_posix(), expected) != expected:
            for output in consumer.outputs:
                self._note(output.path, "altered", f"made from an earlier {path}: run the workflow again")

    def _producer(self, path: Path) -> Path | None:
        """The record of a file, or of the folder that it was fetched in."""
        for candidate in (path, *path.parents):
            if (self.root / record_of(candidate)).is_file():
                return record_of(candidate)
            if candidate == RESULTS:
                break
        return None

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            file = self.root / path
            self._digests[path] = sha256_file(file) if file.is_file() else None
        return self._digests[path]

    def _note(self, path: str, state: State, detail: str = "") -> None:
        """Keep the worst that is known of a file."""
        if path not in self.findings or self.findings[path].state == "intact":
            self.findings[path] = Finding(path, state, detail)
