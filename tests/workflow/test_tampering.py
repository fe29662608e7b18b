"""Damage of every kind to the smoke study's files is found, and named by the file."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from isotropy.files import RECORD_SUFFIX
from isotropy.provenance import audit as audits
from isotropy.provenance import chain as chains
from isotropy.provenance.audit import GOOD, verify, verify_all
from isotropy.provenance.format import LEDGER
from tests.conftest import Workflow
from tests.workflow.study import audit

N_ALTERATIONS = 220
KINDS = {".parquet", ".safetensors", ".png", ".pdf", ".svg", ".csv", ".md", ".html", ".json"}


def flip(path: Path, random: np.random.Generator) -> None:
    data = bytearray(path.read_bytes())
    data[random.integers(len(data))] ^= 1 << random.integers(8)
    path.write_bytes(data)


def truncate(path: Path, random: np.random.Generator) -> None:
    os.truncate(path, random.integers(path.stat().st_size))


def flip_and_restore_time(path: Path, random: np.random.Generator) -> None:
    stat = path.stat()
    flip(path, random)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


def replace(path: Path, random: np.random.Generator) -> None:
    path.write_bytes(random.bytes(path.stat().st_size))


def remove(path: Path, _random: np.random.Generator) -> None:
    path.unlink()


def edit_record(path: Path, random: np.random.Generator) -> None:
    """Another value in one field, in a record that is still one."""
    record = json.loads(path.read_text())
    field = random.choice(
        ["started", "seconds", "seeds", "environment", "spec", "inputs", "lineage", "code", "id"]
    )
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
    record[field] = edits[str(field)] if edits[str(field)] != record[field] else []
    path.write_text(json.dumps(record))


def remove_entry(path: Path, random: np.random.Generator) -> None:
    """A line taken out of the ledger, not its last: all but the first are jobs'."""
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[random.integers(len(lines) - 1)]
    path.write_bytes(b"".join(lines))


Alteration = Callable[[Path, np.random.Generator], None]
OF_OUTPUTS: list[Alteration] = [flip, truncate, flip_and_restore_time, replace, remove]
OF_RECORDS: list[Alteration] = [edit_record, remove, flip, truncate]


class Study:
    """A finished study that is altered and put back.

    The audit digests every file and reads every record. It does so here, too, but what it has read
    of a file that nobody has touched since is not read again.
    """

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self._touched: set[Path] = set()
        for module, name in ((audits, "sha256_file"), (chains, "read_record")):
            monkeypatch.setattr(module, name, self._once(getattr(module, name)))

    def _once(self, read: Callable[[Path], Any]) -> Callable[[Path], Any]:
        known: dict[Path, Any] = {}

        def read_once(path: Path) -> Any:
            if path in self._touched:
                return read(path)
            if path not in known:
                known[path] = read(path)
            return known[path]

        return read_once

    @contextmanager
    def altered(self, *paths: Path) -> Iterator[None]:
        """Put files back as they were at the end, whatever happened to them."""
        kept = {path: (path.read_bytes(), path.stat()) for path in paths}
        self._touched = set(paths)
        try:
            yield
        finally:
            for path, (data, stat) in kept.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
                os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
            self._touched = set()

    def found(self, *paths: Path) -> set[str]:
        """Files with a finding among results and what they stand on; without paths, of the whole
        study. A folder's records are held against the ledger, too."""
        found = verify(self.folder, paths) if paths else verify_all(self.folder)
        return {f.path for f in found if f.state not in GOOD}

    def name(self, path: Path) -> Path:
        """A path as records have it."""
        return path.relative_to(self.folder)

    def kinds(self) -> dict[str, list[Path]]:
        """Files by kind: a kind of artefact is a suffix; what was fetched is a kind of its own."""
        found: dict[str, list[Path]] = {}
        for finding in verify_all(self.folder):
            name = finding.path
            kind = "source" if name.startswith("results/fetch/") else Path(name).suffix
            found.setdefault(kind, []).append(self.folder / name)
        return found


class Case(NamedTuple):
    what: str
    how: Alteration
    path: Path


def cases(
    kinds: dict[str, list[Path]], records: list[Path], ledger: Path, random: np.random.Generator
) -> list[Case]:
    """Every alteration three times in every kind of file, of records twelve, of the ledger
    eight."""

    def drawn(kind: str, how: Alteration, files: list[Path], times: int) -> list[Case]:
        what = f"{kind}: {how.__name__}"
        return [Case(what, how, files[random.integers(len(files))]) for _ in range(times)]

    found = [
        case
        for kind, files in kinds.items()
        for how in OF_OUTPUTS
        for case in drawn(kind, how, files, 3)
    ]
    found += [case for how in OF_RECORDS for case in drawn("record", how, records, 12)]
    return found + drawn("ledger", remove_entry, [ledger], 8)


@pytest.fixture
def study(smoke_copy: Workflow, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The untouched study, in which the audit finds nothing."""
    assert {f.state for f in verify_all(smoke_copy.folder)} <= GOOD
    return Study(smoke_copy.folder, monkeypatch)


def test_every_alteration_is_found(study: Study, capsys: pytest.CaptureFixture[str]) -> None:
    """After each of many random alterations, and of pairs swapped, a finding names the right
    file."""
    random, folder, counts = np.random.default_rng(20), study.folder, Counter[str]()
    kinds = study.kinds()
    assert set(kinds) == KINDS | {"source"}
    records = sorted((folder / "results").rglob("*" + RECORD_SUFFIX))
    for what, how, path in cases(kinds, records, folder / "results" / LEDGER, random):
        asked = study.name(path.parent if what.startswith("record") else path)
        with study.altered(path):
            how(path, random)
            # The whole study for the first of each kind, and for what the whole study stands on
            whole = counts[what] == 0 or path.name == LEDGER
            found = study.found() if whole else study.found(asked)
        name = study.name(path).as_posix()
        assert name in found, f"{what} of {path} was not found: {sorted(found)}"
        counts[what] += 1
    while counts.total() < N_ALTERATIONS:
        files = kinds[random.choice(sorted(k for k, v in kinds.items() if len(v) > 1))]
        a, b = (files[i] for i in random.choice(len(files), 2, replace=False))
        if a.read_bytes() == b.read_bytes():
            continue
        with study.altered(a, b):
            data = a.read_bytes()
            shutil.copyfile(b, a)
            b.write_bytes(data)
            names = study.name(a), study.name(b)
            assert {name.as_posix() for name in names} <= study.found(*names)
        counts["swapped pair"] += 1
    assert study.found() == set()
    told = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
    with capsys.disabled():
        print(f"\n{counts.total()} alterations, all found: {told}")


def test_a_lost_last_line_a_stray_file_and_lost_results(smoke_copy: Workflow) -> None:
    """The chain holds without its last line, but not its record; results that are gone are missing
    until they are forgotten."""
    folder = smoke_copy.folder

    def found() -> dict[str, str]:
        return {f.path: f.state for f in verify_all(folder) if f.state not in GOOD}

    ledger = folder / "results" / LEDGER
    whole = ledger.read_bytes()
    *lines, last = whole.splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines))
    assert set(found()) == {json.loads(last)["record"]}
    ledger.write_bytes(whole)
    stray = folder / "results/tables/mickus2024/table9.csv"
    stray.write_text("a\n1\n")
    assert found() == {stray.relative_to(folder).as_posix(): "without record"}
    stray.unlink()
    for path in (folder / "results").glob("index.*"):
        path.unlink()
    assert found()["results/index.record.json"] == "missing"
    assert "recorded as removed: 1" in audit(smoke_copy, "forget", "results/index.html").stdout
    assert found() == {}
