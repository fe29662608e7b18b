"""The ledger: one line per run and per job, each with the digest of the line before, so that none
can be taken out unseen.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, record_of, sha256_file
from isotropy.locks import lock_file
from isotropy.provenance.format import (
    LEDGER,
    UNREADABLE,
    ledger_bytes,
    line_sha256,
    read_ledger,
    require_entry,
)
from isotropy.scrub import scrub
from isotropy.spec import canonical_json


def append_run(
    results: Path, project: Path, configfiles: Iterable[Path | str], overrides: Mapping[str, Any]
) -> None:
    """Note that a run starts, and what configures it, unless the last run that was noted had the
    same.

    Args:
        results: the results folder of the run.
        project: the checkout.
        configfiles: configuration files in the order in which they are merged.
        overrides: values given on the command line.
    """
    files = [Path(file).resolve() for file in configfiles]
    inside = project.resolve()
    named = [
        f.relative_to(inside).as_posix() if f.is_relative_to(inside) else str(f) for f in files
    ]
    given = [
        {"path": scrub(name), "sha256": sha256_file(file)}
        for name, file in zip(named, files, strict=True)
    ]
    entry = {"event": "run", "configfiles": given, "overrides": scrub(dict(overrides))}
    try:
        last = last_run(results)
    except IsotropyError:
        last = {}
    if any(last.get(name) != value for name, value in entry.items()):
        _append(results, entry)


def append_job(results: Path, record: Path) -> None:
    """Note a record that a job has just written; its path is relative to the folder of the run."""
    _append(results, {"event": "job", "record": record.as_posix(), "sha256": sha256_file(record)})


def forget_missing(root: Path, paths: Iterable[Path]) -> list[str]:
    """Note that records which the ledger names and which are not there were removed on purpose.

    Args:
        root: the folder of the run.
        paths: files and folders, relative to it, to which this applies.

    Returns:
        The names of the records.

    Raises:
        IsotropyError: there is no ledger, or its chain is broken.
    """
    path = root / RESULTS / LEDGER
    if not path.is_file():
        raise IsotropyError(f"{path} is not there")
    recorded, breaks, _ = read_ledger(_bytes(path))
    if breaks:
        raise IsotropyError(f"{path}: {breaks[0]}")
    meant = [(p, record_of(p)) for p in paths]
    missing = [
        n
        for n in recorded
        if not (root / n).exists()
        and any(Path(n).is_relative_to(p) or Path(n) == r for p, r in meant)
    ]
    for name in missing:
        _append(root / RESULTS, {"event": "removed", "record": name})
    return missing


def last_run(results: Path) -> dict[str, Any]:
    """The entry of the last run.

    Raises:
        IsotropyError: the ledger has none.
    """
    path = results / LEDGER
    lines = _bytes(path).splitlines() if path.is_file() else []
    for line in reversed(lines):
        if b'"event":"run"' in line:
            try:
                entry: dict[str, Any] = json.loads(line)
                require_entry(entry)
            except UNREADABLE as error:
                raise IsotropyError(f"{path} is damaged: {error}") from error
            if entry["event"] == "run":
                return entry
    raise IsotropyError(f"{path} names no run")


def _bytes(path: Path) -> bytes:
    try:
        return ledger_bytes(path)
    except ValueError as error:
        raise IsotropyError(f"{path} is damaged: {error}") from error


def _append(results: Path, entry: dict[str, Any]) -> None:
    """Add a line, one process at a time."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / LEDGER).open("a+b") as stream:
        lock_file(stream, wait=True)
        stream.seek(0)
        # A line without its end is of a writer that was killed: the entry was never made.
        whole = stream.read().rpartition(b"\n")
        stream.truncate(len(whole[0]) + len(whole[1]))
        lines = whole[0].splitlines()
        head = {
            "n": len(lines),
            "previous": line_sha256(lines[-1]) if lines else None,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        stream.write((canonical_json(head | entry) + "\n").encode())
        stream.flush()
        os.fsync(stream.fileno())
