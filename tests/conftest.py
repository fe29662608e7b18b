"""Shared fixtures: the project, the mirror of official data, and real Snakemake on copies of the
checkout."""

from __future__ import annotations

import gc
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISDIR
from typing import Any, NamedTuple

import hypothesis
import numpy as np
import pytest
from filelock import FileLock

from isotropy.files import sha256_file
from replication.plan.config import load_study, read_configuration
from replication.plan.pages import REPORT
from replication.plan.plan import Plan
from replication.provenance.format import LEDGER

# The same examples in every run, in any time; `--hypothesis-profile default` looks for new ones.
hypothesis.settings.register_profile("same", derandomize=True, deadline=None)
hypothesis.settings.load_profile("same")

gc.disable()  # until all tests are loaded

PROJECT = Path(__file__).resolve().parents[1]
# Caches of compiled code are copied: compiling again would take half a minute each time. Files
# that another process is still writing are left out.
WRITING = ("*.pyc.*", "*.tmp.*")
BEING_WRITTEN = shutil.ignore_patterns(*WRITING)
MADE_HERE = (".venv", ".git", "results", ".snakemake", ".*_cache", ".hypothesis", "*.egg-info")
NOT_COPIED = shutil.ignore_patterns(*MADE_HERE, *WRITING)

NOT_REACHED = re.compile(
    r"source \S+: no origin could be used.*(registry is not reached|is not on PATH).*"
)
"""What a job says that lacks npm, pip or their registries."""


def copy_checkout(target: Path) -> Path:
    """Copy the project's own files to `target`, as a fresh clone would have them."""
    shutil.copytree(PROJECT, target, symlinks=True, ignore=NOT_COPIED)
    return target


@dataclass
class Workflow:
    """A checkout in which Snakemake is run for real."""

    folder: Path
    configfiles: list[str] = field(default_factory=lambda: ["config/smoke.yaml"])

    def command(self, *args: str, cores: int = 2) -> list[str]:
        snakemake = [sys.executable, "-m", "snakemake", "--configfile", *self.configfiles]
        # The scheduler needs no solver: jobs take seconds.
        return [*snakemake, *f"--cores {cores} --quiet rules --scheduler greedy".split(), *args]

    def run(
        self, *args: str, cores: int = 2, env: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        command = self.command(*args, cores=cores)
        # No `check=True`: the output of a failed run says more than its return code.
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
        """Return the output of a run that must succeed. The test is skipped where the run needs a
        package client or a registry that is missing here."""
        result = self.run(*args, **options)  # type: ignore[arg-type]
        if result.returncode != 0 and (missing := NOT_REACHED.search(result.stdout)):
            pytest.skip(missing[0])
        assert result.returncode == 0, result.stdout[-6000:]
        return result.stdout

    def dry_run(self, *args: str) -> str:
        """Return the output of a dry run, which lists the jobs that a run would execute now."""
        command = [sys.executable, "-m", "snakemake", "--dry-run", *args]
        shown = subprocess.run(
            [*command, "--configfile", *self.configfiles],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr
        return shown.stdout + shown.stderr

    def planned(self) -> dict[str, str]:
        """Return the results that a run would make now: stem below `results/` -> rule."""
        return {job.stem: job.rule for job in read_dry_run(self.dry_run("--cores", "2"))}

    def plan(self) -> Plan:
        """Return the plan of what the configuration asks for."""
        files = [self.folder / name for name in ("config.yaml", *self.configfiles)]
        study = load_study(read_configuration(files, {}), self.folder)
        return Plan(study, self.folder, self.folder)


class Planned(NamedTuple):
    """A result in the output of a dry run, with its job's rule, threads and resources."""

    rule: str
    stem: str
    threads: int
    resources: dict[str, Any]


def read_dry_run(text: str) -> list[Planned]:
    """Parse the output of a dry run: one entry for each result of each job."""
    planned = []
    # Jobs of a group are indented
    for block in re.split(r"\n(?= *(?:local)?rule \w+:)", text):
        lines = re.findall(r"^ +(output|resources|threads): (.*)$", block, re.M)
        fields = dict(reversed(lines))
        rule = re.match(r" *(?:local)?rule (\w+):", block)
        stems = re.findall(r"results/(\S+)\.record\.json", fields.get("output", ""))
        assignments = fields.get("resources", "").split(", ")
        values = dict(part.split("=", 1) for part in assignments if "=" in part)
        resources = {k: int(v) if v.isdigit() else v for k, v in values.items()}
        threads = int(fields.get("threads", 1))
        planned += [Planned(rule[1], stem, threads, resources) for stem in stems if rule]
    return planned


RUN_SPECIFIC_FILES = {"run.json", "provenance.html", "index.html"}
"""Results that differ between runs, with the papers' reports: they say when and where the others
were made."""


def digests(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of each result, without records, logs and other files that hold times."""
    files = [
        p
        for p in (folder / "results").rglob("*")
        if p.is_file()
        and "logs" not in p.parts
        and not p.name.endswith(".record.json")
        and p.name not in {LEDGER, ".snakemake_timestamp", *RUN_SPECIFIC_FILES}
        and not p.stem.endswith(REPORT)
    ]
    return {p.relative_to(folder).as_posix(): sha256_file(p) for p in files}


def pytest_collection_finish() -> None:
    """Exempt what the test modules have loaded from garbage collection, a fifth of the run time."""
    gc.freeze()
    gc.enable()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Seed a module's generator `RNG` by the test's name, so that its numbers do not depend on
    which tests ran before in the same process."""
    rng = getattr(getattr(item, "module", None), "RNG", None)
    if rng is not None:
        seeded = np.random.default_rng(zlib.crc32(item.name.encode()))
        rng.bit_generator.state = seeded.bit_generator.state


def _has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


SLOW_FIXTURES = {"smoke", "checkout", "synthetic_models"}
"""Fixtures that run Snakemake, or make models of eleven architectures: `make check` leaves out unit
tests that use one."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that `make check` leaves out, and those that cannot run without a GPU."""
    for item in items:
        if item.get_closest_marker("gpu") and not _has_gpu():
            item.add_marker(pytest.mark.skip(reason="torch sees no GPU"))
        if not item.path.is_relative_to(PROJECT / "tests/unit") or SLOW_FIXTURES & _fixtures(item):
            item.add_marker(pytest.mark.study)


@pytest.hookimpl(specname="pytest_collection_modifyitems", trylast=True)
def pytest_order_tests(items: list[pytest.Item]) -> None:
    """Order the tests for two processes, each of which starts with one half of them: the first
    with those that need the smoke study, the second amid the many quick ones. A single process
    runs the quick ones first.
    """
    of_smoke, quick = (0, 1) if "PYTEST_XDIST_WORKER" in os.environ else (1, 0)

    def rank(item: pytest.Item) -> int:
        if "smoke" in _fixtures(item):
            return of_smoke
        if item.get_closest_marker("study") is None:
            return quick
        return 3 if "killed" in item.name else 2  # it waits for the smoke study in the end

    items.sort(key=rank)


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
    """Return a temporary folder that all pytest processes of this run share."""
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
    """Yield whether another process has already filled a folder; if not, the block must fill it,
    while other processes wait. What a failed block wrote is still there."""
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        yield (folder / "done").exists()
        (folder / "done").touch()


@pytest.fixture(scope="session")
def smoke_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where this process has its copy of the smoke study."""
    folder = tmp_path_factory.mktemp("copy")
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def smoke_copy(smoke: Workflow, smoke_folder: Path) -> Workflow:
    """A copy of the finished smoke study that a test may change: one for all tests of a process,
    made equal to the study again before each. A test that changes a file and keeps its size and
    time stamps must restore it."""
    make_equal(smoke.folder, smoke_folder)
    return Workflow(smoke_folder)


def make_equal(source: Path, target: Path) -> None:
    """Make a folder equal to another one: remove what is not there, or has another size or time
    stamp, and copy what is missing, with its time stamp."""
    names = set(os.listdir(source))
    names -= BEING_WRITTEN(str(source), sorted(names))
    target.mkdir(exist_ok=True)
    for path in target.iterdir():
        if path.name in names and _state(path) == _state(source / path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    for name in names:
        if _state(source / name) is True:
            make_equal(source / name, target / name)
        elif not os.path.lexists(target / name):
            shutil.copy2(source / name, target / name, follow_symlinks=False)
    shutil.copystat(source, target)


def _state(path: Path) -> bool | tuple[int, int, int]:
    """What tells a file from another one; True for a folder."""
    stat = path.lstat()
    return S_ISDIR(stat.st_mode) or (stat.st_mode, stat.st_size, stat.st_mtime_ns)


@pytest.fixture
def checkout(tmp_path: Path) -> Workflow:
    """A fresh checkout without results."""
    return Workflow(copy_checkout(tmp_path / "fresh"))


@pytest.fixture(scope="session")
def minilm(smoke: Workflow) -> Path:
    """The real all-MiniLM-L6-v2, as the smoke study fetched it."""
    return smoke.folder / "results/fetch/all-MiniLM-L6-v2"
