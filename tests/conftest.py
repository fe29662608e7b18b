"""Shared fixtures: the project, the mirror of official data, and real Snakemake on copies of the
checkout."""

from __future__ import annotations

import gc
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from filelock import FileLock

from isotropy.provenance.format import LEDGER
from isotropy.workflow.config import load_study, read_configuration
from isotropy.workflow.plan import Plan

# The same examples in every run; `--hypothesis-profile default` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True)
hypothesis.settings.load_profile("same")

gc.disable()  # until all tests are loaded

PROJECT = Path(__file__).resolve().parents[1]
# Caches of code come along, which hold what was compiled: it would take half a minute each time.
# Not those that another process writes at the time.
BEING_WRITTEN = shutil.ignore_patterns("*.pyc.*", "*.tmp.*")
NOT_COPIED = shutil.ignore_patterns(
    ".venv",
    ".git",
    "results",
    ".snakemake",
    ".*_cache",
    ".hypothesis",
    "*.egg-info",
    "*.pyc.*",
    "*.tmp.*",
)


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
            "--scheduler",  # one that needs no solver, for jobs of seconds
            "greedy",
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

    def dry_run(self, *args: str) -> str:
        """What a run would do now, job by job."""
        command = [sys.executable, "-m", "snakemake", "--dry-run", *args]
        shown = subprocess.run(
            [*command, "--configfile", *self.overlays],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
        return shown.stdout + shown.stderr

    def planned(self) -> dict[str, str]:
        """Results that a run would make now: stem below `results/` -> rule."""
        return {job.stem: job.rule for job in read_dry_run(self.dry_run("--cores", "2"))}

    def plan(self) -> Plan:
        """What the configuration asks for."""
        files = [self.folder / name for name in ("config.yaml", *self.overlays)]
        study = load_study(read_configuration(files, {}), self.folder)
        return Plan(study, self.folder, self.folder)


class Planned(NamedTuple):
    """What a job of a dry run says of itself and one of its results."""

    rule: str
    stem: str
    threads: int
    resources: dict[str, Any]


def read_dry_run(text: str) -> list[Planned]:
    """The results that the jobs of a dry run make."""
    found = []
    # Jobs of a group stand further in
    for block in re.split(r"\n(?= *(?:local)?rule \w+:)", text):
        head = re.match(r" *(?:local)?rule (\w+):", block)
        output = re.search(r"^ +output: (.*)$", block, re.M)
        stems = re.findall(r"results/(\S+)\.record\.json", output[1]) if output else []
        if head is None:
            continue
        own = re.search(r"^ +resources: (.*)$", block, re.M)
        parts = own[1].split(", ") if own else []
        values = dict(part.split("=", 1) for part in parts if "=" in part)
        threads = re.search(r"^ +threads: (\d+)$", block, re.M)
        resources = {k: int(v) if v.isdigit() else v for k, v in values.items()}
        n_threads = int(threads[1]) if threads else 1
        found += [Planned(head[1], stem, n_threads, resources) for stem in stems]
    return found


OF_A_RUN = {"run.json", "provenance.html", "index.html"}
"""Results that say when and where the others were made."""


def digests(folder: Path) -> dict[str, str]:
    """Bytes of all results but those of a run, records and logs, which hold times."""
    files = [
        p
        for p in (folder / "results").rglob("*")
        if p.is_file() and "logs" not in p.parts and p.name != LEDGER
    ]
    kept = [
        p
        for p in files
        if not p.name.endswith(".record.json") and p.name not in {".snakemake_timestamp", *OF_A_RUN}
    ]
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest() for p in kept
    }


def pytest_collection_finish() -> None:
    """What all tests have loaded is no garbage: looking for it would take a fifth of their time."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Random numbers that a module draws in its tests do not depend on which ran before in the same
    process."""
    rng = getattr(getattr(item, "module", None), "RNG", None)
    if rng is not None:
        rng.bit_generator.state = np.random.default_rng(
            zlib.crc32(item.name.encode())
        ).bit_generator.state


LONG = {"smoke", "checkout", "synthetic_models"}
"""Fixtures that run Snakemake, or make models of eleven architectures: unit tests that ask for one
are not for `make check`."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what `make check` leaves out."""
    for item in items:
        if not item.path.is_relative_to(PROJECT / "tests/unit") or LONG & _fixtures(item):
            item.add_marker(pytest.mark.study)


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def pytest_share_out(items: list[pytest.Item]) -> None:
    """Order what is run.

    Two processes begin with a half each, and take from the other what it has not begun. The first
    half begins with the smoke study and what needs it, and ends with quick tests. The second begins
    with the linters, which take longest of what is quick, and the other quick tests, some of which
    only wait; then comes what needs no smoke study. One process has what is quick first.
    """

    needing = [item for item in items if "smoke" in _fixtures(item)]
    others = [i for i in items if i.get_closest_marker("study") and i not in needing]
    others.sort(key=lambda item: "killed" in item.name)  # waits for the smoke study in the end
    quick = [item for item in items if not item.get_closest_marker("study")]
    quick.sort(key=lambda item: "test_linters" not in item.nodeid)
    if "PYTEST_XDIST_WORKER" not in os.environ:
        items[:] = [*quick, *needing, *others]
        return
    half = len(items) // 2
    begin = max(0, min(len(quick), len(quick) + len(needing) - half))  # the rest fills the half
    items[:] = [*needing[:half], *quick[begin:], *quick[:begin], *others, *needing[half:]]


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


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
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of all processes that run these tests."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def smoke(shared: Path) -> Workflow:
    """The smoke study, run once from the registries to its results page, for all processes that run
    tests.

    ISOTROPY_SMOKE names a folder that runs of tests on the same state of the checkout share.
    """
    folder = Path(os.environ.get("ISOTROPY_SMOKE") or shared / "smoke").absolute()
    workflow = Workflow(folder / "checkout")
    with once(folder) as made:
        if not made:
            shutil.rmtree(workflow.folder, ignore_errors=True)
            copy_checkout(workflow.folder)
            workflow.done()
    return workflow


@contextmanager
def once(folder: Path) -> Iterator[bool]:
    """Whether a folder has been made by another process; if not, it is made in the block, in
    which others wait. What a process began that failed is still there."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        yield (folder / "done").exists()
        (folder / "done").touch()


@pytest.fixture(scope="session")
def passed() -> Iterator[list[Path]]:
    """Folders to remove when the tests have ended."""
    folders: list[Path] = []
    yield folders
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def lasting(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest, passed: list[Path]
) -> Iterator[Path]:
    """A folder that is there until all tests have ended, and longer if this one fails: where ext4
    has just removed thousands of files, it takes seconds to make as many."""
    folder, failed = tmp_path_factory.mktemp("lasting"), request.session.testsfailed
    yield folder
    if request.session.testsfailed == failed:
        passed.append(folder)


@pytest.fixture
def smoke_copy(smoke: Workflow, lasting: Path) -> Iterator[Workflow]:
    """A copy of the finished smoke study that a test may change, but for what was fetched: files
    of a megabyte or more are links, which a test may replace and not write to."""
    data = smoke.folder / "results/fetch"
    large = {p for p in data.rglob("*") if p.is_file() and p.stat().st_size >= 2**20}
    before: dict[Path, tuple[int, int]] = {}

    def copy(source: str, target: str) -> None:
        if (path := Path(source)) in large:
            with suppress(OSError):  # ISOTROPY_SMOKE on another disk
                os.link(path, target)
                before[path] = _state(path)
                return
        shutil.copy2(source, target)

    shutil.copytree(smoke.folder, lasting / "checkout", ignore=BEING_WRITTEN, copy_function=copy)
    yield Workflow(lasting / "checkout")
    changed = [str(path) for path, state in before.items() if _state(path) != state]
    assert changed == [], "this test, or one beside it, needs the fixture smoke_whole_copy"


def _state(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns


@pytest.fixture
def smoke_whole_copy(smoke: Workflow, lasting: Path) -> Workflow:
    """A copy of the finished smoke study of which a test may change every file."""
    folder = lasting / "whole"
    shutil.copytree(smoke.folder, folder, ignore=BEING_WRITTEN)  # keeps time stamps
    return Workflow(folder)


@pytest.fixture
def checkout(lasting: Path) -> Workflow:
    """A fresh checkout without results."""
    return Workflow(copy_checkout(lasting / "fresh"))


@pytest.fixture(scope="session")
def minilm(smoke: Workflow) -> Path:
    """The real all-MiniLM-L6-v2, as the smoke study fetched it."""
    return smoke.folder / "results/fetch/all-MiniLM-L6-v2"
