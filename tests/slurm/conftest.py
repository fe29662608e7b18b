"""Fixtures that start a SLURM, and run Snakemake with the project's profile on it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from replication.plan.plan import Plan
from tests.conftest import BEING_WRITTEN, Workflow, copy_checkout
from tests.slurm.cluster import Cluster, reason_unavailable, running
from tests.slurm.settings import SHORT_WAITS


@dataclass
class Driver:
    """A `snakemake --profile slurm` in a checkout."""

    folder: Path
    process: subprocess.Popen[bytes]
    out: Path

    @property
    def output(self) -> str:
        return self.out.read_text()

    @property
    def job_logs(self) -> str:
        """The ends of the logs of SLURM jobs."""
        logs = sorted(self.folder.glob("results/logs/slurm/**/*.log"))
        return "\n".join(f"{log}:\n{log.read_text()[-1500:]}" for log in logs)

    def wait(self, seconds: float = 3000) -> int:
        return self.process.wait(seconds)

    def done(self, seconds: float = 3000) -> str:
        assert self.wait(seconds) == 0
        return self.output

    def end(self) -> None:
        """Kill Snakemake if it still runs."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def results(self, pattern: str) -> list[Path]:
        return sorted((self.folder / "results/faults").glob(pattern))

    def runs_of(self, name: str) -> int:
        """Return how often a job of faults.smk was executed."""
        file = self.folder / f"ran-{name}"
        return len(file.read_text().splitlines()) if file.exists() else 0


DRIVERS: list[Driver] = []  # all that were started


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the output of SLURM and of the last drivers to the report of a failure, before they are
    removed."""
    report = yield
    cluster = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and cluster is not None:
        report.sections.append(("SLURM", cluster.describe()))
        for driver in [d for d in DRIVERS if d.out.exists()][-3:]:
            output = f"{driver.output[-6000:]}\n{driver.job_logs}"
            ended = f"exit code {driver.process.poll()}\n{output}"
            report.sections.append((str(driver.out), ended))
    return report


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    if reason := reason_unavailable():
        pytest.skip(f"no SLURM: {reason}")
    with running() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def submit(cluster: Cluster) -> Iterator[Callable[..., Driver]]:
    """Return a function that starts Snakemake with the project's profile in a checkout; processes
    that still run at the end of the session are killed."""

    def start(
        folder: Path, *args: str, configfiles: tuple[str, ...] = (), programs: tuple[Path, ...] = ()
    ) -> Driver:
        command = [sys.executable, "-m", "snakemake", *args, "--profile", "slurm", *SHORT_WAITS]
        defaults = folder / "profiles/default/config.yaml"
        if "slurm_account" not in defaults.read_text():  # as docs/cluster.md explains
            defaults.write_text(defaults.read_text() + "  slurm_account: test\n")
        out = folder / f"driver-{len(DRIVERS)}.out"
        environment = cluster.environment()
        environment["PATH"] = os.pathsep.join([*map(str, programs), environment["PATH"]])
        with out.open("wb") as file:
            process = subprocess.Popen(
                [*command, "--configfile", "config/smoke.yaml", *configfiles],
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
            )
        DRIVERS.append(Driver(folder, process, out))
        return DRIVERS[-1]

    yield start
    for driver in DRIVERS:
        driver.end()


@pytest.fixture
def faulty(checkout: Workflow, project: Path) -> Iterator[Path]:
    """A checkout with the jobs of faults.smk; jobs that still wait at the end are released."""
    shutil.copy(project / "tests/slurm/faults.smk", checkout.folder)
    yield checkout.folder
    for driver in DRIVERS:
        if driver.out.parent == checkout.folder:
            driver.end()
    (checkout.folder / "go").touch()


@dataclass
class StartedRuns:
    """Two runs side by side. `asked`: the results requested of `study`, as paths below `results/`
    without suffix.
    """

    study: Driver
    faults: Driver
    asked: list[str]


def one_per_stage(plan: Plan) -> list[str]:
    """Choose a result of each stage and paper."""
    stages = ("embed", "finetune", "geometry", "similarity")
    chosen: dict[tuple[str, ...], str] = {}
    for stem in plan.stems():
        stage, *rest = stem.split("/")
        if stage in stages:
            chosen.setdefault((stage, rest[0] if stage != "embed" else rest[1]), stem)
    return list(chosen.values())


@pytest.fixture(scope="session")
def started(
    submit: Callable[..., Driver],
    smoke: Workflow,
    tmp_path_factory: pytest.TempPathFactory,
    project: Path,
) -> StartedRuns:
    """Start two runs: `study` makes jobs of each kind, grouped seeds and a figure;
    `faults` runs failing jobs, and jobs with GPUs, in a copy of the finished study."""
    base = tmp_path_factory.mktemp("slurm")
    study = copy_checkout(base / "study")
    faults = base / "faults"
    shutil.copytree(smoke.folder, faults, symlinks=True, ignore=BEING_WRITTEN)
    shutil.copy(project / "tests/slurm/faults.smk", faults)
    (faults / "cuda.yaml").write_text("compute: {device: cuda}\n")
    names = ["hungry", "failing", "sees-1", "sees-2"]
    targets = [f"results/faults/{name}" for name in names]
    targets += ["results/embed/polarity-part/all-MiniLM-L6-v2.safetensors"]
    faulty = (*targets, "--snakefile", "faults.smk", "--set-resources", "sees:gpu_model=test")
    plan = smoke.plan()
    seeds = [stem for stem in plan.stems() if stem.startswith("optimize/mickus2024/polarity/")]
    asked = sorted({*one_per_stage(plan), *seeds, "figures/mickus2024/figure1"})
    return StartedRuns(
        submit(study, *(f"results/{stem}.record.json" for stem in asked)),
        submit(faults, *faulty, configfiles=("cuda.yaml",)),
        asked,
    )
