"""Shared fixtures: the project, the mirror of official data, and real Snakemake on copies of the
checkout."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import numpy as np
import pytest
from filelock import FileLock

# The same examples in every run; `--hypothesis-profile default` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")

PROJECT = Path(__file__).resolve().parents[1]
NOT_COPIED = shutil.ignore_patterns(
    ".venv", ".git", "results", ".snakemake", ".*_cache", ".hypothesis", "*.egg-info", "__pycache__"
)

# Caches of code, by another process at the same time
BEING_WRITTEN = shutil.ignore_patterns("*.pyc.*", "*.tmp.*")


def copy_checkout(target: Path) -> Path:
    """The project's own files, as a fresh clone would have them."""
    shutil.copytree(PROJECT, target, ignore=NOT_COPIED)
    return target


@dataclass
class Workflow:
    """A checkout in which Snakemake is run for real."""

    folder: Path
    overlays: list[str] = field(default_factory=lambda: ["config/smoke.yaml"])

    def command(self, *args: str, cores: int = 2) -> list[str]:
        return [
            sys.executable,
            "-m",
            "snakemake",
            "--cores",
            str(cores),
            "--configfile",
            *self.overlays,
            "--quiet",
            "rules",
            *args,
        ]

    def run(
        self, *args: str, cores: int = 2, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = self.command(*args, cores=cores)
        # A message of one's own in the output of a failed run is worth more than a return code.
        return subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=3600,
        )

    def done(self, *args: str, **options: object) -> str:
        result = self.run(*args, **options)  # type: ignore[arg-type]
        assert result.returncode == 0, result.stdout[-6000:]
        return result.stdout

    def planned(self) -> dict[str, int]:
        """Jobs that a run would make now: rule -> number."""
        command = [a for a in self.command("--dry-run") if a not in ("--quiet", "rules")]
        result = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, timeout=1200
        )
        assert result.returncode == 0, result.stdout + result.stderr
        if "Nothing to be done" in result.stdout + result.stderr:
            return {}
        table = (result.stdout + result.stderr).rsplit("Job stats:", 1)[1].split("\n\n")[0]
        return {
            m[1]: int(m[2])
            for m in re.finditer(r"^(\w+) +(\d+)$", table, re.M)
            if m[1] not in ("total", "all")
        }


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers that a module draws in its tests do not depend on which ran before in the same
    process."""
    rng = getattr(getattr(item, "module", None), "RNG", None)
    if rng is not None:
        rng.bit_generator.state = np.random.default_rng(
            zlib.crc32(item.name.encode())
        ).bit_generator.state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest test first, so that other processes have work beside it."""
    items.sort(key=lambda item: "test_killed" not in item.nodeid)


@pytest.fixture(scope="session")
def project() -> Path:
    return PROJECT


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror of official data, named by the variable ISOTROPY_MIRROR."""
    value = os.environ.get("ISOTROPY_MIRROR")
    folder = (PROJECT / value).resolve() if value else None
    if folder is None or not folder.is_dir():
        pytest.skip("no mirror of the official data: set ISOTROPY_MIRROR to its folder")
    return folder


@pytest.fixture(scope="session")
def smoke(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Workflow:
    """The smoke study, run once from the registries to its results page, for all processes that run
    tests.

    ISOTROPY_SMOKE names a folder that runs of tests on the same state of the checkout share.
    """
    base = tmp_path_factory.getbasetemp()
    shared = Path(
        os.environ.get("ISOTROPY_SMOKE")
        or (base if worker_id == "master" else base.parent) / "smoke"
    ).absolute()
    shared.parent.mkdir(parents=True, exist_ok=True)
    workflow = Workflow(shared / "checkout")
    with FileLock(f"{shared}.lock"):
        if not (shared / "done").exists():
            # Begun by another process, which failed
            shutil.rmtree(workflow.folder, ignore_errors=True)
            copy_checkout(workflow.folder)
            workflow.done()
            (shared / "done").touch()
    return workflow


@pytest.fixture
def smoke_copy(smoke: Workflow, tmp_path: Path) -> Workflow:
    """A copy of the finished smoke study that a test may change."""
    shutil.copytree(smoke.folder, tmp_path / "checkout", ignore=BEING_WRITTEN)  # keeps time stamps
    return Workflow(tmp_path / "checkout")


@pytest.fixture
def checkout(tmp_path: Path) -> Workflow:
    """A fresh checkout without results."""
    return Workflow(copy_checkout(tmp_path / "checkout"))


@pytest.fixture(scope="session")
def minilm(smoke: Workflow) -> Path:
    """The real all-MiniLM-L6-v2, as the smoke study fetched it."""
    return smoke.folder / "results/fetch/all-MiniLM-L6-v2"


@pytest.fixture(scope="session")
def refuses() -> Callable[[Workflow, str], str]:
    """Assert that a dry run is refused before the first job, in one message that holds a text; give
    the message."""

    def check(workflow: Workflow, text: str) -> str:
        result = workflow.run("--dry-run")
        assert result.returncode != 0
        assert text in result.stdout, result.stdout
        assert "Traceback" not in result.stdout
        assert not (workflow.folder / "results").exists()
        return result.stdout

    return check
