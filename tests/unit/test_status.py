"""`isotropy status` and `isotropy plan` in a folder with results of real jobs."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from isotropy.errors import IsotropyError
from replication.cli import app
from replication.cli.common import study_plan
from replication.job import Job
from replication.plan.costs import CostModel, read_rates
from replication.plan.progress import WorkProgress
from replication.plan.status import (
    PRIOR_SECONDS,
    STATES,
    Expected,
    Forecast,
    ResultState,
    expected_results,
    measured_scale,
)
from replication.provenance.code import Codebase
from replication.provenance.ledger import append_run
from replication.resources import is_locked, lock_file
from replication.spec import Spec
from tests.unit.jobs import Named, snakemake_object

DATASETS = ("polarity", "polarity-train", "polarity-part", "polarity-validation", "simlex999")


def prepare(project: Path, stem: str, changes: dict[str, Any] | None = None) -> Job[Any]:
    """The job of a prepared data set of the default study, with changes of its spec. Sources that
    it reads are empty folders.
    """
    plan = study_plan(project, Path(), [])
    files = plan.inputs(stem)
    for folder in (Path(path) for paths in files.values() for path in paths):
        name = folder.relative_to("results").as_posix()
        if not folder.exists():
            with _job(project, name, plan.spec(name), {}, {"source": str(folder)}):
                folder.mkdir()
    return _job(project, stem, plan.spec(stem).model_copy(update=changes), files, {})


def _job(
    project: Path, stem: str, spec: Spec, files: dict[str, Any], outputs: dict[str, str]
) -> Job[Any]:
    given = snakemake_object(project, stem, inputs=files)
    given.params.spec, given.resources.places = spec.canonical(), spec.places()
    given.params.code = Codebase(project).code(given.rule).param()
    given.output = Named((outputs | {"record": f"results/{stem}.record.json"}).items())
    return Job(given, type(spec))


def status(project: Path, *arguments: str) -> Any:
    return invoke("status", "--project", str(project), "--json", *arguments)


def invoke(*arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == code, result.output
    return json.loads(result.output) if "--json" in arguments else result.output


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Path:
    """A folder with one result in each state."""
    folder, before = tmp_path_factory.mktemp("run"), Path.cwd()
    os.chdir(folder)
    done, old_spec, old_code, failed, killed = (f"prepare/{name}" for name in DATASETS)
    append_run(Path("results"), project, [project / "config.yaml"], {})
    changes = {"label_names": ["bad", "good"]}
    for stem, changed in ((done, None), (old_spec, changes), (old_code, None)):
        with prepare(project, stem, changed):
            pass
    ledger = Path("results/ledger.jsonl")  # as by a checkout with other code
    lines = ledger.read_text().splitlines()
    lines[-1] = re.sub(r'"code":"[0-9a-f]{64}', f'"code":"{64 * "0"}', lines[-1])
    ledger.write_text("\n".join(lines) + "\n")
    with pytest.raises(SystemExit), prepare(project, failed):
        raise IsotropyError("empty data set: give another")
    with Path(f"results/logs/{failed}.log").open("a") as log_file:  # by a library, at exit
        log_file.write("a long warning of several lines\n" * 200)
    log = Path(f"results/logs/{killed}.log")  # a killed job leaves a log without an end
    log.write_text(f"12:00:00 {killed}: started by rule prepare_sentences\n")
    os.chdir(before)
    return folder


def test_states_are_those_of_the_jobs(finished: Path, project: Path) -> None:
    report = status(project, "--root", str(finished))
    prepared = report["stages"]["prepare"]
    assert prepared.items() >= {"done": 1, "running": 0, "failed": 1, "stale": 2}.items()
    assert set(report["stale"]) == {"prepare/polarity-part", "prepare/polarity-train"}
    (failure,) = report["failed"]
    assert failure["name"] == "prepare/polarity-validation"
    assert "empty data set" in failure["error"]
    planned = study_plan(project, Path(), []).stems()
    for groups in (report["stages"], report["papers"]):
        counts = [v for name, v in groups.items() if name != "all"]
        assert sum(sum(c[s] for s in prepared if s in STATES) for c in counts) == len(planned)
    assert report["stages"]["all"]["seconds_left"] > prepared["seconds_left"] > 0


def test_records_that_the_ledger_does_not_name_as_they_are(
    finished: Path, project: Path, tmp_path: Path
) -> None:
    """An edited record is stale; records without their ledger are an error, for all commands."""
    shutil.copytree(finished, folder := tmp_path / "run")
    record = folder / "results/prepare/polarity.record.json"
    record.write_text(record.read_text().replace('"ended": "2', '"ended": "1', 1))
    assert "prepare/polarity" in status(project, "--root", str(folder))["stale"]
    (folder / "results/ledger.jsonl").unlink()
    where = ("--project", str(project), "--root", str(folder))
    files = ("--configfile", str(project / "config.yaml"))
    for command in ("status", "plan"):
        assert "restore it" in invoke(command, *where, *files, code=2)


def test_a_job_runs_while_it_holds_its_lock(
    tmp_path: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    stem = "prepare/polarity"
    lock = Path("results/prepare/.polarity.work/lock")
    arguments = ("--configfile", str(project / "config.yaml"))
    with prepare(project, stem):
        os.utime(lock, (time.time() - 60,) * 2)
        assert is_locked(lock)
        (running,) = status(project, *arguments)["running"]
        assert running["name"] == stem
        assert 59 < running["seconds"] < 90
        assert running["seconds_expected"] > 0
    assert status(project, *arguments)["running"] == []
    assert status(project, *arguments)["stages"]["prepare"]["done"] == 1
    lock.parent.mkdir()  # what a killed job leaves
    lock.touch()
    os.utime(lock, (time.time() - 60,) * 2)
    assert not is_locked(lock)
    with lock.open("w") as stream:
        lock_file(stream, wait=False)
        assert is_locked(lock)


def test_plan_says_what_is_left_and_measures(finished: Path, project: Path) -> None:
    where = ("plan", "--root", str(finished), "--project", str(project))
    rows = {line.split()[0]: line.split() for line in invoke(*where).splitlines() if line.strip()}
    assert rows["prepare"][-2:-1] == [str(int(rows["prepare"][1]) - 1)]
    assert re.search(r"^measured: prepare \d+\.\d+ times", invoke(*where, "--measured"), re.M)


def test_scale_is_recorded_by_estimated_time() -> None:
    def result(
        stage: str, expected: float, seconds: float | None, gpu: bool = False
    ) -> ResultState:
        plan = Expected(stage, "shared", "", expected, gpu)
        ended = None if seconds is None else 1000.0 + seconds
        state = "waiting" if seconds is None else "done"
        return ResultState(f"{stage}/a", state, plan, seconds, seconds and 2 * seconds, ended)

    results = [
        result("embed", 1e6, 2e6),
        result("embed", 3e6, 2e6),
        result("geometry", 4e6, 12e6),
        result("finetune", 5e6, 1e6, gpu=True),
        result("prepare", 1e-3, 10),
    ]
    scale = measured_scale(results)
    assert scale == pytest.approx(
        {
            ("embed", False): 2.0,
            ("geometry", False): 6.0,
            ("all", False): 4.0,
            ("finetune", True): 0.4,
            ("all", True): 0.4,
            ("prepare", False): 4 + 20 / PRIOR_SECONDS,  # one short job
        },
        rel=1e-3,
    )
    waiting = [result("geometry", 10, None), result("optimize", 10, None)]
    forecast = Forecast([*results, *waiting])
    # Only the job that ended last ended on the last day
    assert forecast.at_a_time == pytest.approx(1)
    assert [forecast.seconds_left(r) for r in waiting] == pytest.approx([30, 20], rel=1e-3)
    assert forecast.group(waiting).seconds_left == pytest.approx(50, rel=1e-3)
    assert forecast.group([*results, *waiting]).work == pytest.approx(1, abs=1e-4)


def test_time_left_is_at_least_that_of_the_longest_job() -> None:
    plan = Expected("embed", "shared", "", 100.0, False)
    ends = [ResultState(f"embed/{i}", "done", plan, 100.0, 100.0, 1000.0) for i in range(10)]
    waiting = [ResultState(f"embed/b{i}", "waiting", plan) for i in range(20)]
    forecast = Forecast([*ends, *waiting])
    assert forecast.at_a_time == 10
    assert forecast.group(waiting).seconds_left == pytest.approx(200)
    assert forecast.group(waiting[:1]).seconds_left == pytest.approx(100)


def test_bars_of_a_run_count_work(finished: Path, project: Path) -> None:
    """One for all work that the run makes, one for each running job; the plugin's are hidden."""
    lock = finished / "results/prepare/.simlex999.work/lock"
    lock.parent.mkdir()
    display = Progress(disable=True)
    of_plugin = display.add_task("Total Progress")
    costs = CostModel(
        study_plan(project, finished, None), read_rates(project / "config/rates.yaml")
    )
    names = [f"prepare/{name}" for name in DATASETS]
    progress = WorkProgress(
        display, finished, Codebase(project), expected_results(costs), names, since=0
    )
    with lock.open("w") as stream:
        lock_file(stream, wait=False)
        progress.update()
        first = [(task.description, task.visible) for task in display.tasks]
        done = display.tasks[1].percentage
    shutil.rmtree(lock.parent)
    progress.update()
    assert [visible for _, visible in first] == [False, True, True]
    assert [text.split(",")[0] for text, _ in first[1:]] == ["all work", "prepare/simlex999"]
    assert display.tasks[0].id == of_plugin
    assert 0 < done < 100
    assert len(display.tasks) == 2
