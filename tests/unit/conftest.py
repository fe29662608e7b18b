"""Fixtures of the unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from replication.job import Job
from replication.provenance.lineage import Lineage
from tests import synthetic_models as models
from tests.conftest import once
from tests.unit.jobs import NoteSpec, snakemake_object, write_note


@pytest.fixture(autouse=True)
def restored_threads() -> Iterator[None]:
    """Give torch its number of threads back after each test."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make an empty folder the working folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def synthetic_models(shared: Path) -> Path:
    """A folder with a small model of each architecture of the papers, named by registry id."""
    folder = shared / "synthetic-models"
    with once(folder) as made:
        for name in () if made else models.ARCHITECTURES:
            models.write(name, folder / name)
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
