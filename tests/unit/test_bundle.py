"""The checker of bundles, by plain Python on the bundle of two small jobs: what it asks of code."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from isotropy.provenance.bundle import export
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


def forged(bundle: Path, victim: str, old: bytes, new: bytes) -> Path:
    """A bundle with another text in a file, and the list of the bundle made to fit."""
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


def test_the_checker_needs_nothing_but_the_bundle(bundle: Path, tmp_path: Path) -> None:
    """No installed package, no environment, in any folder."""
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


@pytest.mark.parametrize(
    ("victim", "old", "new", "finding"),
    [
        ("isotropy/spec.py", b"import hashlib", b"# a comment\nimport hashlib", None),
        ("isotropy/spec.py", b"The inverse of", b"The very inverse of", None),
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
def test_code_is_compared_by_what_it_says(
    bundle: Path, victim: str, old: bytes, new: bytes, finding: str | None
) -> None:
    findings, summary = verify(str(forged(bundle, victim, old, new)))
    if finding is None:
        assert findings == []
    else:
        assert findings
        assert all(f.startswith(finding) for f in findings)
    assert "machinery" not in summary


def test_changed_machinery_is_named_and_no_finding(bundle: Path) -> None:
    suspect = forged(bundle, "isotropy/job.py", b"import logging", b"import logging, os")
    findings, summary = verify(str(suspect))
    assert findings == []
    assert "machinery changed since: isotropy/job.py; " in summary


def test_records_of_another_format_are_named(bundle: Path) -> None:
    suspect = forged(bundle, "results/note.record.json", b'"format": 3', b'"format": 2')
    findings, _ = verify(str(suspect))
    assert any(
        f.startswith("results/note.record.json: expected a record of format 3, got 2")
        for f in findings
    )
