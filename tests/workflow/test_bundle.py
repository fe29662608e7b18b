"""The exported bundle: valid by the RO-Crate validator, verified by plain Python, and complete
apart from the data of others."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from replication.provenance.audit import verify_all
from replication.provenance.format import line_sha256
from tests.conftest import Workflow
from tests.workflow.study import audit

VALIDATOR = ["--with-requirements", str(Path(__file__).with_name("validator.txt"))]
# The validator reads the RO-Crate context from the web. Here it is taken from a Python package that
# contains it, and put into the validator's cache.
CONTEXT_PACKAGE = "rocrate==0.13.0"
FILL_CACHE = """
import io, json, sys
from requests.adapters import HTTPAdapter
from requests_cache import CachedSession
from urllib3 import HTTPResponse

class Local(HTTPAdapter):
    def send(self, request, **_options):
        kind = {"Content-Type": "application/ld+json"}
        whole = {"preload_content": False, "request_url": request.url}
        raw = HTTPResponse(io.BytesIO(body), kind, 200, **whole)
        return self.build_response(request, raw)

body = open("packages/rocrate/data/ro-crate.jsonld", "rb").read()
session = CachedSession("cache", backend="sqlite", expire_after=-1)
session.mount("https://", Local())
session.get(json.loads(body)["@id"])
"""


@pytest.fixture(scope="module")
def bundle(smoke: Workflow, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle") / "study.zip"
    done = audit(smoke, "export", str(path))
    assert done.returncode == 0, done.stdout
    return path


CHECKER = Path("replication/provenance/verify_bundle.py")
METADATA, LEDGER = "ro-crate-metadata.json", "results/ledger.jsonl"
RECORD = "results/prepare/polarity.record.json"


def verify_with_plain_python(
    suspect: Path, bundle: Path, folder: Path, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run the verifier of an intact bundle on a suspect one, without site packages and without
    environment variables."""
    with zipfile.ZipFile(bundle) as archive:
        code_files = [n for n in archive.namelist() if n.startswith(CHECKER.parts[0])]
        archive.extractall(folder, code_files)
    command = [sys.executable, "-I", "-S", str(CHECKER), str(suspect), *arguments]
    return subprocess.run(command, cwd=folder, env={}, capture_output=True, text=True)


def rewritten(bundle: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """Copy a bundle; `change` returns the new content of each member, None leaves it out."""
    with zipfile.ZipFile(bundle) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            if (data := change(name, old.read(name))) is not None:
                new.writestr(name, data)
    return target


SPOILT = "cannot be checked"


@pytest.mark.parametrize(
    ("victim", "edit", "expected"),
    [
        ("results/claims.csv", lambda d: d + b" ", "results/claims.csv: altered"),
        ("results/claims.csv", lambda d: None, "results/claims.csv: missing"),
        ("replication/spec.py", lambda d: None, "replication/spec.py: missing"),
        ("replication/job.py", lambda d: None, "replication/job.py: missing"),
        (METADATA, lambda d: b'{"@graph": null}', SPOILT),
        (METADATA, lambda d: b"[" * 200_000, SPOILT),
        ("results/claims.record.json", lambda d: b'{"outputs": null}', "record.json: altered"),
        (LEDGER, lambda d: d.replace(d.splitlines(True)[4], b""), "does not continue"),
        (RECORD, lambda d: d.replace(b'"sample"', b'"simple"', 1), f"{RECORD}: altered"),
        ("results/index.record.json", lambda d: None, "index.record.json: missing"),
        ("scripts/claims/evaluate_claims.py", lambda d: d + b"#", "evaluate_claims.py: altered"),
    ],
)
def test_changes_to_a_bundle_are_found(
    bundle: Path, tmp_path: Path, victim: str, edit: Callable[[bytes], bytes | None], expected: str
) -> None:
    suspect = rewritten(
        bundle, tmp_path / "suspect.zip", lambda name, data: edit(data) if name == victim else data
    )
    done = verify_with_plain_python(suspect, bundle, tmp_path)
    assert done.returncode == (2 if expected == SPOILT else 1), done.stdout + done.stderr
    assert expected in done.stdout


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("results/tables/mickus2024/table9.csv", "not in the list of files"),
        ("results/Claims.csv", "twice"),
        ("..\\evil.py", "not a plain name"),
        ("../evil.py", "not a plain name"),
        ("ro-crate-preview.html", "not in the list of files"),
    ],
)
def test_files_added_to_a_bundle_are_found(
    bundle: Path, tmp_path: Path, name: str, expected: str
) -> None:
    suspect = tmp_path / "suspect.zip"
    shutil.copyfile(bundle, suspect)
    with zipfile.ZipFile(suspect, "a") as archive:
        archive.writestr(name, b"x")
    done = verify_with_plain_python(suspect, bundle, tmp_path)
    assert (done.returncode, expected in done.stdout) == (1, True), done.stdout


def test_changed_file_is_found_although_the_metadata_fits_it(bundle: Path, tmp_path: Path) -> None:
    """The digest in the crate's metadata was forged, too, but the record has the original one."""
    with zipfile.ZipFile(bundle) as archive:
        old = archive.read("results/claims.csv")
    new = old.replace(b"inconsistent", b"consistent")
    digests = [line_sha256(d).encode() for d in (old, new)]

    def change(name: str, data: bytes) -> bytes:
        if name == METADATA:
            return data.replace(*digests)
        return new if name == "results/claims.csv" else data

    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(rewritten(bundle, tmp_path / "suspect.zip", change)) as archive:
        archive.extractall(folder)
    assert {f.path: f.state for f in verify_all(folder)}["results/claims.csv"] == "altered"


def test_bundle_has_the_listed_files_and_data_only_with_option(
    bundle: Path, smoke: Workflow, tmp_path: Path
) -> None:
    with zipfile.ZipFile(bundle) as archive:
        names = set(archive.namelist())
        metadata = json.loads(archive.read(METADATA))
    files = {e["@id"]: e for e in metadata["@graph"] if "File" in e["@type"]}
    assert names == files.keys() | {METADATA}
    data_folders = tuple(f"results/{stage}/" for stage in ("fetch", "prepare", "embed"))
    data = [name for name in names if name.startswith(data_folders)]
    assert data
    assert all(n.endswith(".record.json") for n in data)
    assert all(e["sha256"] and int(e["contentSize"]) >= 0 for e in files.values())
    sources = [e for e in metadata["@graph"] if e["@id"].startswith("#source/")]
    assert "CC BY 4.0" in {e.get("license") for e in sources}
    again = tmp_path / "again.zip"
    assert audit(smoke, "export", str(again)).returncode == 0
    assert again.read_bytes() == bundle.read_bytes()
    with_data = tmp_path / "whole.zip"
    assert audit(smoke, "export", str(with_data), "--with-data").returncode == 0
    with zipfile.ZipFile(with_data) as archive:
        stored = {e.filename for e in archive.infolist() if e.compress_type == zipfile.ZIP_STORED}
        names = set(archive.namelist())
    compressed_formats = {"parquet", "png", "pdf", "safetensors"}
    assert {n for n in names if n.rpartition(".")[2] in compressed_formats} <= stored
    assert compressed_formats <= {n.rpartition(".")[2] for n in stored}
    assert not any(n.endswith((".json", ".csv", ".svg", ".py")) for n in stored)
    done = verify_with_plain_python(with_data, with_data, tmp_path)
    assert done.returncode == 0, done.stdout
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(tmp_path / "unpacked")
    same = audit(smoke, "diff", str(tmp_path / "unpacked"), str(smoke.folder))
    assert same.returncode == 0, same.stdout


def test_bundle_is_a_valid_provenance_run_crate(bundle: Path, tmp_path: Path) -> None:
    """By roc-validator, in an environment of its own."""

    def uv(*command: str) -> subprocess.CompletedProcess[str]:
        whole = [sys.executable, "-m", "uv", *command]
        return subprocess.run(whole, cwd=tmp_path, capture_output=True, text=True)

    run = ("tool", "run", *VALIDATOR, "--from", "roc-validator")
    for command in (
        ("pip", "install", "--no-deps", "--target", "packages", CONTEXT_PACKAGE),
        (*run, "python", "-c", ""),
    ):
        if (done := uv(*command)).returncode != 0:
            reason = done.stderr.strip().splitlines()[-1]
            pytest.skip(f"the validator cannot be installed here: {reason}")
    done = uv(*run, "python", "-c", FILL_CACHE)
    assert done.returncode == 0, done.stderr
    options = "--no-paging --offline --cache-path cache --requirement-severity required --verbose"
    profile = ("--profile-identifier", "provenance-run-crate-0.5")
    validate = (*run, "rocrate-validator", "-y", "validate", *options.split(), *profile)
    done = uv(*validate, str(bundle))
    assert done.returncode == 0, done.stdout[-4000:]
    assert "is a valid provenance-run-crate-0.5" in done.stdout
