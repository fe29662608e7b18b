"""Check a bundle of results with Python's standard library alone: `python3
replication/provenance/verify_bundle.py BUNDLE.zip`, in the folder in which the bundle is unpacked.

The following is checked:

- Every file is in the bundle's list of files (the RO-Crate metadata), with its digest.
- Every result is listed in a record, with its digest; everything that a record lists exists, except
  for sources, prepared data and embeddings, which may be left out.
- Each job read what the jobs of its inputs wrote.
- The code is that named in the records, apart from comments, docstrings and layout, and from
  infrastructure, which does not change results.
- Records have not changed since they were used.
- The lines of the ledger form a chain, and list the existing records.

Not checked are the texts of the metadata (description, licence, authors), and whether the author of
the bundle forged all of it. To rule that out, compare the head of the ledger, which is printed,
with one that was published earlier.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, cast
from urllib.parse import unquote

if not __package__:  # run as a script without an installed project: import from the folder above
    sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..")))

from isotropy.files import RECORD_SUFFIX
from isotropy.printable import escape_for_terminal
from replication.provenance.format import (
    LEDGER,
    MAX_RECORD_BYTES,
    UNREADABLE,
    identity,
    other_format,
    producer,
    read_ledger,
)
from replication.provenance.syntax import file_digest, rule_digest, rule_text

METADATA = "ro-crate-metadata.json"
DATA = ("fetch", "prepare", "embed")
"""Stages whose outputs contain texts and models of third parties, or data derived from them row by
row: a bundle may leave them out."""
MAX_READ_BYTES = 1 << 30
"""Maximum size of records and code together."""
ZIP_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError),
    *(NotImplementedError, RuntimeError),
)
"""Exceptions raised for a damaged, encrypted or unsupported zip."""


class Contents(NamedTuple):
    """Contents of a bundle, as far as they are checked."""

    names: list[str]
    digests: dict[str, str]
    """Name of a file -> SHA-256 of its bytes."""
    records: dict[str, bytes]
    code: dict[str, bytes]
    """Name of a file outside the results, such as a rule, script or module -> bytes."""
    listed: dict[str, str]
    """Name of a file -> SHA-256 in the bundle's list of files."""
    ledger: bytes | None


class Recorded(NamedTuple):
    """Content of a record, as far as it is checked: files and records with their digests."""

    outputs: dict[str, str]
    inputs: dict[str, str]
    records: dict[str, str]
    code: dict[str, str]
    infrastructure: dict[str, str]
    rule: tuple[str, str]
    """Name of the rule, and digest of its text."""
    temporary: list[str]
    identity: str


def verify(bundle: str, head: str | None = None) -> tuple[list[str], str]:
    """Check a bundle; return findings as text, none for an intact bundle, and a summary.

    Args:
        bundle: path of the zip.
        head: published head of the ledger, which must be the digest of one of its lines.

    Raises:
        OSError, zipfile.BadZipFile, ValueError: the file cannot be read, or is not a bundle.
    """
    contents = _read(bundle)
    digests = contents.digests
    records, findings = _parse_records(contents.records)
    findings = [*_check_names(contents.names), *_check_list(contents), *findings]
    findings += [
        f for name, record in records.items() for f in _check_inputs(name, record, records)
    ]
    output_findings, n_absent = _check_outputs(records, digests)
    listed = {path for record in records.values() for path in record.outputs}
    findings += output_findings + _check_code(records, contents.code)
    findings += [
        f"{n}: no record lists it"
        for n in digests
        if n.startswith("results/")
        and n not in listed | contents.records.keys() | {f"results/{LEDGER}"}
    ]
    ledger_findings, lines = _check_ledger(
        contents.ledger, {n: digests[n] for n in contents.records}, head
    )
    findings += ledger_findings
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
    """Digest all files of a bundle, and read those whose content is checked."""
    if not os.path.isfile(bundle):
        raise ValueError(
            f"expected a zip, got {'no regular file' if os.path.exists(bundle) else 'no file'}"
        )
    with zipfile.ZipFile(bundle) as archive:
        sizes = {i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}
        names = [i.filename for i in archive.infolist() if not i.is_dir()]
        if METADATA not in names:
            raise ValueError(f"{bundle} holds no {METADATA}: not a bundle of results")
        require_sizes({name: size for name, size in sizes.items() if _is_read_whole(name)})
        ledger = f"results/{LEDGER}"
        result_names = [n for n in names if n.startswith("results/")]
        return Contents(
            names=names,
            digests={name: _sha256(archive, name) for name in names},
            records={n: archive.read(n) for n in result_names if n.endswith(RECORD_SUFFIX)},
            code={n: archive.read(n) for n in names if _is_code(n)},
            listed=_list_of_files(json.loads(archive.read(METADATA))),
            ledger=archive.read(ledger) if ledger in names else None,
        )


def require_sizes(sizes: Mapping[str, int]) -> None:
    """Raise a ValueError if files to be read are larger than plausible, one of them or all
    together.
    """
    for name, size in sizes.items():
        if size > MAX_RECORD_BYTES:
            most = f"expected {MAX_RECORD_BYTES:,} at most"
            raise ValueError(f"{name} has {size:,} bytes, {most}")
    if sum(sizes.values()) > MAX_READ_BYTES:
        raise ValueError(
            f"records and code have {sum(sizes.values()):,} bytes, expected {MAX_READ_BYTES:,} "
            "at most"
        )


def _is_code(name: str) -> bool:
    return not name.startswith("results/")


def _is_read_whole(name: str) -> bool:
    return _is_code(name) or name.endswith(RECORD_SUFFIX) or name == f"results/{LEDGER}"


def _check_names(names: list[str]) -> list[str]:
    """Find names that would not unpack to separate files below the folder of the bundle."""
    counts, lower = Counter(names), Counter(n.lower() for n in names)
    findings = [f"{n}: duplicate" for n in sorted(counts) if counts[n] > 1]
    findings += [f"{n}: duplicate but for case" for n in names if lower[n.lower()] > counts[n]]
    return findings + [
        f"{n!r}: not a plain name below the folder of the bundle"
        for n in names
        if n.startswith("/") or ".." in n.split("/") or {*"\\:\0"} & {*n}
    ]


def _sha256(archive: zipfile.ZipFile, name: str) -> str:
    with cast(zipfile.ZipExtFile, archive.open(name)) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _list_of_files(metadata: dict[str, Any]) -> dict[str, str]:
    """Extract the list of files with digests from the metadata."""
    return {
        unquote(e["@id"]): str(e["sha256"])
        for e in metadata["@graph"]
        if "File" in e["@type"] and "sha256" in e
    }


def _check_list(contents: Contents) -> list[str]:
    """Compare the bundle's list of files with its files."""
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


def _parse_records(records: Mapping[str, bytes]) -> tuple[dict[str, Recorded], list[str]]:
    """Parse the records; return the readable ones, and findings on the others."""
    parsed: dict[str, Recorded] = {}
    findings = []
    for name, data in records.items():
        try:
            record = json.loads(data)
            if problem := other_format(record):
                findings.append(f"{name}: {problem}")
                continue
            parsed[name] = Recorded(
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
    return parsed, findings


def _check_outputs(
    records: Mapping[str, Recorded], digests: Mapping[str, str]
) -> tuple[list[str], int]:
    """Compare files with the records that list them; return findings, and the number of files that
    were legitimately left out of the bundle.
    """
    findings, n_absent = [], 0
    for name, record in records.items():
        may_be_absent = name.split("/")[1] in DATA
        for path, sha256 in record.outputs.items():
            if path in digests:
                if digests[path] != sha256:
                    findings.append(f"{path}: not what {name} says was written")
            elif may_be_absent or any(
                path == folder or path.startswith(folder + "/") for folder in record.temporary
            ):
                n_absent += 1
            else:
                findings.append(f"{path}: missing, though {name} lists it")
    return findings, n_absent


def _check_inputs(name: str, record: Recorded, records: Mapping[str, Recorded]) -> Iterable[str]:
    """Compare a record with the records of its inputs."""
    for path, sha256 in record.inputs.items():
        record_name = producer(path, records.__contains__)
        if (records[record_name].outputs if record_name else {}).get(path) != sha256:
            yield f"{name}: read another {path} than its record says was written"
    for input_name, expected in record.records.items():
        if input_name not in records or records[input_name].identity != expected:
            yield f"{name}: {input_name} does not say what it said when it was used"


def _check_code(records: Mapping[str, Recorded], code: Mapping[str, bytes]) -> list[str]:
    """Compare code and rules with the records that name them; digest each file once."""
    digests: dict[str, str | None] = {}
    rules: dict[str, str | None] = {}
    texts = [d.decode("utf8", "replace") for n, d in sorted(code.items()) if n.endswith(".smk")]
    findings = []
    for name, record in records.items():
        for path, expected in record.code.items():
            if path not in digests:
                data = code.get(path)
                digests[path] = None if data is None else file_digest(path, data)
            if digests[path] != expected:
                findings.append(f"{path}: not the code that {name} names")
        rule, expected = record.rule
        if rule not in rules:
            text = next(filter(None, (rule_text(t, rule) for t in texts)), None)
            rules[rule] = None if text is None else rule_digest(text)
        if rules[rule] != expected:
            findings.append(f"rule {rule}: not the code that {name} names")
    return findings


def _check_ledger(
    data: bytes | None, records: dict[str, str], head: str | None
) -> tuple[list[str], list[str]]:
    """Compare the ledger with the digests of the records; return findings, and digests of lines."""
    entries, breaks, lines = read_ledger(data or b"")
    recorded = {name: entry["sha256"] for name, entry in entries.items()}
    if data is None:
        breaks = ["missing"]
    if head is not None and head not in lines:
        breaks.append(
            f"{head} is not the digest of one of its lines: it is not the published ledger"
        )
    findings = [f"results/{LEDGER}: {text}" for text in breaks]
    findings += [f"{n}: not in the ledger" for n in records if n not in recorded]
    findings += [f"{n}: missing, though the ledger names it" for n in recorded if n not in records]
    findings += [
        f"{n}: not what the ledger says was written"
        for n in records
        if recorded.get(n, records[n]) != records[n]
    ]
    return findings, lines


def main(arguments: list[str]) -> int:
    """Check a bundle and print the findings. Exit codes: 0 intact; 1 findings; 2 inconclusive."""
    if len(arguments) not in (1, 2):
        print("usage: python3 verify_bundle.py BUNDLE.zip [HEAD OF THE LEDGER]")
        return 2
    if sys.version_info < (3, 11):  # noqa: UP036 (others check bundles, too)
        print(f"expected Python 3.11 or later, got {sys.version.split()[0]}")
        return 2
    try:
        findings, summary = verify(*arguments)
    except (OSError, *UNREADABLE, *ZIP_ERRORS) as error:
        message = f"{arguments[0]} cannot be checked: {type(error).__name__}: {error}"
        print(escape_for_terminal(message))
        return 2
    for finding in findings:
        print(escape_for_terminal(finding))
    print(
        escape_for_terminal(f"{f'{len(findings)} FINDINGS' if findings else 'INTACT'}: {summary}")
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
