"""Dry runs shared by several tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Planned, Workflow, copy_checkout, once, read_dry_run

PlannedJobs = Callable[[str], list[Planned]]
CONFIGFILES = {
    "smoke": ["config/smoke.yaml"],
    "cuda": ["config/smoke.yaml", "cuda.yaml"],
    "shards": ["config/smoke.yaml", "cuda.yaml", "shards.yaml"],
    "paper": ["config/paper.yaml"],
}


@pytest.fixture(scope="session")
def fresh(shared: Path) -> PlannedJobs:
    """Return a function that gives all jobs of a study in a fresh checkout, as the SLURM profile
    would submit them. All pytest processes share one dry run of each study."""

    def jobs(name: str) -> list[Planned]:
        folder = shared / f"dry-run-{name}"
        with once(folder) as made:
            if not made:
                shutil.rmtree(folder / "checkout", ignore_errors=True)
                workflow = Workflow(copy_checkout(folder / "checkout"), CONFIGFILES[name])
                (workflow.folder / "cuda.yaml").write_text("compute: {device: cuda}\n")
                (workflow.folder / "shards.yaml").write_text("compute: {shards: 2}\n")
                (folder / "shown").write_text(workflow.dry_run("--profile", "slurm"))
        return read_dry_run((folder / "shown").read_text())

    return jobs
