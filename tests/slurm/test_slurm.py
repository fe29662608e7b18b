"""`snakemake --profile slurm` on a real SLURM: results are identical, jobs go to the right
partitions, and failures are handled."""

from __future__ import annotations

import json
import re
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Workflow, digests
from tests.slurm.cluster import CGROUPS, Cluster, wait_until
from tests.slurm.conftest import Driver, StartedRuns
from tests.workflow.study import audit

pytestmark = pytest.mark.timeout(4000)
Submit = Callable[..., Driver]


# Two runs side by side that take minutes, started by the fixture `started`.


def test_jobs_get_the_gpus_they_request(started: StartedRuns, cluster: Cluster) -> None:
    started.faults.wait()
    # The number of the GPU, then three variables that switch the hub off
    one_gpu = (started.faults.folder / "results/faults/sees-1").read_text()
    assert one_gpu in {"0 1 1 1\n", "1 1 1 1\n"}
    assert (started.faults.folder / "results/faults/sees-2").read_text() == "0,1 1 1 1\n"
    for gpus in (1, 2):
        (job,) = cluster.states(f"rule_sees_wildcards_{gpus}")
        assert job["Partition"] == "gpu"
        assert f"gres/gpu:test={gpus}" in job["AllocTRES"]  # the model that was asked for


def test_a_job_out_of_memory_is_retried_with_more(started: StartedRuns, cluster: Cluster) -> None:
    started.faults.wait()
    first, second = cluster.states("rule_hungry")
    # The state of the job's step is OUT_OF_MEMORY; the job's own may be FAILED.
    assert first["State"] in {"OUT_OF_MEMORY", "FAILED"}
    if (CGROUPS / "memory").is_dir():
        log = started.faults.folder / f"results/logs/slurm/rule_hungry/{first['JobID']}.log"
        assert "oom-kill" in log.read_text()
    assert second["State"] == "COMPLETED"
    assert (first["ReqMem"], second["ReqMem"]) == ("1000M", "2000M")
    assert started.faults.runs_of("hungry") == 2
    assert started.faults.results("hungry")
    assert first["Partition"] == "cpu"
    assert "gpu" not in first["AllocTRES"]


def test_error_of_a_failing_job_names_its_logs(started: StartedRuns) -> None:
    assert started.faults.wait() == 1
    assert started.faults.runs_of("failing") == 3  # retries: 2, made by Snakemake alone
    assert not started.faults.results("failing")
    block = started.faults.output.split("Error in rule failing:")[1].split("\n\n")[0]
    assert "results/logs/faults/failing.log" in block
    log = started.faults.folder / "results/logs/faults/failing.log"
    assert log.read_text() == "nothing can be done\n"
    slurm_log = re.search(r"\S*results/logs/slurm/\S*rule_failing/\S*\.log", block)
    assert slurm_log is not None, block
    assert "exit 3" in (started.faults.folder / slurm_log[0]).read_text()


def test_a_job_stops_if_torch_sees_no_gpu(started: StartedRuns, cluster: Cluster) -> None:
    """torch cannot use the declared GPUs of the test SLURM."""
    started.faults.wait()
    jobs = cluster.states("rule_embed_sentences_wildcards_polarity-part")
    asked = [job for job in jobs if job["Partition"] == "gpu"]
    assert len(asked) == 3
    assert all(job["State"] == "FAILED" and "gres/gpu=1" in job["AllocTRES"] for job in asked)
    log = started.faults.folder / "results/logs/embed/polarity-part/all-MiniLM-L6-v2.log"
    assert "torch sees no GPU" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_results_are_identical_to_those_without_slurm(
    started: StartedRuns, smoke: Workflow, cluster: Cluster
) -> None:
    """For each kind of job of the smoke study, and a figure; seeds of a setup share a SLURM job."""
    started.study.done()
    local, on_slurm = digests(smoke.folder), digests(started.study.folder)
    assert {name for name in on_slurm if local.get(name) != on_slurm[name]} == set()
    results = started.study.folder / "results"
    assert [s for s in started.asked if not (results / f"{s}.record.json").is_file()] == []
    records = [json.loads(path.read_text()) for path in results.glob("optimize/**/*.record.json")]
    setups = {record["wildcards"]["setup"] for record in records}
    assert len(records) > len(setups) > 1
    jobs = cluster.states("_optimize_embeddings")
    trained = [job for job in jobs if job["Comment"].startswith("rule_optimize-")]
    # One submission for all seeds of a setup
    assert len(trained) == len(setups)
    assert {(job["Partition"], job["State"]) for job in trained} == {("cpu", "COMPLETED")}
    if (CGROUPS / "freezer").is_dir():  # the job finds its SLURM job id through its control group
        ids = {record["environment"]["slurm_job"] for record in records}
        assert ids == {job["JobID"] for job in trained}


def test_audit_passes_on_the_slurm_results(started: StartedRuns) -> None:
    started.study.done()
    done = audit(Workflow(started.study.folder), "verify", "--all")
    assert done.returncode == 0, done.stdout


# One run at a time, which is disturbed.


@pytest.mark.parametrize("name", ["stopped", "asked"])
def test_ctrl_c_cancels_submitted_jobs(
    faulty: Path, submit: Submit, cluster: Cluster, name: str
) -> None:
    """Also while Snakemake queries job states, during which it does not list its jobs as running;
    a slow sacct makes that last eight seconds here."""
    slow_sacct = faulty / "programs/sacct"
    slow_sacct.parent.mkdir()
    slow_sacct.write_text(f'#!/bin/sh\ntouch asks; sleep 8; exec {shutil.which("sacct")} "$@"\n')
    slow_sacct.chmod(0o755)

    def start(*programs: Path) -> Driver:
        return submit(
            faulty, f"results/faults/steps-{name}", "--snakefile", "faults.smk", programs=programs
        )

    first = start(slow_sacct.parent) if name == "asked" else start()
    wait_until(
        lambda: first.runs_of(f"step-{name}-0") + first.runs_of(f"step-{name}-1") == 2,
        "no job has started",
    )
    if name == "asked":
        (faulty / "asks").unlink(missing_ok=True)
        wait_until((faulty / "asks").exists, "states are not asked for")
    first.process.send_signal(signal.SIGINT)
    assert first.wait(300) == 1

    def states() -> list[str]:
        return [job["State"].split()[0] for job in cluster.states(f"step_wildcards_{name}_")]

    wait_until(lambda: not {"PENDING", "RUNNING", "COMPLETING"} & set(states()), "jobs go on")
    wait_until(
        lambda: f"_{name}_" not in cluster.ask("squeue", "-h", "-o", "%k"),
        "cancelled, but not gone",
    )
    assert states() == ["CANCELLED"] * 4
    assert not first.results("*")
    (faulty / "go").touch()
    start().done(900)
    assert first.results(f"steps-{name}")


def test_run_resumes_after_snakemake_was_killed(
    faulty: Path, submit: Submit, cluster: Cluster
) -> None:
    """Submitted jobs end by themselves; a second run executes only the remaining jobs."""

    def start(*args: str) -> Driver:
        return submit(faulty, "results/faults/steps-killed", "--snakefile", "faults.smk", *args)

    first = start()
    wait_until(
        lambda: sum(first.runs_of(f"step-killed-{n}") for n in range(4)) == 4, "no job has started"
    )
    first.process.kill()
    first.wait()
    (faulty / "go").touch()
    wait_until(
        lambda: "_killed_" not in cluster.ask("squeue", "-h", "-o", "%k"),
        "submitted jobs do not end",
    )
    assert len(first.results("step-killed-*")) == 4
    locked = start()
    assert locked.wait(300) == 1
    assert "LockException" in locked.output
    start("--unlock").done(900)
    start().done(900)
    assert [first.runs_of(f"step-killed-{n}") for n in range(4)] == [1, 1, 1, 1]
    assert first.runs_of("steps-killed") == 1


def test_a_cancelled_job_is_resubmitted(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """The state is `CANCELLED by 0` then, which the unpatched executor takes for a running
    job."""
    driver = submit(faulty, "results/faults/step-unwanted-0", "--snakefile", "faults.smk")
    wait_until(lambda: driver.runs_of("step-unwanted-0") == 1, "no job has started")
    cluster.wait_until_running("step_wildcards_unwanted_")
    (job,) = cluster.states("step_wildcards_unwanted_")
    cluster.ask("scancel", job["JobID"])
    wait_until(
        lambda: driver.runs_of("step-unwanted-0") == 2, "the cancelled job is not sent again"
    )
    cluster.wait_until_gone(job["JobID"])
    (faulty / "go").touch()
    driver.done(900)
    first, second = cluster.states("step_wildcards_unwanted_")
    assert first["State"] == "CANCELLED by 0"
    assert second["State"] == "COMPLETED"
