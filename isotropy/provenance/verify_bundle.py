"""Check a bundle of results with Python's standard library alone: `python3
isotropy/provenance/verify_bundle.py BUNDLE.zip`, in the folder in which the bundle is unpacked.

What is checked: every file is in the bundle's list, with its digest; every result is one that a
record lists, and is what that record says was written; what a record lists is there, but for
sources, prepared data and embeddings, which may be left out; each job read what the job before it
wrote; the code is that which the records name, but for comments, docstrings and layout, and for
infrastructure, which does not change results; records say what they said when they were used; the
ledger's lines follow on each other and name the records that are there. What is not: the words of
the list (description, licence, authors), and that the one who made the bundle did not write all of
it anew. For that, compare the ledger's head, which is printed, with one that was made public at the
time.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import sys
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

if not __package__:  # run as a file, in a place without the project: what it needs is beside it
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))

from isotropy.printable import escape_for_terminal
from isotropy.provenance.format import (
    LEDGER,
    MAX_RECORD_BYTES,
    RECORD_SUFFIX,
    UNREADABLE,
    identity,
    other_format,
    producer,
    read_ledger,
)
from isotropy.provenance.syntax import file_digest, rule_digest, rule_text

METADATA = "ro-crate-metadata.json"
DATA = ("fetch", "prepare", "embed")
"""Stages whose outputs hold other people's texts and models, or are made of them row by row: a
bundle may leave them out."""
CHUNK = 1 << 20
MAX_READ_BYTES = 1 << 30
"""Of records and code together."""
NO_ZIP = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError),
)
"""What a damaged, encrypted or unknown zip raises."""


class Contents(NamedTuple):
    """What a bundle holds, as far as it is checked."""

    names: list[str]
    digests: dict[str, str]
    """File -> SHA-256."""
    records: dict[str, bytes]
    code: dict[str, bytes]
    """Rules, scripts and modules."""
    listed: dict[str, str]
    """File -> SHA-256, as the bundle's list has it."""
    ledger: bytes | None


class Recorded(NamedTuple):
    """What a record says, as far as it is checked: files and records with their digests."""

    outputs: dict[str, str]
    inputs: dict[str, str]
    records: dict[str, str]
    code: dict[str, str]
    infrastructure: dict[str, str]
    rule: tuple[str, str]
    """Its name, and the digest of its text."""
    temporary: list[str]
    identity: str


def verify(bundle: str, head: str | None = None) -> tuple[list[str], str]:
    """Check a bundle. Returns findings in words, none if all is well, and a summary.

    Args:
        bundle: path of the zip.
        head: a head of the ledger that was made public earlier; it must be one of its lines.

    Raises:
        OSError, zipfile.BadZipFile, ValueError: it cannot be read, or is not a bundle.
    """
    contents = _read(bundle)
    digests, ledger = contents.digests, contents.ledger
    records, findings = _records(contents.records)
    findings = [*_names(contents.names), *_list(contents), *findings]
    findings += [f for name, record in records.items() for f in _links(name, record, records)]
    found, n_absent = _outputs(records, digests)
    listed = {path for record in records.values() for path in record.outputs}
    findings += found + _code(records, contents.code)
    findings += [
        f"{n}: no record lists it"
        for n in digests
        if n.startswith("results/")
        and n not in listed | contents.records.keys() | {f"results/{LEDGER}"}
    ]
    findings += _ledger(ledger, {n: digests[n] for n in contents.records})
    lines = read_ledger(ledger)[2] if ledger else []
    if head is not None and head not in lines:
        findings.append(
            f"results/{LEDGER}: {head} is none of its lines: it is not the ledger that was made "
            "public"
        )
    changed = {
        path
        for record in records.values()
        for path, sha256 in record.infrastructure.items()
        if digests.get(path) != sha256
    }
    summary = (
        f"{len(contents.names)} files, {len(contents.records)} records, "
        f"{n_absent} files named in records but not in the bundle; "
        + (f"infrastructure changed since: {', '.join(sorted(changed))}; " if changed else "")
        + f"head of the ledger: {lines[-1] if lines else 'none'}"
    )
    return list(dict.fromkeys(findings)), summary


def _read(bundle: str) -> Contents:
    """Digest all that a bundle holds, and keep what is looked into."""
    if not os.path.isfile(bundle):
        raise ValueError(
            f"expected a zip, got {'no plain file' if os.path.exists(bundle) else 'nothing'}"
        )
    with zipfile.ZipFile(bundle) as archive:
        sizes = {i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}
        names = [i.filename for i in archive.infolist() if not i.is_dir()]
        if METADATA not in names:
            raise ValueError(f"{bundle} holds no {METADATA}: not a bundle of results")
        require_sizes({name: size for name, size in sizes.items() if _is_read_whole(name)})
        ledger = f"results/{LEDGER}"
        of_results = [n for n in names if n.startswith("results/")]
        return Contents(
            names=names,
            digests={name: _sha256(archive, name) for name in names},
            records={n: archive.read(n) for n in of_results if n.endswith(RECORD_SUFFIX)},
            code={n: archive.read(n) for n in names if _is_code(n)},
            listed=_listed(json.loads(archive.read(METADATA))),
            ledger=archive.read(ledger) if ledger in names else None,
        )


def require_sizes(sizes: Mapping[str, int]) -> None:
    """Raise a ValueError where members that are to be read are larger than such files are, one of
    them or all together.
    """
    for name, size in sizes.items():
        if size > MAX_RECORD_BYTES:
            most = f"a file of its kind has {MAX_RECORD_BYTES:,} at most"
            raise ValueError(f"{name} has {size:,} bytes, {most}")
    if sum(sizes.values()) > MAX_READ_BYTES:
        raise ValueError(
            f"records and code have {sum(sizes.values()):,} bytes, those of a study have "
            f"{MAX_READ_BYTES:,} at most"
        )


def _is_code(name: str) -> bool:
    return not name.startswith("results/")


def _is_read_whole(name: str) -> bool:
    return _is_code(name) or name.endswith(RECORD_SUFFIX) or name == f"results/{LEDGER}"


def _names(names: list[str]) -> list[str]:
    """Names that would not come out as files of their own, below the folder in which the bundle is
    unpacked.
    """
    findings = [f"{n}: duplicate" for n in sorted({n for n in names if names.count(n) > 1})]
    lower = [n.lower() for n in names]
    findings += [
        f"{n}: duplicate but for case" for n in names if lower.count(n.lower()) > names.count(n)
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


def _listed(metadata: dict[str, Any]) -> dict[str, str]:
    """Files of the bundle's list, with their digests."""
    kinds = (
        (e, e["@type"] if isinstance(e["@type"], list) else [e["@type"]])
        for e in metadata["@graph"]
    )
    return {
        str(e["@id"]): str(e["sha256"]) for e, kind in kinds if "File" in kind and "sha256" in e
    }


def _list(contents: Contents) -> list[str]:
    """Hold the bundle's list against its files."""
    listed, digests = contents.listed, contents.digests
    return [
        *(
            f"{n}: not in the bundle's list"
            for n in contents.names
            if n not in listed and n != METADATA
        ),
        *(f"{n}: missing" for n in listed if n not in digests),
        *(f"{n}: altered" for n, sha256 in listed.items() if digests.get(n, sha256) != sha256),
    ]


def _records(records: Mapping[str, bytes]) -> tuple[dict[str, Recorded], list[str]]:
    """Read the records. Returns those that can be read, and findings on the others."""
    read: dict[str, Recorded] = {}
    findings = []
    for name, data in records.items():
        try:
            record = json.loads(data)
            if other := other_format(record):
                findings.append(f"{name}: {other}")
                continue
            read[name] = Recorded(
                {str(o["path"]): str(o["sha256"]) for o in record["outputs"]},
                {str(i["path"]): str(i["sha256"]) for i in record["inputs"]},
                {str(k): str(v) for k, v in record["input_records"].items()},
                {str(k): str(v) for k, v in record["code"]["files"].items()},
                {str(k): str(v) for k, v in record["code"]["infrastructure"].items()},
                (str(record["rule"]), str(record["code"]["rule"])),
                [str(t) for t in record["temporary"]],
                identity(record),
            )
        except UNREADABLE:
            findings.append(f"{name}: not a record")
    return read, findings


def _outputs(records: Mapping[str, Recorded], digests: Mapping[str, str]) -> tuple[list[str], int]:
    """Hold files against the records that list them. Returns findings, and how many of the files
    are not in the bundle and need not be.
    """
    findings, n_absent = [], 0
    for name, record in records.items():
        may_lack = name.split("/")[1] in DATA
        for path, sha256 in record.outputs.items():
            if path in digests:
                if digests[path] != sha256:
                    findings.append(f"{path}: not what {name} says was written")
            elif may_lack or any(path == t or path.startswith(t + "/") for t in record.temporary):
                n_absent += 1
            else:
                findings.append(f"{path}: missing, though {name} lists it")
    return findings, n_absent


def _links(name: str, record: Recorded, records: Mapping[str, Recorded]) -> Iterable[str]:
    """Hold a record against those of its inputs."""
    for path, sha256 in record.inputs.items():
        writer = producer(path, records.__contains__)
        if (records[writer].outputs if writer else {}).get(path) != sha256:
            yield f"{name}: read another {path} than its record says was written"
    for other, expected in record.records.items():
        if other not in records or records[other].identity != expected:
            yield f"{name}: {other} does not say what it said when it was used"


def _code(records: Mapping[str, Recorded], code: Mapping[str, bytes]) -> list[str]:
    """Hold the code against the records that name it, each file once."""
    found: dict[str, str | None] = {}
    rules: dict[str, str | None] = {}
    texts = [d.decode("utf8", "replace") for n, d in sorted(code.items()) if n.endswith(".smk")]
    findings = []
    for name, record in records.items():
        for part, expected in record.code.items():
            if part not in found:
                data = code.get(part)
                found[part] = None if data is None else file_digest(part, data)
            if found[part] != expected:
                findings.append(f"{part}: not the code that {name} names")
        rule, expected = record.rule
        if rule not in rules:
            text = next(filter(None, (rule_text(t, rule) for t in texts)), None)
            rules[rule] = None if text is None else rule_digest(text)
        if rules[rule] != expected:
            findings.append(f"rule {rule}: not the code that {name} names")
    return findings


def _ledger(data: bytes | None, records: dict[str, str]) -> Iterable[str]:
    """Hold the ledger against the records' digests."""
    if data is None:
        return [f"results/{LEDGER}: missing"]
    recorded, breaks, _ = read_ledger(data)
    findings = [f"results/{LEDGER}: {text}" for text in breaks]
    findings += [f"{n}: not in the ledger" for n in records if n not in recorded]
    findings += [f"{n}: missing, though the ledger names it" for n in recorded if n not in records]
    return findings + [
        f"{n}: not what the ledger says was written"
        for n in records
        if recorded.get(n, records[n]) != records[n]
    ]


def main(arguments: list[str]) -> int:
    """Exit code 0: all is well; 1: findings; 2: inconclusive."""
    if len(arguments) not in (1, 2):
        print("usage: python3 verify_bundle.py BUNDLE.zip [HEAD OF THE LEDGER]")
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 (others check bundles, too)
        print(f"expected Python 3.11 or later, got {sys.version.split()[0]}")
        return 2
    try:
        findings, summary = verify(*arguments)
    except (OSError, *UNREADABLE, *NO_ZIP) as error:
        said = f"{arguments[0]} cannot be checked: {type(error).__name__}: {error}"
        print(escape_for_terminal(said))
        return 2
    for finding in findings:
        print(escape_for_terminal(finding))
    print(
        escape_for_terminal(f"{f'{len(findings)} FINDINGS' if findings else 'INTACT'}: {summary}")
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
