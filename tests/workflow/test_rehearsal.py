"""A short version of the full-scale study: jobs of each kind, on synthetic models and data in the
formats of the real ones, fetched from a local hub. `make rehearsal` runs all jobs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.conftest import Workflow, copy_checkout
from tests.rehearsal.kinds import covering_jobs, kinds_of
from tests.rehearsal.make_hub import STATUS, make
from tests.rehearsal.run import CONFIGFILES, statuses
from tests.rehearsal.serve import served
from tests.workflow.study import audit_by_command

DRAWN = "geometry/rudman2024/normal"
WITHOUT_SOURCES = (DRAWN, "figures/mickus2024/figure1", "tables/ethayarajh2019/published_layers")
"""Drawn samples, a theorem and printed numbers: they get the status `rehearsal` from the
configuration only. Figures and tables of a paper are one job, which needs all its measurements:
these are planned, not run."""


@dataclass
class FinishedRehearsal:
    """A finished short rehearsal: the checkout, and the stems of the requested jobs."""

    workflow: Workflow
    stems: list[str]


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FinishedRehearsal]:
    base = tmp_path_factory.mktemp("rehearsal")
    folder = copy_checkout(base / "checkout")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    make(folder / ".rehearsal", None, port)
    workflow = Workflow(folder, CONFIGFILES)
    stems = covering_jobs(workflow.plan())
    with served(folder / ".rehearsal", port) as address:
        env = {"HF_ENDPOINT": address, "HF_HOME": str(base / "hub")}
        targets = [f"results/{stem}.record.json" for stem in stems]
        workflow.done("--", *targets, env=env)
        yield FinishedRehearsal(workflow, stems)


def test_each_kind_of_job_has_run_with_status_rehearsal(rehearsed: FinishedRehearsal) -> None:
    """The jobs cover each architecture, fine-tuning method and task."""
    expected = set().union(*map(kinds_of, rehearsed.workflow.plan().stems()))
    results = rehearsed.workflow.folder / "results"
    done = [stem for stem in rehearsed.stems if (results / f"{stem}.record.json").is_file()]
    assert set().union(*map(kinds_of, done)) == expected
    status_by_record = statuses(results)
    assert results / f"{DRAWN}.record.json" in status_by_record
    assert set(status_by_record.values()) == {STATUS}


def test_audit_of_the_rehearsal_passes(rehearsed: FinishedRehearsal) -> None:
    done = audit_by_command(rehearsed.workflow, "verify", "--all")
    assert done.returncode == 0, done.stdout


def test_results_without_sources_are_planned_as_rehearsal(rehearsed: FinishedRehearsal) -> None:
    plan = rehearsed.workflow.plan()
    assert all(plan.spec(stem).model_dump()["rehearsal"] for stem in WITHOUT_SOURCES)


def test_rerun_reproduces_jobs_of_each_stage(rehearsed: FinishedRehearsal) -> None:
    """One job of each stage, with models of different kinds, and one with several data sets."""
    first = {stem.split("/")[0]: stem for stem in rehearsed.stems if "gpt" in stem}
    first = {stem.split("/")[0]: stem for stem in reversed(rehearsed.stems)} | first
    first["static"] = next(stem for stem in rehearsed.stems if "/static/" in stem)
    results = rehearsed.workflow.folder / "results"
    records = [json.loads((results / f"{s}.record.json").read_text()) for s in first.values()]
    paths = [record["outputs"][0]["path"] for record in records]
    done = audit_by_command(rehearsed.workflow, "rerun", *paths)
    assert done.returncode == 0, done.stdout
    assert len(first) == 6
