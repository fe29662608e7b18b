"""Fixtures of the unit tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from isotropy.job import Job
from isotropy.provenance.lineage import Lineage
from tests.rehearsal import models
from tests.unit.jobs import NoteSpec, snakemake_object, write_note


@pytest.fixture(scope="session")
def synthetic_models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small model of each architecture of the papers, named by registry id."""
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:  # processes of pytest share it
        base = base.parent
    folder = base / "synthetic-models"
    with FileLock(base / "synthetic-models.lock"):
        if not folder.is_dir():
            for name in models.ARCHITECTURES:
                models.write(name, base / "being-made" / name)
            (base / "being-made").rename(folder)
    return folder


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, project: Path) -> Path:
    """A folder with a chain of two jobs: a source, and a note made from it."""
    monkeypatch.chdir(tmp_path)
    stand_in = Lineage(status="stand-in", reasons=["not the paper's"], sources=[{"id": "a"}])
    with Job(snakemake_object(project, "source"), NoteSpec) as job, job.write("note") as path:
        path.write_text("bytes")
        job.lineage.merge(stand_in)
    write_note(project, "note", inputs={"source": "results/source.txt"})
    return tmp_path
