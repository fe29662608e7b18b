"""Recompute the digests in a bundle of results: `python3 verify_bundle.py BUNDLE.zip [HEAD]`.

Plain Python, nothing else of the project: take this file from a place that you trust. Each file is
compared with its SHA-256 in the bundle's list of files (the RO-Crate metadata); the ledger's lines
must form a chain, and HEAD, where given, be the digest of one of them. Who wrote the list, whether
records and code agree with it: unpack the bundle, and run `isotropy audit verify --all` there.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zipfile
import zlib
from collections import Counter
from urllib.parse import unquote

METADATA = "ro-crate-metadata.json"
LEDGER = "results/ledger.jsonl"
DAMAGED = (OSError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError)
SHAPE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


def verify(bundle: str, head: str | None = None) -> tuple[list[str], int, str]:
    """Return findings, the number of files, and the head of the ledger."""
    with zipfile.ZipFile(bundle) as archive:
        names = [entry.filename for entry in archive.infolist() if not entry.is_dir()]
        digests = {name: _sha256(archive, name) for name in names}
        graph = json.loads(archive.read(METADATA))["@graph"]
        lines = archive.read(LEDGER).splitlines()
    entities = [e for e in graph if "File" in e["@type"] and "sha256" in e]
    listed = {unquote(e["@id"]): e["sha256"] for e in entities}
    findings = [f"{name}: twice" for name, n in Counter(map(str.lower, names)).items() if n > 1]
    findings += [f"{n}: not a plain name" for n in names if n[:1] == "/" or ".." in n or "\\" in n]
    findings += [f"{n}: not in the list of files" for n in digests if n not in {*listed, METADATA}]
    findings += [f"{n}: missing" for n in listed if n not in digests]
    findings += [f"{n}: altered" for n in digests if listed.get(n, digests[n]) != digests[n]]
    heads = [hashlib.sha256(line).hexdigest() for line in lines]
    for number, (line, previous) in enumerate(zip(lines, [None, *heads], strict=False), 1):
        if json.loads(line)["previous"] != previous:
            findings.append(f"{LEDGER}: line {number} does not continue the line before")
    if head is not None and head not in heads:
        findings.append(f"{LEDGER}: {head} is not the digest of one of its lines")
    return findings, len(names), heads[-1] if heads else "none"


def _sha256(archive: zipfile.ZipFile, name: str) -> str:
    digest = hashlib.sha256()
    with archive.open(name) as stream:
        while piece := stream.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def main(arguments: list[str]) -> int:
    """Print the findings. Exit codes: 0 intact; 1 findings; 2 cannot be checked."""
    if len(arguments) not in (1, 2):
        print(__doc__)
        return 2
    try:
        findings, n_files, head = verify(*arguments)
    except (*DAMAGED, *SHAPE) as error:
        print(f"{arguments[0]!a} cannot be checked: {type(error).__name__}: {str(error)!a}")
        return 2
    for finding in findings:
        print(ascii(finding)[1:-1])
    verdict = f"{len(findings)} FINDINGS" if findings else "INTACT"
    print(f"{verdict}: {n_files} files; head of the ledger: {head}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
