"""Export: results, records and code in one zip, a Workflow Run RO-Crate."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from isotropy.errors import IsotropyError
from isotropy.files import RESULTS, atomic, sha256_file, write_json
from isotropy.scrub import scrub
from replication.provenance import audit
from replication.provenance.checkout import Checkout
from replication.provenance.crate import Crate
from replication.provenance.format import CONFIGURATION, DATA, LEDGER, METADATA, read_ledger
from replication.provenance.graph import RecordGraph, stem_of
from replication.provenance.record import Record

STORED_SUFFIXES = (".safetensors", ".bin", ".npy", ".parquet", ".gz", ".zip", ".png", ".pdf")
"""Suffixes of files that are stored uncompressed: compression takes several times as long and saves
a tenth at best."""
CHUNK_BYTES = 2**20
ACCEPTED: set[audit.State] = {*audit.GOOD, "other version", "other environment"}
"""States of results that a bundle may hold."""

CODE = (
    "Snakefile",
    "config.yaml",
    "Makefile",
    "pyproject.toml",
    "requirements.lock",
    "requirements-cuda.lock",
    "requirements-dev.lock",
    "README.md",
    "LICENSE",
    "CITATION.cff",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
)
CODE_SUFFIXES = {".py", ".pyi", ".smk", ".md", ".rst", ".html", ".css", ".js", ".png"}
CODE_SUFFIXES |= {".csv", ".json", ".yaml"}
OWN_CONFIGURATION = "config/local"
CODE_FOLDERS = (
    "rules",
    "scripts",
    "isotropy",
    "replication",
    "envs",
    "config",
    "profiles",
    "schemas",
    "docs",
)


def export(
    root: Path,
    checkout: Checkout,
    configuration: Mapping[str, Any],
    bundle: Path,
    *,
    with_data: bool,
) -> tuple[int, int, str]:
    """Write a bundle.

    Args:
        root: the folder of a finished run.
        checkout: the checkout with the code that made it, and the plan of its configuration.
        configuration: the merged configuration of the run.
        bundle: the zip to write.
        with_data: whether to include fetched sources, prepared data and embeddings.

    Returns:
        Number of files, size in bytes, head of the ledger.

    Raises:
        IsotropyError: there are no results, a result differs from its record, or the checkout's
            code or configuration differs from that which made it (apart from comments, docstrings,
            layout and infrastructure); a file changes during the export; or the bundle cannot be
            written to this path. In all cases nothing is written.
    """
    _check_target(bundle)
    audit.refuse_bad(audit.verify_all(root, checkout), ACCEPTED)
    with TemporaryDirectory(prefix="isotropy-") as folder:
        file = Path(folder, CONFIGURATION)
        write_json(file, scrub(dict(configuration)))
        return _write(root, checkout.project, file, bundle, with_data)


def _write(
    root: Path, project: Path, configuration: Path, bundle: Path, with_data: bool
) -> tuple[int, int, str]:
    records = RecordGraph(root).records()
    if not records:
        raise IsotropyError(f"{root / RESULTS} holds no records: run the workflow first")
    files = _code(project) | _results(root, records, with_data) | {CONFIGURATION: configuration}
    digests = {name: sha256_file(path) for name, path in files.items()}
    ledger = (root / RESULTS / LEDGER).read_bytes()
    ended = max(record.ended for record in records.values())
    metadata = Crate(records, files, digests, project, ended).metadata()
    text = json.dumps(metadata, indent=1, ensure_ascii=False) + "\n"
    with (
        atomic(bundle) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        archive.writestr(_entry(METADATA), text)
        for name in sorted(files):
            if _copy(archive, name, files[name]) != digests[name]:
                raise IsotropyError(
                    f"{files[name]} changed while it was packed: wait until no run writes to "
                    f"{root / RESULTS}, then export again"
                )
    return len(files) + 1, bundle.stat().st_size, read_ledger(ledger)[2][-1]


def _entry(name: str) -> zipfile.ZipInfo:
    # A fixed date, so that the same run gives the same bundle
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    dense = name.endswith(STORED_SUFFIXES)
    entry.compress_type = zipfile.ZIP_STORED if dense else zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


def _copy(archive: zipfile.ZipFile, name: str, file: Path) -> str:
    """Copy a file into the bundle in chunks; return the digest of the copied bytes."""
    entry = _entry(name)
    entry.file_size = file.stat().st_size  # so that zipfile uses 64-bit fields if necessary
    digest = hashlib.sha256()
    with file.open("rb") as source, archive.open(entry, "w") as target:
        while piece := source.read(CHUNK_BYTES):
            digest.update(piece)
            target.write(piece)
    return digest.hexdigest()


def _check_target(bundle: Path) -> None:
    if bundle.suffix != ".zip":
        raise IsotropyError(f"{bundle}: expected a name that ends in .zip")
    if bundle.is_dir() or not bundle.parent.is_dir():
        raise IsotropyError(f"{bundle} is a folder, or in a folder that does not exist")


def _code(project: Path) -> dict[str, Path]:
    """Find the files of the project by name and suffix; other files in its folders, and a user's
    own configuration, are left out.
    """
    files = {Path(name): project / name for name in CODE}
    for folder in CODE_FOLDERS:
        files |= {p.relative_to(project): p for p in (project / folder).rglob("*")}
    return {
        name.as_posix(): p
        for name, p in files.items()
        if p.is_file()
        and (p.suffix in CODE_SUFFIXES or name.as_posix() in CODE)
        and not any(part.startswith(".") for part in name.parts)
        and not name.is_relative_to(OWN_CONFIGURATION)
    }


def _results(root: Path, records: Mapping[str, Record], with_data: bool) -> dict[str, Path]:
    names = [*records, (RESULTS / LEDGER).as_posix()]
    for name, record in records.items():
        if with_data or stem_of(name).split("/")[0] not in DATA:
            names += [f.path for f in record.outputs]
    return {name: root / name for name in names if (root / name).is_file()}
