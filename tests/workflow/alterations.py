"""Random alterations of a finished study: the audit must name the file of each."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest import mock

import numpy as np

from isotropy.files import RECORD_SUFFIX
from replication.provenance import audit as audits
from replication.provenance import graph
from replication.provenance.audit import GOOD, verify, verify_all
from replication.provenance.format import LEDGER


def flip(path: Path, random: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[random.integers(len(data))] ^= 1 << random.integers(8)
    path.write_bytes(data)


def truncate(path: Path, random: np.random.Generator) -> None:
    os.truncate(path, int(random.integers(path.stat().st_size)))


def flip_and_restore_time(path: Path, random: np.random.Generator) -> None:
    stat = path.stat()
    flip(path, random)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace(path: Path, random: np.random.Generator) -> None:
    path.write_bytes(random.bytes(path.stat().st_size))


def remove(path: Path, _random: np.random.Generator) -> None:
    path.unlink()


def edit_record(path: Path, random: np.random.Generator) -> None:
    """Change the value of one field; the record stays valid JSON with all its fields."""
    record = json.loads(path.read_text())
    edits = {
        "started": "2020-01-01T00:00:00+00:00",
        "seconds": 1.5,
        "seeds": {"other": 7},
        "environment": {**record["environment"], "python": "3.99.0"},
        "spec": {**record["spec"], "extra": 1},
        "inputs": record["inputs"][:-1],
        "lineage": {**record["lineage"], "status": "original", "reasons": ["none"]},
        "code": {**record["code"], "rule": "0" * 64},
        "id": "f" * 64,
    }
    field = str(random.choice([*edits]))
    record[field] = edits[field] if edits[field] != record[field] else []
    path.write_text(json.dumps(record))


def remove_entry(path: Path, random: np.random.Generator) -> None:
    """Remove a line of the ledger, but not the last one."""
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[random.integers(len(lines) - 1)]
    path.write_bytes(b"".join(lines))


Alteration = Callable[[Path, np.random.Generator], None]
OUTPUT_ALTERATIONS: list[Alteration] = [flip, truncate, flip_and_restore_time, replace, remove]
RECORD_ALTERATIONS: list[Alteration] = [edit_record, remove, flip, truncate]


class Study:
    """A copy of a finished study, in which files are altered and then restored.

    Used as a context manager, it caches the audit's digests and records of all files, except of
    those that `altered` changes, so that thousands of audits are fast.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._touched: set[Path] = set()
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for module, name in ((audits, "sha256_file"), (graph, "read_record")):
            cached = self._cached(getattr(module, name))
            self._patches.enter_context(mock.patch.object(module, name, cached))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

    def _cached(self, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        cache: dict[Path, Any] = {}

        def read_cached(path: Path) -> Any:
            path = path.absolute()
            if path in self._touched:
                return read(path)
            if path not in cache:
                cache[path] = read(path)
            return cache[path]

        return read_cached

    @contextmanager
    def altered(self, *paths: Path) -> Iterator[None]:
        """Restore files and their times at the end, whatever happened to them."""
        originals = {path: (path.read_bytes(), path.stat()) for path in paths}
        self._touched = set(paths)
        try:
            yield
        finally:
            for path, (data, stat) in originals.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            self._touched = set()

    def files_with_findings(self, *paths: Path) -> set[str]:
        """Audit results and all that they are made from; without paths, the whole study. For a
        folder, its records are compared with the ledger, too."""
        findings = verify(self.folder, paths) if paths else verify_all(self.folder)
        return {f.path for f in findings if f.state not in GOOD}

    def name(self, path: Path) -> Path:
        """Return a path as it is written in records."""
        return path.relative_to(self.folder)

    def kinds(self) -> dict[str, list[Path]]:
        """Group files by kind: their suffix, or `source` for everything that was fetched."""
        files_by_kind: dict[str, list[Path]] = {}
        for finding in verify_all(self.folder):
            name = finding.path
            kind = "source" if name.startswith("results/fetch/") else Path(name).suffix
            files_by_kind.setdefault(kind, []).append(self.folder / name)
        return files_by_kind


class Case(NamedTuple):
    """An alteration of one file; its label begins with the kind of the file."""

    label: str
    alteration: Alteration
    path: Path


def cases(
    kinds: dict[str, list[Path]], records: list[Path], ledger: Path, random: np.random.Generator
) -> list[Case]:
    """Draw cases: each alteration once for each kind of file, for records four times; three lines
    of the ledger to remove."""

    def drawn(kind: str, alteration: Alteration, files: list[Path], times: int) -> list[Case]:
        label = f"{kind}: {alteration.__name__}"
        return [Case(label, alteration, files[random.integers(len(files))]) for _ in range(times)]

    drawn_cases = [
        case
        for kind, files in kinds.items()
        for alteration in OUTPUT_ALTERATIONS
        for case in drawn(kind, alteration, files, 1)
    ]
    drawn_cases += [
        case
        for alteration in RECORD_ALTERATIONS
        for case in drawn("record", alteration, records, 4)
    ]
    return drawn_cases + drawn("ledger", remove_entry, [ledger], 3)


def campaign(folder: Path, n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Alter a finished study at least `n` times: full rounds of `cases`; the remaining times, swap
    two files of one kind.

    Returns:
        Counts by alteration, and the alterations that the audit missed.
    """
    random, counts, missed = np.random.default_rng(seed), Counter[str](), list[str]()
    with Study(folder) as study:
        kinds = study.kinds()
        records = sorted((folder / "results").rglob("*" + RECORD_SUFFIX))
        ledger = folder / "results" / LEDGER
        per_round = len(cases(kinds, records, ledger, np.random.default_rng(0)))
        for _ in range(max(1, n // (per_round + 1))):
            for case in cases(kinds, records, ledger, random):
                kind_prefix = case.label.partition(":")[0] + ":"
                first = not any(label.startswith(kind_prefix) for label in counts)
                missed += _alter(study, case, random, whole=first)
                counts[case.label] += 1
        swappable = sorted(kind for kind, files in kinds.items() if len(files) > 1)
        while counts.total() < n:
            files = kinds[random.choice(swappable)]
            pair = [files[i] for i in random.choice(len(files), 2, replace=False)]
            if pair[0].read_bytes() != pair[1].read_bytes():
                missed += _swap(study, *pair)
                counts["swapped pair"] += 1
        if left := study.files_with_findings():
            missed.append(f"not restored: {sorted(left)[:3]}")
    return counts, missed


def _alter(study: Study, case: Case, random: np.random.Generator, *, whole: bool) -> list[str]:
    """Alter one file; return a message if the audit misses it. `whole` audits the whole study, as
    is always done for the ledger."""
    path = case.path
    audited = study.name(path.parent if case.label.startswith("record") else path)
    with study.altered(path):
        case.alteration(path, random)
        everything = whole or path.name == LEDGER
        named = study.files_with_findings(*([] if everything else [audited]))
    return [] if study.name(path).as_posix() in named else [f"{case.label} of {path}"]


def _swap(study: Study, a: Path, b: Path) -> list[str]:
    with study.altered(a, b):
        data = a.read_bytes()
        shutil.copyfile(b, a)
        b.write_bytes(data)
        named = study.files_with_findings(study.name(a), study.name(b))
    both = {study.name(path).as_posix() for path in (a, b)}
    return [] if both <= named else [f"swapped {a} and {b}"]
