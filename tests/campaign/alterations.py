"""Random alterations of a finished study: each must be found, and named by the file.

python -m tests.campaign.alterations STUDY [--n 1000] [--seed 0]

STUDY is the folder of a finished run; its results are copied, and the copy is altered.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self
from unittest import mock

import numpy as np

from isotropy.files import RECORD_SUFFIX, RESULTS
from isotropy.provenance import audit as audits
from isotropy.provenance import chain as chains
from isotropy.provenance.audit import GOOD, verify, verify_all
from isotropy.provenance.format import LEDGER


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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._touched: set[Path] = set()
        self._patches = ExitStack()

    def __enter__(self) -> Self:
        for module, name in ((audits, "sha256_file"), (chains, "read_record")):
            once = self._once(getattr(module, name))
            self._patches.enter_context(mock.patch.object(module, name, once))
        return self

    def __exit__(self, *_: object) -> None:
        self._patches.close()

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
    """Every alteration once in every kind of file, of records four times, of the ledger three."""

    def drawn(kind: str, how: Alteration, files: list[Path], times: int) -> list[Case]:
        what = f"{kind}: {how.__name__}"
        return [Case(what, how, files[random.integers(len(files))]) for _ in range(times)]

    found = [
        case
        for kind, files in kinds.items()
        for how in OF_OUTPUTS
        for case in drawn(kind, how, files, 1)
    ]
    found += [case for how in OF_RECORDS for case in drawn("record", how, records, 4)]
    return found + drawn("ledger", remove_entry, [ledger], 3)


def campaign(folder: Path, n: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Alter a finished study `n` times or more: rounds of `cases`, and as many pairs of files of
    one kind swapped as are left.

    Returns:
        Counts by what was done, and what was missed.
    """
    random, counts, missed = np.random.default_rng(seed), Counter[str](), list[str]()
    with Study(folder) as study:
        kinds = study.kinds()
        records = sorted((folder / "results").rglob("*" + RECORD_SUFFIX))
        ledger = folder / "results" / LEDGER
        per_round = len(cases(kinds, records, ledger, np.random.default_rng(0)))
        for _ in range(max(1, n // (per_round + 1))):
            for case in cases(kinds, records, ledger, random):
                of_kind = case.what.partition(":")[0] + ":"
                first = not any(what.startswith(of_kind) for what in counts)
                missed += _alter(study, case, random, whole=first)
                counts[case.what] += 1
        several = sorted(kind for kind, files in kinds.items() if len(files) > 1)
        while counts.total() < n:
            files = kinds[random.choice(several)]
            pair = [files[i] for i in random.choice(len(files), 2, replace=False)]
            if pair[0].read_bytes() != pair[1].read_bytes():
                missed += _swap(study, *pair)
                counts["swapped pair"] += 1
        if left := study.found():
            missed.append(f"not put back: {sorted(left)[:3]}")
    return counts, missed


def _alter(study: Study, case: Case, random: np.random.Generator, *, whole: bool) -> list[str]:
    """The whole study is checked for the first file of each kind, and for what all of it stands
    on."""
    path = case.path
    asked = study.name(path.parent if case.what.startswith("record") else path)
    with study.altered(path):
        case.how(path, random)
        found = study.found() if whole or path.name == LEDGER else study.found(asked)
    return [] if study.name(path).as_posix() in found else [f"{case.what} of {path}"]


def _swap(study: Study, a: Path, b: Path) -> list[str]:
    with study.altered(a, b):
        data = a.read_bytes()
        shutil.copyfile(b, a)
        b.write_bytes(data)
        found = study.found(study.name(a), study.name(b))
    both = {study.name(path).as_posix() for path in (a, b)}
    return [] if both <= found else [f"swapped {a} and {b}"]


def main() -> int:
    """Exit code 1: something was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    if not (arguments.study / RESULTS / LEDGER).is_file():
        sys.exit(f"{arguments.study} holds no finished study: run one there first")
    if bad := [f for f in verify_all(arguments.study.resolve()) if f.state not in GOOD]:
        sys.exit(f"{arguments.study}: {bad[0].path} is {bad[0].state}: nothing was altered yet")
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve()
        shutil.copytree(arguments.study / RESULTS, copy / RESULTS)
        counts, missed = campaign(copy, arguments.n, arguments.seed)
    for line in missed:
        print(f"missed: {line}")
    shown = ", ".join(f"{count} {what}" for what, count in sorted(counts.items()))
    print(f"{counts.total()} alterations, {len(missed)} missed: {shown}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
