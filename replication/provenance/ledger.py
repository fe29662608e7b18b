"""The ledger: one line per run and per job, each with the digest of the line before, so that the
removal of a line is detected.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from isotropy.scrub import scrub
from replication.provenance.format import (
    LEDGER,
    UNREADABLE,
    ledger_bytes,
    line_sha256,
    require_entry,
)
from replication.resources import lock_file
from replication.spec import canonical_json, digest


def append_run(
    results: Path,
    project: Path,
    configfiles: Iterable[Path | str],
    overrides: Mapping[str, Any],
    merged: Mapping[str, Any] | None = None,
) -> None:
    """Add an entry for the start of a run with its configuration, unless the last entry of a run
    has the same configuration.

    Args:
        results: the results folder of the run.
        project: the checkout.
        configfiles: configuration files in the order in which they are merged.
        overrides: configuration values from the command line.
        merged: all values together, of which the entry has the digest.
    """
    digested = []
    for file in (Path(configfile).resolve() for configfile in configfiles):
        inside = file.is_relative_to(project.resolve())
        name = file.relative_to(project.resolve()).as_posix() if inside else str(file)
        digested.append({"path": scrub(name), "sha256": sha256_file(file)})
    entry = {"event": "run", "configfiles": digested, "overrides": scrub(dict(overrides))}
    if merged is not None:
        entry["configuration"] = digest(scrub(dict(merged)))
    try:
        last = last_run(results)
    except IsotropyError:
        last = {}
    if any(last.get(name) != value for name, value in entry.items()):
        _append(results, entry)


def append_job(results: Path, record: Path, summary: Mapping[str, Any] | None = None) -> None:
    """Add an entry for a new record of a job, by its path relative to the folder of the run, with a
    summary of it (`replication.provenance.record.Record.summary`).
    """
    entry = {"event": "job", "record": record.as_posix(), "sha256": sha256_file(record)}
    _append(results, entry | dict(summary or {}))


def last_jobs(results: Path) -> dict[str, dict[str, Any]]:
    """Read the last entry of each job, by the path of its record. The chain is not checked.

    Raises:
        IsotropyError: the ledger is damaged.
    """
    path = results / LEDGER
    entries: dict[str, dict[str, Any]] = {}
    data = _read_bytes(path) if path.is_file() else b""
    for line in data.splitlines()[: data.count(b"\n")]:  # the last may be only half written
        try:
            if b'"job"' in line and (entry := json.loads(line))["event"] == "job":
                entries[entry["record"]] = entry
        except UNREADABLE as error:
            raise IsotropyError(f"{path} is damaged: {error}") from error
    return entries


def last_run(results: Path) -> dict[str, Any]:
    """Read the entry of the last run.

    Raises:
        IsotropyError: the ledger has no entry of a run, or is damaged.
    """
    path = results / LEDGER
    lines = _read_bytes(path).splitlines() if path.is_file() else []
    for line in reversed(lines):
        if b'"event":"run"' in line:
            try:
                entry: dict[str, Any] = json.loads(line)
                require_entry(entry)
            except UNREADABLE as error:
                raise IsotropyError(f"{path} is damaged: {error}") from error
            if entry["event"] == "run":
                return entry
    raise IsotropyError(f"{path} lists no run")


def _read_bytes(path: Path) -> bytes:
    try:
        return ledger_bytes(path)
    except ValueError as error:
        raise IsotropyError(f"{path} is damaged: {error}") from error


def _append(results: Path, entry: dict[str, Any]) -> None:
    """Add an entry as a line, under a lock."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / LEDGER).open("a+b") as stream:
        lock_file(stream, wait=True)
        stream.seek(0)
        # A line without an end was left by a process killed while writing: discard it
        complete_lines = stream.read().rpartition(b"\n")
        stream.truncate(len(complete_lines[0]) + len(complete_lines[1]))
        lines = complete_lines[0].splitlines()
        link = {
            "n": len(lines),
            "previous": line_sha256(lines[-1]) if lines else None,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        stream.write((canonical_json(link | entry) + "\n").encode())
        stream.flush()
        os.fsync(stream.fileno())
