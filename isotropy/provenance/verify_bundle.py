"""Check a bundle of results with Python's standard library alone: `python3 verify_bundle.py
BUNDLE.zip`.

What is checked: every file is in the bundle's list, with its digest; every result is one that a
record speaks of, and is what that record says was written; what a record speaks of is there, but
for sources, prepared data and embeddings, which may be left out; each job read what the job before
it wrote; the code is that which the records name; records say what they said when they were used;
the ledger's lines follow on each other and name the records that are there. What is not: the words
of the list (description, licence, authors), and that the one who made the bundle did not write all
of it anew. For that, compare the ledger's head, which is printed, with one that was made public at
the time.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

LEDGER = "ledger.jsonl"
RECORD_SUFFIX = ".record.json"
METADATA = "ro-crate-metadata.json"
DATA = ("fetch", "prepare", "embed")
"""Stages whose outputs hold other people's texts and models, or are made of them row by row: a
bundle may leave them out."""
CHUNK = 1 << 20
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)
"""What a text that is no JSON, or a JSON of another shape, raises."""
NO_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)
"""What a damaged, encrypted or unknown zip raises."""

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
"""Fields of a record that say what a result is and stands on; not when, where, and by which version
of the code it was made."""


def identity(record: dict[str, Any]) -> str:
    """Digest of what a record says a result is. The records of results made from it hold it."""
    parts = {name: record[name] for name in IDENTITY_FIELDS}
    text = json.dumps(
        parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def line_sha256(line: bytes) -> str:
    """Digest of a line of the ledger, without its end."""
    return hashlib.sha256(line).hexdigest()


def record_name(path: str) -> str:
    """Name of the record of the job that wrote a file: beside it, under the file's name up to the
    first dot.
    """
    parent, _, name = path.rpartition("/")
    return (parent + "/" if parent else "") + name.split(".")[0] + RECORD_SUFFIX


def producer(path: str, there: Callable[[str], bool]) -> str | None:
    """Name of the record that speaks of a file, or of a folder that holds it; None if there is
    none.
    """
    candidate = PurePosixPath(path)
    while candidate.name:
        if there(record_name(candidate.as_posix())):
            return record_name(candidate.as_posix())
        candidate = candidate.parent
    return None


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
            if entry["event"] == "job":
                records[str(entry["record"])] = str(entry["sha256"])
            elif entry["event"] == "removed":
                records.pop(entry["record"], None)
        except UNREADABLE:
            breaks.append(f"line {n + 1} is not an entry")
        lines.append(line_sha256(line))
    if data and not data.endswith(b"\n"):
        breaks.append("the last line is cut off")
    return records, breaks, lines


def verify(bundle: str, head: str | None = None) -> tuple[list[str], str]:
    """Check a bundle. Returns findings in words, none if all is well, and a summary.

    Args:
        bundle: path of the zip.
        head: a head of the ledger that was made public earlier; it must be one of its lines.

    Raises:
        OSError, zipfile.BadZipFile, ValueError: it cannot be read, or is not a bundle.
    """
    with zipfile.ZipFile(bundle) as archive:
        names = [i.filename for i in archive.infolist() if not i.is_dir()]
        if METADATA not in names:
            raise ValueError(f"{bundle} holds no {METADATA}: not a bundle of results")
        digests = {name: _sha256(archive, name) for name in names}
        listed = _listed(json.loads(archive.read(METADATA)))
        records = {
            n: archive.read(n)
            for n in names
            if n.endswith(RECORD_SUFFIX) and n.startswith("results/")
        }
        ledger = f"results/{LEDGER}"
        ledger_bytes = archive.read(ledger) if ledger in names else None
    findings = _names(names)
    findings += [
        f"{n}: not in the bundle's list" for n in names if n not in listed and n != METADATA
    ]
    findings += [f"{n}: missing" for n in listed if n not in digests]
    findings += [
        f"{n}: altered" for n, sha256 in listed.items() if n in digests and digests[n] != sha256
    ]
    found, n_absent = _chain(records, digests)
    findings += found
    findings += _ledger(ledger_bytes, {n: digests[n] for n in records})
    lines = read_ledger(ledger_bytes)[2] if ledger_bytes else []
    if head is not None and head not in lines:
        findings.append(
            f"results/{LEDGER}: {head} is none of its lines: it is not the ledger that was made "
            "public"
        )
    summary = f"{len(names)} files, {len(records)} records, {n_absent} files named in records but not in the bundle"
    return findings, f"{summary}; head of the ledger: {lines[-1] if lines else 'none'}"


def _names(names: list[str]) -> list[str]:
    """Names that would not come out as files of their own, below the folder in which the bundle is
    unpacked.
    """
    findings = [f"{n}: there twice" for n in sorted({n for n in names if names.count(n) > 1})]
    lower = [n.lower() for n in names]
    findings += [
        f"{n}: there twice but for case" for n in names if lower.count(n.lower()) > names.count(n)
    ]
    strange = [
        n
        for n in names
        if n.startswith("/") or ".." in n.split("/") or "\\" in n or ":" in n or "\0" in n
    ]
    return findings + [f"{n!r}: not a plain name below the folder of the bundle" for n in strange]


def _sha256(archive: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with archive.open(name) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


class Told(NamedTuple):
    """What a record says, as far as it is checked: files and records with their digests."""

    written: dict[str, str]
    used: dict[str, str]
    records: dict[str, str]
    code: dict[str, str]
    temporary: list[str]
    identity: str


def _listed(metadata: dict[str, Any]) -> dict[str, str]:
    """Files of the bundle's list, with their digests."""
    kinds = (
        (e, e["@type"] if isinstance(e["@type"], list) else [e["@type"]])
        for e in metadata["@graph"]
    )
    return {
        str(e["@id"]): str(e["sha256"]) for e, kind in kinds if "File" in kind and "sha256" in e
    }


def _chain(records: dict[str, bytes], digests: dict[str, str]) -> tuple[list[str], int]:
    """Hold records against files and against each other. Returns findings, and how many outputs are
    not in the bundle.
    """
    findings, n_absent, spoken_of = [], 0, set(records)
    read: dict[str, Told] = {}
    for name, data in records.items():
        try:
            record = json.loads(data)
            read[name] = Told(
                {str(o["path"]): str(o["sha256"]) for o in record["outputs"]},
                {str(i["path"]): str(i["sha256"]) for i in record["inputs"]},
                {str(k): str(v) for k, v in record["input_records"].items()},
                {str(k): str(v) for k, v in record["code"]["files"].items()},
                [str(t) for t in record["temporary"]],
                identity(record),
            )
        except UNREADABLE:
            findings.append(f"{name}: not a record")
    for name, told in read.items():
        spoken_of |= set(told.written)
        may_lack = name.split("/")[1] in DATA
        for path, sha256 in told.written.items():
            if path in digests:
                if digests[path] != sha256:
                    findings.append(f"{path}: not what {name} says was written")
            elif may_lack or any(path == t or path.startswith(t + "/") for t in told.temporary):
                n_absent += 1
            else:
                findings.append(f"{path}: missing, though {name} speaks of it")
        for path, sha256 in told.used.items():
            writer = producer(path, read.__contains__)
            if (read[writer].written if writer else {}).get(path) != sha256:
                findings.append(f"{name}: read another {path} than its record says was written")
        for other, expected in told.records.items():
            if other not in read or read[other].identity != expected:
                findings.append(f"{name}: {other} does not say what it said when it was used")
        for path, sha256 in told.code.items():
            if digests.get(path) != sha256:
                findings.append(f"{path}: not the code that {name} names")
    results = (
        n
        for n in digests
        if n.startswith("results/") and n not in spoken_of and n != f"results/{LEDGER}"
    )
    findings += [f"{n}: no record speaks of it" for n in results]
    return list(dict.fromkeys(findings)), n_absent


def _ledger(data: bytes | None, records: dict[str, str]) -> Iterable[str]:
    """Hold the ledger against the records' digests."""
    if data is None:
        return [f"results/{LEDGER}: missing"]
    told, breaks, _ = read_ledger(data)
    findings = [f"results/{LEDGER}: {text}" for text in breaks]
    findings += [f"{n}: not in the ledger" for n in records if n not in told]
    findings += [f"{n}: missing, though the ledger names it" for n in told if n not in records]
    return findings + [
        f"{n}: not what the ledger says was written"
        for n in records
        if told.get(n, records[n]) != records[n]
    ]


def main(arguments: list[str]) -> int:
    """Exit code 0: all is well; 1: findings; 2: it could not be told."""
    if len(arguments) not in (1, 2):
        print("usage: python3 verify_bundle.py BUNDLE.zip [HEAD OF THE LEDGER]")
        return 2
    try:
        findings, summary = verify(*arguments)
    except (OSError, *UNREADABLE, *NO_ZIP) as error:
        print(f"{arguments[0]} cannot be checked: {type(error).__name__}: {error}")
        return 2
    for finding in findings:
        print(finding)
    print(f"{'INTACT' if not findings else f'{len(findings)} FINDINGS'}: {summary}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
