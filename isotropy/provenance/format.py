"""The format of records and of the ledger: what names them, and what their digests are taken from.

Plain Python, without the rest of the project: the checker of bundles uses it, too.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, Final

FORMAT: Final = 4
"""Version of the layout of records."""
LEDGER = "ledger.jsonl"
RECORD_SUFFIX = ".record.json"
MAX_RECORD_BYTES = 64 << 20
"""Of a record, and of the list of a bundle: the largest of a whole study is 2 MB."""
MAX_LEDGER_BYTES = 256 << 20
"""Of a ledger: a million lines."""
MAX_PATH, MAX_NAME = 1000, 255
"""Characters of a path, and bytes of each name in it, as file systems have them."""
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a text that is no JSON, or a JSON of another shape, raises."""

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
"""Fields of a record that say what a result is and is made from; not when, where, and by which
version of the code it was made."""


def identity(record: dict[str, Any]) -> str:
    """Digest of what a record says a result is. The records of results made from it hold it."""
    parts = {name: record[name] for name in IDENTITY_FIELDS}
    text = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def other_format(record: Any) -> str | None:
    """What to say of a record that has another format; None: it has this one, or is no record."""
    found = record.get("format") if isinstance(record, dict) else FORMAT
    if type(found) is not int or found == FORMAT:
        return None
    advice = (
        "by a former layout of the project: run the workflow again"
        if found < FORMAT
        else "by a later version of the project: use that"
    )
    return f"expected a record of format {FORMAT}, got {found}, made {advice}"


def name_problem(path: str) -> str | None:
    """What is wrong with a relative path; None: file systems take it, and it leads down."""
    parts = path.split("/")
    if "\\" in path or "\0" in path or {"", ".", ".."} & set(parts):
        return f"expected a relative path without .., got {path[:MAX_PATH]!r}"
    if len(path) > MAX_PATH or max(len(os.fsencode(part)) for part in parts) > MAX_NAME:
        return f"expected names that a file system takes, got {path[:60]!r}… ({len(path)} long)"
    return None


def path_problem(path: str) -> str | None:
    """What is wrong with a path as a record or ledger names it; None: it is one below results/."""
    if path.split("/")[0] != "results":
        return f"expected a path below results/, got {path[:MAX_PATH]!r}"
    return name_problem(path)


def line_sha256(line: bytes) -> str:
    """Digest of a line of the ledger, without its end."""
    return hashlib.sha256(line).hexdigest()


def record_name(path: str) -> str:
    """Name of the record of the job that wrote a file: beside it, under the file's name up to the
    first dot.
    """
    parent, _, name = path.rpartition("/")
    return (parent + "/" if parent else "") + name.split(".")[0] + RECORD_SUFFIX


def producer(path: str, exists: Callable[[str], bool]) -> str | None:
    """Name of the record that may list a file, or a folder that holds it; None if there is none."""
    candidate = PurePosixPath(path)
    while candidate.name:
        if exists(record_name(candidate.as_posix())):
            return record_name(candidate.as_posix())
        candidate = candidate.parent
    return None


def is_sha256(value: Any) -> bool:
    """Whether a value is a digest as records and ledgers have it."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def require_entry(entry: Any) -> None:
    """Raise a ValueError if a line of the ledger is none of its three kinds of entry: a run, a job,
    a record that was removed.
    """
    kinds: dict[str, Callable[[], bool]] = {
        "run": lambda: (
            isinstance(entry["overrides"], dict)
            and all(
                isinstance(f["path"], str) and "\0" not in f["path"] and is_sha256(f["sha256"])
                for f in entry["configfiles"]
            )
        ),
        "job": lambda: path_problem(entry["record"]) is None and is_sha256(entry["sha256"]),
        "removed": lambda: path_problem(entry["record"]) is None,
    }
    try:
        sound = isinstance(entry["time"], str) and kinds[entry["event"]]()
    except UNREADABLE:
        sound = False
    if not sound:
        raise ValueError("expected an entry of a run, a job or a removed record")


def ledger_bytes(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a ledger.

    Raises:
        ValueError: more than a ledger has.
        OSError: it cannot be read.
    """
    if (size := os.path.getsize(path)) > MAX_LEDGER_BYTES:
        raise ValueError(f"it has {size:,} bytes, a ledger has {MAX_LEDGER_BYTES:,} at most")
    with open(path, "rb") as stream:
        return stream.read()


def read_ledger(data: bytes) -> tuple[dict[str, str], list[str], list[str]]:
    """Read and check a ledger.

    Args:
        data: its bytes.

    Returns:
        The digest of each record, by path, as the last line that names it has it; breaks, in words;
        the digest of each line, the last of which is the head.
    """
    records: dict[str, str] = {}
    breaks: list[str] = []
    lines: list[str] = []
    for n, line in enumerate(data.removesuffix(b"\n").split(b"\n") if data else []):
        try:
            entry = json.loads(line)
            if entry["previous"] != (lines[-1] if lines else None) or entry["n"] != n:
                breaks.append(
                    f"line {n + 1} does not follow on the one before: lines were changed, added "
                    "or taken out"
                )
            require_entry(entry)
            if entry["event"] == "job":
                records[entry["record"]] = entry["sha256"]
            elif entry["event"] == "removed":
                records.pop(entry["record"], None)
        except UNREADABLE:
            breaks.append(f"line {n + 1} is not an entry")
        lines.append(line_sha256(line))
    if data and not data.endswith(b"\n"):
        breaks.append("the last line is cut off")
    return records, breaks, lines
