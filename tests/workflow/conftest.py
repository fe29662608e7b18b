"""Dry runs, and a browser, shared by several tests."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import Planned, Workflow, copy_checkout, once, read_dry_run
from tests.workflow.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PlannedJobs = Callable[[str], list[Planned]]
CHANGES = {
    "cuda.yaml": "compute: {device: cuda}\n",
    "shards.yaml": "compute: {shards: 2}\n",
    "few-seeds.yaml": "rudman2024: {lambdas: [1], zetas: [0.2], seeds: [0]}\n",
}
CONFIGFILES = {
    "smoke": ["config/smoke.yaml"],
    "cuda": ["config/smoke.yaml", "cuda.yaml"],
    "shards": ["config/smoke.yaml", "cuda.yaml", "shards.yaml"],
    "few-seeds": ["config/paper.yaml", "few-seeds.yaml"],
}


def configured(folder: Path, study: str) -> Workflow:
    """Make a fresh checkout with the configuration of a study."""
    workflow = Workflow(copy_checkout(folder), CONFIGFILES[study])
    for name, text in CHANGES.items():
        (folder / name).write_text(text)
    return workflow


@pytest.fixture(scope="session")
def fresh(shared: Path) -> PlannedJobs:
    """Return a function that gives all jobs of a study in a fresh checkout, as the SLURM profile
    would submit them. All pytest processes share one dry run of each study."""

    def jobs(name: str) -> list[Planned]:
        folder = shared / f"dry-run-{name}"
        with once(folder) as made:
            if not made:
                shutil.rmtree(folder / "checkout", ignore_errors=True)
                workflow = configured(folder / "checkout", name)
                (folder / "shown").write_text(workflow.dry_run("--profile", "slurm"))
        return read_dry_run((folder / "shown").read_text())

    return jobs


@pytest.fixture(scope="module")  # its event loop must not meet those of other modules
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started
