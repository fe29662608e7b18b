"""A short version of the full-scale study: jobs of each kind, on synthetic models and data in the
formats of the real ones, fetched from a local hub. `make rehearsal` runs all jobs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import matplotlib.image
import numpy as np
import pytest

from isotropy.palette import STATUS as STATUSES
from isotropy.report.draw import draw
from tests.conftest import Workflow, copy_checkout
from tests.rehearsal.kinds import covering_jobs, kinds_of
from tests.rehearsal.make_hub import STATUS, make
from tests.rehearsal.run import CONFIGFILES, statuses
from tests.rehearsal.serve import served
from tests.workflow.study import audit_by_command

WITHOUT_SOURCES = ("figures/mickus2024/figure1", "tables/ethayarajh2019/published_layers")
"""A theorem and printed numbers: they get the status `rehearsal` from the configuration only."""


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
        targets = [f"results/{stem}.record.json" for stem in (*stems, *WITHOUT_SOURCES)]
        workflow.done("--", *targets, env=env)
        yield FinishedRehearsal(workflow, stems)


def test_each_kind_of_job_has_run_with_status_rehearsal(rehearsed: FinishedRehearsal) -> None:
    """The jobs cover each architecture, fine-tuning method and task."""
    expected = set().union(*map(kinds_of, rehearsed.workflow.plan().stems()))
    results = rehearsed.workflow.folder / "results"
    done = [stem for stem in rehearsed.stems if (results / f"{stem}.record.json").is_file()]
    assert set().union(*map(kinds_of, done)) == expected
    status_by_record = statuses(results)
    assert {results / f"{stem}.record.json" for stem in WITHOUT_SOURCES} < set(status_by_record)
    assert set(status_by_record.values()) == {STATUS}


def test_audit_of_the_rehearsal_passes(rehearsed: FinishedRehearsal) -> None:
    done = audit_by_command(rehearsed.workflow, "verify", "--all")
    assert done.returncode == 0, done.stdout


def test_publication_figure_of_a_rehearsal_keeps_the_banner(
    rehearsed: FinishedRehearsal, tmp_path: Path
) -> None:
    """Otherwise it would look like a real result."""
    name = WITHOUT_SOURCES[0].removeprefix("figures/")
    draw(rehearsed.workflow.folder, name, tmp_path / "figure.png", "paper", "column")
    pixels = mpl.image.imread(tmp_path / "figure.png")[..., :3]
    purple = np.abs(pixels - mpl.colors.to_rgb(STATUSES[STATUS])).max(axis=2) < 0.01
    assert purple[: len(pixels) // 4].sum() > 1000
    assert not purple[len(pixels) // 4 :].any()


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
