"""`isotropy status` and `isotropy plan` in a folder with results of real jobs."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.progress import Progress
from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.cli.common import study_plan
from isotropy.errors import IsotropyError
from isotropy.job import JOB_OUTPUT, Job
from isotropy.locks import is_locked, lock_file
from isotropy.prepare.spec import SentencesSpec
from isotropy.provenance.code import code_param
from isotropy.provenance.format import read_ledger
from isotropy.provenance.ledger import append_run
from isotropy.workflow.costs import CostModel, read_rates
from isotropy.workflow.progress import WorkProgress
from isotropy.workflow.status import PRIOR_SECONDS, STATES, Forecast, Result, measured_scale
from isotropy.workflow.summary import Expected, summarize
from tests.unit.jobs import Named, snakemake_object

DATASETS = ("polarity", "polarity-train", "polarity-part", "polarity-validation", "simlex999")


def prepare(project: Path, stem: str, changes: dict[str, Any] | None = None) -> Job[SentencesSpec]:
    """The job of a prepared data set of the default study, with changes of its spec."""
    spec = study_plan(project, Path(), []).spec(stem).model_copy(update=changes)
    given = snakemake_object(project, stem)
    given.params.spec = spec.canonical()
    given.params.code = code_param(project, given.rule)
    given.output = Named({"record": f"results/{stem}.record.json"}.items())
    return Job(given, SentencesSpec)


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
    assert {name: prepared[name] for name in ("done", "running", "failed", "stale")} == {
        "done": 1,
        "running": 0,
        "failed": 1,
        "stale": 2,
    }
    assert set(report["stale"]) == {"prepare/polarity-part", "prepare/polarity-train"}
    (failure,) = report["failed"]
    assert failure == {
        "name": "prepare/polarity-validation",
        "error": "empty data set: give another",
    }
    planned = study_plan(project, Path(), []).stems()
    for groups in (report["stages"], report["papers"]):
        counts = [v for name, v in groups.items() if name != "all"]
        assert sum(sum(c[s] for s in prepared if s in STATES) for c in counts) == len(planned)
    assert report["stages"]["all"]["seconds_left"] > prepared["seconds_left"] > 0


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


def test_summary_is_read_until_something_changes(
    finished: Path, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call plans nothing, and gives the same; another configuration is planned."""
    arguments = ("--root", str(finished))
    first = status(project, *arguments)
    command = importlib.import_module("isotropy.cli.status")

    def refuse(*_: object) -> None:
        raise IsotropyError("planned again")

    monkeypatch.setattr(command, "study_costs", refuse)
    assert status(project, *arguments) == first
    other = ("--project", str(project), "--configfile", str(project / "config/smoke.yaml"))
    assert "planned again" in invoke("status", *arguments, *other, code=2)


def test_plan_says_what_is_left_and_measures(finished: Path, project: Path) -> None:
    where = ("plan", "--root", str(finished), "--project", str(project))
    rows = {line.split()[0]: line.split() for line in invoke(*where).splitlines() if line.strip()}
    assert rows["prepare"][-2:-1] == [str(int(rows["prepare"][1]) - 1)]
    assert re.search(r"^measured: prepare \d+\.\d+ times", invoke(*where, "--measured"), re.M)


def test_measuring_needs_results(tmp_path: Path, project: Path) -> None:
    arguments = ("plan", "--root", str(tmp_path), "--project", str(project), "--measured")
    assert "lists no run" in invoke(*arguments, code=2)


def test_scale_is_recorded_by_estimated_time() -> None:
    def result(stage: str, expected: float, seconds: float | None, gpu: bool = False) -> Result:
        plan = Expected(stage, "shared", "", expected, gpu)
        ended = None if seconds is None else 1000.0 + seconds
        state = "waiting" if seconds is None else "done"
        return Result(f"{stage}/a", state, plan, seconds, seconds and 2 * seconds, ended)

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
    ends = [Result(f"embed/{i}", "done", plan, 100.0, 100.0, 1000.0) for i in range(10)]
    waiting = [Result(f"embed/b{i}", "waiting", plan) for i in range(20)]
    forecast = Forecast([*ends, *waiting])
    assert forecast.at_a_time == 10
    assert forecast.group(waiting).seconds_left == pytest.approx(200)
    assert forecast.group(waiting[:1]).seconds_left == pytest.approx(100)


def test_summaries_of_records_leave_the_chain_whole(finished: Path) -> None:
    data = (finished / "results/ledger.jsonl").read_bytes()
    lines = [json.loads(line) for line in data.splitlines()[1:]]
    assert all(line["seconds"] >= 0 and line["rule"] == "prepare_sentences" for line in lines)
    records, breaks, _ = read_ledger(data)
    assert len(records) == 3
    assert breaks == []


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
    progress = WorkProgress(display, finished, project, summarize(costs), names, since=0)
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


def test_output_of_a_job_goes_to_its_log_beside_bars(tmp_path: Path, project: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from isotropy.job import Job; from tests.unit.jobs "
        "import NoteSpec, snakemake_object\n"
        f"with Job(snakemake_object(Path({str(project)!r}), 'a'), NoteSpec) as job:\n"
        "    print('by a library', file=sys.stderr)\n"
        "    job.output['note'].write_text('a')\n"
    )
    environment = os.environ | {JOB_OUTPUT: "log", "PYTHONPATH": str(project)}
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    lines = (tmp_path / "results/logs/a.log").read_text().splitlines()
    assert [line.split(" ", 1)[-1] for line in lines[:2]] == [
        "a: started by rule prepare_sentences",
        "a library",
    ]
