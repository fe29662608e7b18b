"""The fault of the SLURM executor is mended in the version that has it."""

from __future__ import annotations

import logging
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from replication import patches


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
