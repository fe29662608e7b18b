"""The format of records and of the ledger: names, digests and validation."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from isotropy.files import record_path

FORMAT: Final = 4
"""Version of the format of records."""
LEDGER = "ledger.jsonl"
METADATA = "ro-crate-metadata.json"
"""File of a bundle that lists its files with their digests."""
CONFIGURATION = "configuration.json"
"""File of a bundle with the merged configuration of the run."""
DATA = ("fetch", "prepare", "embed")
"""Folders of results that a bundle leaves out unless they are asked for."""
MAX_RECORD_BYTES = 64 << 20
"""Maximum size of a record, and of the metadata of a bundle. A full study needs 2 MB."""
MAX_LEDGER_BYTES = 256 << 20
"""Maximum size of a ledger, enough for a million lines."""
MAX_PATH, MAX_NAME = 1000, 255
"""Maximum characters of a path, and bytes of each name in it, as common file systems allow."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""Exceptions that reading raises for text that is not JSON, or JSON of another shape."""

IDENTITY_FIELDS = (
    "rule",
    "wildcards",
    "spec",
    "inputs",
    "input_records",
    "outputs",
    "lineage",
    "determinism",
    "seeds",
)
"""Fields of a record that define what a result is and what it was made from; not when, where, or by
which version of the code."""


def identity(record: dict[str, Any]) -> str:
    """Digest the identity fields of a record; records of results made from it contain it."""
    fields = {name: record[name] for name in IDENTITY_FIELDS}
    text = json.dumps(
        fields, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def other_format(record: Any) -> str | None:
    """Return an error message for a record with another format; None for this one or no record."""
    version = record.get("format") if isinstance(record, dict) else FORMAT
    if type(version) is not int or version == FORMAT:
        return None
    advice = (
        "by an earlier version of the project: run the workflow again"
        if version < FORMAT
        else "by a later version of the project: use that version"
    )
    return f"expected a record of format {FORMAT}, got {version}, made {advice}"


def name_problem(path: str) -> str | None:
    """Describe what is wrong with a relative path; None if it is valid and leads downwards."""
    parts = path.split("/")
    if "\\" in path or "\0" in path or {"", ".", ".."} & set(parts):
        return f"expected a relative path without .., got {path[:MAX_PATH]!r}"
    if len(path) > MAX_PATH or max(len(os.fsencode(part)) for part in parts) > MAX_NAME:
        return f"expected names that a file system allows, got {path[:60]!r}… ({len(path)} long)"
    return None


def path_problem(path: str) -> str | None:
    """Describe what is wrong with a path in a record or ledger; None if it is below results/."""
    if path.split("/")[0] != "results":
        return f"expected a path below results/, got {path[:MAX_PATH]!r}"
    return name_problem(path)


def line_sha256(line: bytes) -> str:
    """Digest a line of the ledger, without its line end."""
    return hashlib.sha256(line).hexdigest()


def producer(path: str, exists: Callable[[str], bool]) -> str | None:
    """Return the path of the existing record for a file, or for a folder above it; None if there is
    none.
    """
    named = [candidate for candidate in (Path(path), *Path(path).parents) if candidate.name]
    records = (record_path(candidate).as_posix() for candidate in named)
    return next(filter(exists, records), None)


def is_sha256(value: Any) -> bool:
    """Return whether a value is a SHA-256 digest of 64 hex digits."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def require_entry(entry: Any) -> None:
    """Raise a ValueError unless a line of the ledger is an entry of a run or of a job."""
    kinds: dict[str, Callable[[], bool]] = {
        "run": lambda: (
            isinstance(entry["overrides"], dict)
            and all(
                isinstance(f["path"], str) and "\0" not in f["path"] and is_sha256(f["sha256"])
                for f in entry["configfiles"]
            )
        ),
        "job": lambda: path_problem(entry["record"]) is None and is_sha256(entry["sha256"]),
    }
    try:
        is_valid = isinstance(entry["time"], str) and kinds[entry["event"]]()
    except UNREADABLE:
        is_valid = False
    if not is_valid:
        raise ValueError("expected an entry of a run or a job")


def ledger_bytes(path: str | os.PathLike[str]) -> bytes:
    """Read the bytes of a ledger.

    Raises:
        ValueError: the file is larger than MAX_LEDGER_BYTES.
        OSError: it cannot be read.
    """
    if (size := os.path.getsize(path)) > MAX_LEDGER_BYTES:
        raise ValueError(f"it has {size:,} bytes, a ledger has {MAX_LEDGER_BYTES:,} at most")
    with open(path, "rb") as stream:
        return stream.read()


def read_ledger(data: bytes) -> tuple[dict[str, dict[str, Any]], list[str], list[str]]:
    """Read and check a ledger.

    Args:
        data: bytes of the ledger.

    Returns:
        The last entry of each record, by its path; descriptions of breaks in the chain; and the
        digest of each line, the last of which is the head.
    """
    records: dict[str, dict[str, Any]] = {}
    breaks: list[str] = []
    lines: list[str] = []
    for n, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else []):
        try:
            entry = json.loads(line)
            if entry["previous"] != (lines[-1] if lines else None) or entry["n"] != n:
                breaks.append(
                    f"line {n + 1} does not continue the line before: lines were changed, added "
                    "or removed"
                )
            require_entry(entry)
            if entry["event"] == "job":
                records[entry["record"]] = entry
        except UNREADABLE:
            breaks.append(f"line {n + 1} is not an entry")
        lines.append(line_sha256(line))
    if data and not data.endswith(b"\n"):
        breaks.append("the last line is cut off")
    return records, breaks, lines
