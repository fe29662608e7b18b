"""Audit: recompute every digest on the chain from results to sources, and say what is no longer what a record says."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, record_of, sha256_file
from isotropy.provenance.code import rule_sha256
from isotropy.provenance.environment import normalized_name
from isotropy.provenance.record import Record, read_record

State = Literal["intact", "altered", "missing", "without record", "stale", "behind"]
SEVERITY: dict[State, int] = {"intact": 0, "behind": 1, "stale": 2, "without record": 3, "missing": 3, "altered": 3}

RESULTS = Path("results")
LOCK = "requirements.lock"


class Finding(NamedTuple):
    """The state of one file, its path relative to the folder of the run."""

    path: str
    state: State
    detail: str = ""


def verify(root: Path, paths: Iterable[Path], project: Path | None = None) -> list[Finding]:
    """Check results and everything below them, back to the sources.

    Args:
        root: the folder of the run, to which the paths in records are relative.
        paths: files or folders of results, relative to `root`.
        project: a checkout to compare the recorded code and packages with; None: they are not compared.

    Returns:
        One finding per file, sorted by path. A file is intact if its bytes are those that the job which made it wrote,
        each job on the way read the bytes that are there now, and the records of what it read say what they said then.
        An intact file is stale if code that made it differs from the checkout's, behind if a package has another version
        than the checkout's lock.
    """
    chain = _Chain(root, None if project is None else _Checkout(project))
    for path in paths:
        chain.start(path)
    return chain.sorted()


def verify_all(root: Path, project: Path | None = None) -> list[Finding]:
    """Check every record below the results folder, and name files there that no record speaks of.

    Raises:
        IsotropyError: there is no results folder.
    """
    if not (root / RESULTS).is_dir():
        raise IsotropyError(f"{root / RESULTS} is not there: run the workflow first, or give --root the folder of the run")
    return verify(root, [RESULTS], project)


class _Checkout:
    """The code and the lock that results are compared with."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self._digests: dict[str, str | None] = {}
        lock = project / LOCK
        lines = lock.read_text("utf8").splitlines() if lock.is_file() else []
        pins = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
        self.locked = {normalized_name(name): version.strip() for name, version in pins}

    def code_differs(self, record: Record) -> list[str]:
        """What differs from the code that made a result: files by name, and the rule."""
        files: dict[str, str] = record.code["files"]
        changed = [name for name, expected in files.items() if self._digest(name) != expected]
        try:
            rule = rule_sha256(self.project, record.rule)
        except LookupError:
            return [*changed, f"there is no rule {record.rule}"]
        return changed if rule == record.code["rule"] else [*changed, f"the text of rule {record.rule}"]

    def packages_differ(self, record: Record) -> list[str]:
        """Packages that had another version than the lock's: name, version, locked version. Builds (+cpu) do not count."""
        found = {name: version.split("+")[0] for name, version in record.environment["packages"].items()}
        return [f"{name} {v}, not {self.locked[name]}" for name, v in found.items() if self.locked.get(name, v) != v]

    def _digest(self, name: str) -> str | None:
        if name not in self._digests:
            file = self.project / name
            self._digests[name] = sha256_file(file) if file.is_file() else None
        return self._digests[name]


class _Chain:
    """A walk over records; each record is followed once, each file digested once."""

    def __init__(self, root: Path, checkout: _Checkout | None) -> None:
        self.root, self.checkout = root, checkout
        self.findings: dict[str, Finding] = {}
        self._digests: dict[str, str | None] = {}
        self._followed: dict[str, Record | None] = {}

    def start(self, path: Path) -> None:
        """Check a file, or all files of a folder."""
        there = self.root / path
        if not there.exists():
            self._note(path.as_posix(), "missing", "there is no such file")
        elif there.is_dir():
            self._start_folder(path)
        elif path.name.endswith(RECORD_SUFFIX):
            self.follow(path)
        else:
            maker = self.follow(record_of(path))
            if maker is None or path.as_posix() not in {f.path for f in maker.outputs}:
                self._note(path.as_posix(), "without record", f"{record_of(path)} does not speak of it")

    def _start_folder(self, path: Path) -> None:
        if (self.root / record_of(path)).is_file():  # a folder that a job wrote whole
            self.follow(record_of(path))
        files = sorted(p.relative_to(self.root) for p in (self.root / path).rglob("*") if p.is_symlink() or not p.is_dir())
        for file in files:
            if file.name.endswith(RECORD_SUFFIX):
                self.follow(file)
        for file in files:
            hidden = any(part.startswith(".") for part in file.parts)
            if hidden or file.parts[1:2] == ("logs",) or file.name.endswith(RECORD_SUFFIX):
                continue
            if (self.root / file).is_symlink():
                self._note(file.as_posix(), "altered", "a symbolic link: results hold plain files only")
            elif file.as_posix() not in self.findings:
                self._note(file.as_posix(), "without record", "no job says that it wrote it")
        if not files:
            self._note(path.as_posix(), "missing", "an empty folder")

    def sorted(self) -> list[Finding]:
        """All findings, by path."""
        return [self.findings[path] for path in sorted(self.findings)]

    def follow(self, path: Path) -> Record | None:
        """Check a record's outputs and go on to the records of its inputs; None if it cannot be read."""
        key = path.as_posix()
        if key in self._followed:
            return self._followed[key]
        self._followed[key] = None
        if not (self.root / path).is_file():
            return None
        try:
            record = read_record(self.root / path)
        except IsotropyError as error:
            self._note(key, "altered", str(error))
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
        if self.checkout is not None:
            for state, differs in (
                ("stale", self.checkout.code_differs(record)),
                ("behind", self.checkout.packages_differ(record)),
            ):
                for output in record.outputs if differs else []:
                    self._note(output.path, state, f"{record.rule}: {', '.join(differs)}")  # type: ignore[arg-type]
        for read in record.inputs:
            self._check_input(record, Path(read.path), read.sha256)
        for name, identity in record.input_records.items():
            producer = self.follow(Path(name))
            if producer is not None and producer.identity() != identity:
                self._blame(record, f"{name} no longer says what it said when this was made")
        return record

    def _check_input(self, consumer: Record, path: Path, expected: str) -> None:
        producer = self.follow(self._producer(path))
        if producer is None:
            self._note(path.as_posix(), "without record", f"{consumer.rule} read it")
            return
        written = {f.path: f.sha256 for f in producer.outputs}
        if written.get(path.as_posix()) != expected:
            self._blame(consumer, f"made from another {path} than the one that is there: run the workflow again")

    def _producer(self, path: Path) -> Path:
        """The record of a file, or of the folder that it was fetched in."""
        folders = [p for p in path.parents if p not in (RESULTS, *RESULTS.parents)]
        return next((r for r in map(record_of, (path, *folders)) if (self.root / r).is_file()), record_of(path))

    def _digest(self, path: str) -> str | None:
        if path not in self._digests:
            file = self.root / path
            self._digests[path] = sha256_file(file) if file.is_file() else None
        return self._digests[path]

    def _blame(self, consumer: Record, detail: str) -> None:
        for output in consumer.outputs:
            self._note(output.path, "altered", detail)

    def _note(self, path: str, state: State, detail: str = "") -> None:
        """Keep the worst that is known of a file."""
        if path not in self.findings or SEVERITY[self.findings[path].state] < SEVERITY[state]:
            self.findings[path] = Finding(path, state, detail)
