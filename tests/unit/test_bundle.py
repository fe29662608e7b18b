"""The bundle verifier, run by plain Python on the bundle of two small jobs."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from isotropy.errors import IsotropyError
from isotropy.provenance.bundle import export
from isotropy.provenance.crate import Crate
from isotropy.provenance.diff import diff
from isotropy.provenance.verify_bundle import METADATA, verify
from tests.unit.jobs import write_note

CHECKER = "isotropy/provenance/verify_bundle.py"


@pytest.fixture
def bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    monkeypatch.chdir(tmp_path)
    write_note(project, "source")
    write_note(project, "note", inputs={"source": "results/source.txt"})
    path = tmp_path / "bundle.zip"
    export(tmp_path, project, path, with_data=False)
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

    monkeypatch.setattr("isotropy.provenance.bundle.Crate", changing_crate)
    with pytest.raises(IsotropyError, match=r"ledger\.jsonl changed while it was packed"):
        export(bundle.parent, project, bundle, with_data=False)
    assert bundle.read_bytes() == before


def forged(bundle: Path, victim: str, old: bytes, new: bytes) -> Path:
    """Copy a bundle with a changed text in one file, and adapt the digest in its metadata."""
    target = bundle.with_name("forged.zip")
    with zipfile.ZipFile(bundle) as before, zipfile.ZipFile(target, "w") as after:
        data = before.read(victim)
        changed = data.replace(old, new, 1)
        assert changed != data
        digests = [hashlib.sha256(d).hexdigest().encode() for d in (data, changed)]
        for name in before.namelist():
            content = changed if name == victim else before.read(name)
            after.writestr(name, content.replace(*digests) if name == METADATA else content)
    return target


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


def test_names_that_urls_escape_are_found_in_the_list(bundle: Path, project: Path) -> None:
    """The metadata has file names as URLs."""
    write_note(project, "50% noise")
    export(bundle.parent, project, bundle, with_data=False)
    with zipfile.ZipFile(bundle) as archive:
        assert b'"results/50%25%20noise.txt"' in archive.read(METADATA)
    assert verify(str(bundle))[0] == []


@pytest.mark.parametrize(
    ("victim", "old", "new", "finding"),
    [
        ("isotropy/spec.py", b"import hashlib", b"# a comment\nimport hashlib", None),
        ("isotropy/spec.py", b"with one canonical text", b"with the one canonical text", None),
        (
            "isotropy/spec.py",
            b"sort_keys=True",
            b"sort_keys=False",
            "isotropy/spec.py: not the code",
        ),
        ("isotropy/spec.py", b"import hashlib", b"import (", "isotropy/spec.py: not the code"),
        ("rules/prepare.smk", b"threads: 1", b"threads: 1  # one", None),
        ("rules/prepare.smk", b"threads: 1", b"threads: 2", "rule prepare_sentences: not the code"),
    ],
)
def test_changed_code_is_found_and_comments_are_ignored(
    bundle: Path, victim: str, old: bytes, new: bytes, finding: str | None
) -> None:
    findings, summary = verify(str(forged(bundle, victim, old, new)))
    if finding is None:
        assert findings == []
    else:
        assert findings
        assert all(f.startswith(finding) for f in findings)
    assert "infrastructure" not in summary


def test_changed_infrastructure_is_reported_without_a_finding(bundle: Path) -> None:
    suspect = forged(bundle, "isotropy/job.py", b"import logging", b"import logging, os")
    findings, summary = verify(str(suspect))
    assert findings == []
    assert "infrastructure changed since: isotropy/job.py; " in summary


def test_records_of_another_format_are_named(bundle: Path) -> None:
    suspect = forged(bundle, "results/note.record.json", b'"format": 4', b'"format": 2')
    findings, _ = verify(str(suspect))
    assert any(
        f.startswith("results/note.record.json: expected a record of format 4, got 2")
        for f in findings
    )


@pytest.mark.parametrize(
    "name", [METADATA, "results/note.record.json", "results/ledger.jsonl", "Snakefile"]
)
def test_members_that_are_read_whole_have_a_size_limit(bundle: Path, name: str) -> None:
    """A member of gigabytes is rejected by its declared size, before it is read."""
    target = bundle.with_name("large.zip")
    with zipfile.ZipFile(bundle) as before, zipfile.ZipFile(target, "w") as after:
        for member in before.namelist():
            if member != name:
                after.writestr(member, before.read(member))
        with after.open(name, "w", force_zip64=True) as stream:
            stream.write(b"0" * 4096)
        after.getinfo(name).file_size = 3_000_000_000
    with pytest.raises(ValueError, match=f"{name} has 3,000,000,000 bytes, .* 67,108,864 at most"):
        verify(str(target))


def test_verifier_rejects_what_is_not_a_bundle(tmp_path: Path, project: Path) -> None:
    """A pipe, on which reading would block, a folder, a missing file, other files: exit code 2
    and one line."""
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "folder.zip").mkdir()
    (tmp_path / "text.zip").write_text("PK")
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("a", "b")
    for name in ("pipe.zip", "folder.zip", "text.zip", "nothing.zip", "other.zip"):
        done = subprocess.run(
            [sys.executable, str(project / CHECKER), str(tmp_path / name)],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (2, "")
        assert len(done.stdout.splitlines()) == 1
        assert "cannot be checked" in done.stdout
        assert name != "other.zip" or "not a bundle of results" in done.stdout


def test_line_breaks_in_member_names_cannot_forge_output(bundle: Path, project: Path) -> None:
    with zipfile.ZipFile(bundle, "a") as archive:
        archive.writestr("results/a\nINTACT: 44 files", "x")
    command = [sys.executable, str(project / CHECKER), str(bundle)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert all(not line.startswith("INTACT") for line in done.stdout.splitlines())


def test_total_size_of_records_is_limited(tmp_path: Path) -> None:
    """Twenty records with declared sizes of 60 MB."""
    path = tmp_path / "large.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(METADATA, "{}")
        for i in range(20):
            archive.writestr(f"results/{i}.record.json", "0")
            archive.getinfo(f"results/{i}.record.json").file_size = 60_000_000
    with pytest.raises(ValueError, match="records and code have 1,200,000,002 bytes"):
        verify(str(path))
    with pytest.raises(IsotropyError, match=r"large.zip is neither .* records and code have"):
        diff(path, path)


def test_diff_rejects_a_pipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    with pytest.raises(IsotropyError, match="neither the folder of a run nor a bundle"):
        diff(tmp_path / "pipe.zip", tmp_path / "pipe.zip")
