"""The bundle verifier, run by plain Python on the bundle of two small jobs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from replication.provenance.bundle import export
from replication.provenance.checkout import Checkout
from replication.provenance.crate import Crate
from tests.unit.jobs import write_note

CHECKER = "replication/provenance/verify_bundle.py"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    write_note(project, "source")
    write_note(project, "note", inputs={"source": "results/source.txt"})
    path = tmp_path / "bundle.zip"
    export(tmp_path, Checkout(project), {"study": "notes"}, path, with_data=False)
    return path


def test_export_fails_if_a_file_changes_meanwhile(
    bundle: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run appends to the ledger during the export; the previous bundle is kept."""
    before = bundle.read_bytes()
    ledger = bundle.parent / "results/ledger.jsonl"

    def changing_crate(*_: object) -> Crate:
        with ledger.open("a") as stream:  # after the digests, before the files are read
            stream.write("{}\n")
        return Crate(*_)

    monkeypatch.setattr("replication.provenance.bundle.Crate", changing_crate)
    with pytest.raises(IsotropyError, match=r"ledger\.jsonl changed"):
        export(bundle.parent, Checkout(project), {}, bundle, with_data=False)
    assert bundle.read_bytes() == before


def test_verifier_runs_from_the_bundle_alone(bundle: Path, tmp_path: Path) -> None:
    """Without site packages and environment variables, in any folder."""
    unpacked = tmp_path / "elsewhere"
    with zipfile.ZipFile(bundle) as archive:
        archive.extractall(unpacked)
    for folder, checker in ((unpacked, CHECKER), (tmp_path, str(unpacked / CHECKER))):
        done = subprocess.run(
            [sys.executable, "-I", "-S", checker, str(bundle)],
            cwd=folder,
            env={},
            capture_output=True,
            text=True,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.startswith("INTACT: ")
