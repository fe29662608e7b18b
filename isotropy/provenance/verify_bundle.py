"""Check a bundle of results with Python's standard library alone: `python3 verify_bundle.py BUNDLE.zip`.

The audit of a folder (`isotropy audit verify`) uses the same rules. What is checked: each file is the one that the bundle's
list names; each record's outputs are the files that are there; each job read what the job before it wrote; records say what
they said when they were used; the ledger's lines follow on each other and name the records that are there. What is not: that
the one who made the bundle did not write all of it anew. For that, compare the ledger's head, which is printed, with one that
was made public at the time.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import Any

LEDGER = "ledger.jsonl"
RECORD_SUFFIX = ".record.json"
METADATA = "ro-crate-metadata.json"
UNLISTED = {METADATA, "ro-crate-preview.html"}
CHUNK = 1 << 20

IDENTITY_FIELDS = ("rule", "wildcards", "spec", "inputs", "input_records", "outputs", "lineage", "determinism", "seeds")
"""Fields of a record that say what a result is and stands on; not when, where, and by which version of the code it was made."""


def identity(record: dict[str, Any]) -> str:
    """Digest of what a record says a result is. The records of results made from it hold it."""
    parts = {name: record[name] for name in IDENTITY_FIELDS}
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def line_sha256(line: bytes) -> str:
    """Digest of a line of the ledger, without its end."""
    return hashlib.sha256(line).hexdigest()


def record_name(path: str) -> str:
    """Name of the record of the job that wrote a file: beside it, under the file's name up to the first dot."""
    parent, _, name = path.rpartition("/")
    return (parent + "/" if parent else "") + name.split(".")[0] + RECORD_SUFFIX


def producer(path: str, there: Callable[[str], bool]) -> str | None:
    """Name of the record that speaks of a file, or of a folder that holds it; None if there is none."""
    candidate = PurePosixPath(path)
    while candidate.name:
        if there(record_name(candidate.as_posix())):
            return record_name(candidate.as_posix())
        candidate = candidate.parent
    return None


def read_ledger(data: bytes) -> tuple[dict[str, str], list[str], str]:
    """Read and check a ledger.

    Args:
        data: its bytes.

    Returns:
        The digest of each record, by path, as the last line that names it has it; breaks, in words; the digest of the
        last line, the head.
    """
    records: dict[str, str] = {}
    breaks: list[str] = []
    previous: str | None = None
    for n, line in enumerate(data.splitlines()):
        try:
            entry = json.loads(line)
            told, number, event = entry["previous"], entry["n"], entry["event"]
        except (ValueError, KeyError, TypeError):
            breaks.append(f"line {n + 1} is not an entry")
        else:
            if told != previous or number != n:
                breaks.append(f"line {n + 1} does not follow on the one before: lines were changed, added or taken out")
            if event == "job":
                records[entry["record"]] = entry["sha256"]
            elif event == "removed":
                records.pop(entry["record"], None)
        previous = line_sha256(line)
    if data and not data.endswith(b"\n"):
        breaks.append("the last line is cut off")
    return records, breaks, previous or ""


def verify(bundle: str) -> tuple[list[str], str]:
    """Check a bundle. Returns findings in words, none if all is well, and a summary.

    Raises:
        OSError, zipfile.BadZipFile, ValueError: it cannot be read, or is not a bundle.
    """
    with zipfile.ZipFile(bundle) as archive:
        names = [i.filename for i in archive.infolist() if not i.is_dir()]
        if METADATA not in names:
            raise ValueError(f"{bundle} holds no {METADATA}: not a bundle of results")
        digests = {name: _sha256(archive, name) for name in names}
        listed = _listed(json.loads(archive.read(METADATA)))
        records = {n: archive.read(n) for n in names if n.endswith(RECORD_SUFFIX) and n.startswith("results/")}
        ledger = f"results/{LEDGER}"
        ledger_bytes = archive.read(ledger) if ledger in names else None
    findings = [f"{n}: there twice" for n in sorted({n for n in names if names.count(n) > 1})]
    findings += [f"{n}: leaves the folder of the bundle" for n in names if n.startswith("/") or ".." in n.split("/")]
    findings += [f"{n}: not in the bundle's list" for n in names if n not in listed and n not in UNLISTED]
    findings += [f"{n}: missing" for n in listed if n not in digests]
    findings += [f"{n}: altered" for n, sha256 in listed.items() if n in digests and digests[n] != sha256]
    found, n_absent = _chain(records, digests)
    findings += found
    findings += _ledger(ledger_bytes, {n: digests[n] for n in records})
    head = read_ledger(ledger_bytes)[2] if ledger_bytes else "none"
    summary = f"{len(names)} files, {len(records)} records, {n_absent} files named in records but not in the bundle"
    return findings, f"{summary}; head of the ledger: {head}"


def _sha256(archive: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with archive.open(name) as stream:
        while chunk := stream.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _listed(metadata: dict[str, Any]) -> dict[str, str]:
    """Files of the bundle's list, with their digests."""
    kinds = ((e, e["@type"] if isinstance(e["@type"], list) else [e["@type"]]) for e in metadata["@graph"])
    return {e["@id"]: e["sha256"] for e, kind in kinds if "File" in kind and "sha256" in e}


def _chain(records: dict[str, bytes], digests: dict[str, str]) -> tuple[list[str], int]:
    """Hold records against files and against each other. Returns findings, and how many outputs are not in the bundle."""
    findings, absent, read = [], 0, {}
    for name, data in records.items():
        try:
            read[name] = json.loads(data)
            identity(read[name])
        except (ValueError, KeyError, TypeError):
            findings.append(f"{name}: not a record")
            read.pop(name, None)
    for name, record in read.items():
        for output in record["outputs"]:
            if output["path"] not in digests:
                absent += 1
            elif digests[output["path"]] != output["sha256"]:
                findings.append(f"{output['path']}: not what {name} says was written")
        for used in record["inputs"]:
            maker = producer(used["path"], read.__contains__)
            written = {o["path"]: o["sha256"] for o in read[maker]["outputs"]} if maker else {}
            if written.get(used["path"]) != used["sha256"]:
                findings.append(f"{name}: read another {used['path']} than its record says was written")
        for other, expected in record["input_records"].items():
            if other not in read or identity(read[other]) != expected:
                findings.append(f"{name}: {other} does not say what it said when it was used")
    return findings, absent


def _ledger(data: bytes | None, records: dict[str, str]) -> Iterable[str]:
    """Hold the ledger against the records' digests."""
    if data is None:
        return [f"results/{LEDGER}: missing"]
    told, breaks, _ = read_ledger(data)
    findings = [f"results/{LEDGER}: {text}" for text in breaks]
    findings += [f"{n}: not in the ledger" for n in records if n not in told]
    findings += [f"{n}: missing, though the ledger names it" for n in told if n not in records]
    return findings + [f"{n}: not what the ledger says was written" for n in records if told.get(n, records[n]) != records[n]]


def main(arguments: list[str]) -> int:
    """Exit code 0: all is well; 1: findings; 2: it could not be told."""
    if len(arguments) != 1:
        print("usage: python3 verify_bundle.py BUNDLE.zip")
        return 2
    try:
        findings, summary = verify(arguments[0])
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        print(f"{arguments[0]} cannot be checked: {error}")
        return 2
    for finding in findings:
        print(finding)
    print(f"{'INTACT' if not findings else f'{len(findings)} FINDINGS'}: {summary}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
