"""Changes for other packages in `docs/upstream/`: they apply, and their own tests need them."""

from __future__ import annotations

import logging
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from isotropy import patches

STATES = "tests/test_job_states.py"


def slurm_executor_sources(folder: Path) -> Path:
    spec = find_spec(patches.SLURM_EXECUTOR)
    assert spec is not None
    assert spec.origin is not None
    shutil.copytree(Path(spec.origin).parent, folder / patches.SLURM_EXECUTOR)
    return folder


def run_tests(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", STATES],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
    )
    return done.stdout


@pytest.mark.study
def test_change_for_the_slurm_executor_is_tested(project: Path, tmp_path: Path) -> None:
    assert version(patches.SLURM_EXECUTOR) == patches.FAULTY_VERSION
    sources = slurm_executor_sources(tmp_path)
    change = project / "docs/upstream/slurm-job-states.patch"
    subprocess.run(["git", "apply", change], cwd=sources, check=True)
    assert re.search(r"^4 passed", run_tests(sources), re.M)
    shutil.rmtree(sources / patches.SLURM_EXECUTOR)
    slurm_executor_sources(tmp_path)
    assert re.search(r"^3 failed, 1 passed", run_tests(sources), re.M)


def workflow(module: str) -> Any:
    executor = type("Executor", (), {"__module__": module})()
    return SimpleNamespace(
        scheduler=SimpleNamespace(_executor=executor),
        executor_settings=SimpleNamespace(no_requeue=True),
    )


@pytest.mark.parametrize(
    ("module", "installed", "mended", "warned"),
    [
        (patches.SLURM_EXECUTOR, "2.8.0", True, False),
        (patches.SLURM_EXECUTOR, "2.9.0", False, True),
        ("snakemake.executors.local", "2.8.0", False, False),
    ],
)
def test_only_the_faulty_version_is_mended_where_it_submits_jobs(
    module: str,
    installed: str,
    mended: bool,
    warned: bool,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    query, registered = object(), []
    plugin: Any = ModuleType(patches.SLURM_EXECUTOR)
    plugin.query_job_status = query
    monkeypatch.setitem(sys.modules, patches.SLURM_EXECUTOR, plugin)
    monkeypatch.setattr(patches, "version", lambda _name: installed)
    monkeypatch.setattr("atexit.register", lambda function, *_: registered.append(function))
    with caplog.at_level(logging.WARNING, "snakemake.logging"):
        patches.mend_slurm_executor(workflow(module))
    assert (plugin.query_job_status is not query) is mended
    assert registered == ([patches.cancel_submitted_jobs] if mended else [])
    assert [installed in record.getMessage() for record in caplog.records] == [True] * warned
