"""`snakemake --profile slurm` on a real SLURM: the study's bytes, where jobs land, what happens
when something goes wrong."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Workflow
from tests.slurm.cluster import CGROUPS, Cluster, waited
from tests.slurm.conftest import Driver, Started

pytestmark = pytest.mark.timeout(4000)
Submit = Callable[..., Driver]


def artefacts(folder: Path) -> dict[str, str]:
    """Digest of every result, by path; records, logs and the pages with hosts and times tell of the
    run, not of the result.
    """
    own = ("logs/", "runs.jsonl", "ledger", "index.html", "site/provenance.html", "site/run.json")
    found = {}
    for path in sorted((folder / "results").rglob("*")):
        name = path.relative_to(folder / "results").as_posix()
        if path.is_file() and not name.endswith(".record.json") and not name.startswith(own):
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
    return found


# What became of two runs that go on side by side, and take minutes.


def test_gpus_are_given_as_asked(started: Started, cluster: Cluster) -> None:
    started.faults.wait()
    # The GPU, and thrice that the hub is off
    one_gpu = (started.faults.folder / "results/faults/sees-1").read_text()
    assert one_gpu in {"0 1 1 1\n", "1 1 1 1\n"}
    assert (started.faults.folder / "results/faults/sees-2").read_text() == "0,1 1 1 1\n"
    for gpus in (1, 2):
        (job,) = cluster.states(f"rule_sees_wildcards_{gpus}")
        assert job["Partition"] == "gpu"
        assert f"gres/gpu:test={gpus}" in job["AllocTRES"]  # the model that was asked for


def test_a_job_out_of_memory_gets_more(started: Started, cluster: Cluster) -> None:
    started.faults.wait()
    first, second = cluster.states("rule_hungry")
    # The job's step is out of memory, and the job then fails or is too.
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


def test_a_job_past_its_time_limit_gets_more(started: Started, cluster: Cluster) -> None:
    started.faults.wait()
    first, second = cluster.states("rule_endless")
    assert (first["State"], second["State"]) == ("TIMEOUT", "COMPLETED")
    assert (first["Timelimit"], second["Timelimit"]) == ("00:03:00", "00:06:00")
    assert started.faults.results("endless")


def test_a_failing_job_names_its_logs(started: Started) -> None:
    assert started.faults.wait() == 1
    assert started.faults.runs_of("failing") == 3  # retries: 2, made by Snakemake alone
    assert not started.faults.results("failing")
    block = started.faults.said.split("Error in rule failing:")[1].split("\n\n")[0]
    assert "results/logs/faults/failing.log" in block
    assert (
        started.faults.folder / "results/logs/faults/failing.log"
    ).read_text() == "nothing can be done\n"
    kept = re.search(r"\S*results/logs/slurm/\S*rule_failing/\S*\.log", block)
    assert kept is not None, block
    assert "exit 3" in (started.faults.folder / kept[0]).read_text()


def test_a_job_without_its_gpu_stops(started: Started, cluster: Cluster) -> None:
    """Here torch sees none of the declared GPUs."""
    started.faults.wait()
    jobs = cluster.states("rule_embed_sentences_wildcards_polarity-part")
    asked = [job for job in jobs if job["Partition"] == "gpu"]
    assert len(asked) == 3
    assert all(job["State"] == "FAILED" and "gres/gpu=1" in job["AllocTRES"] for job in asked)
    log = started.faults.folder / "results/logs/embed/polarity-part/all-MiniLM-L6-v2.log"
    assert "torch sees no GPU" in log.read_text()
    assert "Traceback" not in log.read_text()


def test_results_have_the_same_bytes(started: Started, smoke: Workflow, cluster: Cluster) -> None:
    """Each kind of job of the smoke study, and a figure."""
    started.study.done()
    here, there = artefacts(smoke.folder), artefacts(started.study.folder)
    assert {name for name in there if here.get(name) != there[name]} == set()
    results = started.study.folder / "results"
    assert [s for s in started.asked if not (results / f"{s}.record.json").is_file()] == []
    records = [json.loads(path.read_text()) for path in results.glob("optimize/**/*.record.json")]
    setups = {record["wildcards"]["setup"] for record in records}
    assert len(records) > len(setups) > 1
    trained = [
        job
        for job in cluster.states("_optimize_embeddings")
        if job["Comment"].startswith("rule_optimize-")
    ]
    # The seeds of a setup go together
    assert len(trained) == len(setups)
    assert {(job["Partition"], job["State"]) for job in trained} == {("cpu", "COMPLETED")}
    if (CGROUPS / "freezer").is_dir():  # SLURM's number of a job is known by its control group
        assert {record["environment"]["slurm_job"] for record in records} == {
            job["JobID"] for job in trained
        }


def test_the_study_is_verified_where_it_ran(
    started: Started, smoke: Workflow, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The audit finds each result of the cluster's run as its record says. What SLURM costs is
    printed."""
    started.study.done()
    folders = [str(smoke.folder), str(started.study.folder)]
    done = subprocess.run(
        [sys.executable, project / "benchmarks/overhead.py", *folders],
        capture_output=True,
        text=True,
        check=True,
    )
    with capsys.disabled():
        print("\n" + done.stdout)
    done = subprocess.run(
        [sys.executable, "-m", "isotropy", "audit", "verify", "--all"],
        cwd=started.study.folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


# One run at a time, and what is done to it.


@pytest.mark.parametrize("name", ["stopped", "asked"])
def test_ctrl_c_cancels_what_was_submitted(
    faulty: Path, submit: Submit, cluster: Cluster, name: str
) -> None:
    """Also while Snakemake asks for the states of its jobs, which takes eight seconds here: it
    holds none of them meanwhile."""
    asks = faulty / "programs/sacct"
    asks.parent.mkdir()
    asks.write_text(f'#!/bin/sh\ntouch asks; sleep 8; exec {shutil.which("sacct")} "$@"\n')
    asks.chmod(0o755)

    def start(*programs: Path) -> Driver:
        return submit(
            faulty, f"results/faults/steps-{name}", "--snakefile", "faults.smk", programs=programs
        )

    first = start(asks.parent) if name == "asked" else start()
    waited(
        lambda: first.runs_of(f"step-{name}-0") + first.runs_of(f"step-{name}-1") == 2,
        "no job has started",
        300,
    )
    if name == "asked":
        (faulty / "asks").unlink(missing_ok=True)
        waited((faulty / "asks").exists, "states are not asked for", 300)
    first.process.send_signal(signal.SIGINT)
    assert first.wait(300) == 1

    def states() -> list[str]:
        return [job["State"].split()[0] for job in cluster.states(f"step_wildcards_{name}_")]

    waited(lambda: not {"PENDING", "RUNNING", "COMPLETING"} & set(states()), "jobs go on", 300)
    waited(
        lambda: f"_{name}_" not in cluster.ask("squeue", "-h", "-o", "%k"),
        "cancelled, but not gone",
        300,
    )
    assert states() == ["CANCELLED"] * 4
    assert not first.results("*")
    (faulty / "go").touch()
    start().done(900)
    assert first.results(f"steps-{name}")


def test_small_jobs_are_sent_together(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """Four in one submission, with the memory and GPU of one and the time of all; one that fails
    takes all along, each time.

    In a folder of their own, as on scratch.
    """
    scratch = faulty / "scratch"
    targets = [f"results/faults/small-{n}" for n in range(4)]
    groups = (
        "--groups",
        "small=small",
        "--group-components",
        "small=4",
        "--snakefile",
        "faults.smk",
        "--retries",
        "1",
    )
    elsewhere = ("--directory", "scratch")
    failed = replace(submit(faulty, *targets, *groups, *elsewhere), folder=scratch)
    assert failed.wait(900) == 1
    kept = re.search(
        r"\S*results/logs/slurm/group_small_small/\S*\.log",
        failed.said.split("Error in group small")[1],
    )
    assert kept is not None, failed.said
    assert "exit 3" in Path(kept[0]).read_text()
    assert not failed.results("small-*")
    (scratch / "mended").touch()
    submit(faulty, *targets, *groups, *elsewhere).done(900)
    *sent, last = cluster.states("rule_small_small")
    assert [job["State"] for job in [*sent, last]] == ["FAILED", "FAILED", "COMPLETED"]
    assert (last["ReqMem"], last["Timelimit"], last["Partition"]) == ("1000M", "00:40:00", "gpu")
    assert "cpu=1," in last["AllocTRES"]
    assert "gres/gpu=1" in last["AllocTRES"]
    assert failed.runs_of("small-1") == 3
    # Again, or not begun before
    assert all(failed.runs_of(f"small-{n}") in (1, 2, 3) for n in (0, 2, 3))


def test_a_killed_driver_is_taken_up(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """What was submitted ends by itself; a second run does only what is left, and nothing twice."""

    def start(*args: str) -> Driver:
        return submit(faulty, "results/faults/steps-killed", "--snakefile", "faults.smk", *args)

    first = start()
    waited(
        lambda: sum(first.runs_of(f"step-killed-{n}") for n in range(4)) == 4,
        "no job has started",
        300,
    )
    first.process.kill()
    first.wait()
    (faulty / "go").touch()
    waited(
        lambda: "_killed_" not in cluster.ask("squeue", "-h", "-o", "%k"),
        "submitted jobs do not end",
        300,
    )
    assert len(first.results("step-killed-*")) == 4
    locked = start()
    assert locked.wait(300) == 1
    assert "LockException" in locked.said
    start("--unlock").done(900)
    start().done(900)
    assert [first.runs_of(f"step-killed-{n}") for n in range(4)] == [1, 1, 1, 1]
    assert first.runs_of("steps-killed") == 1


def test_a_cancelled_job_is_sent_again(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """Accounting has `CANCELLED by 0` then, which the executor by itself takes for a job that still
    runs."""
    driver = submit(faulty, "results/faults/step-unwanted-0", "--snakefile", "faults.smk")
    waited(lambda: driver.runs_of("step-unwanted-0") == 1, "no job has started", 300)
    cluster.wait_until_running("step_wildcards_unwanted_")
    (job,) = cluster.states("step_wildcards_unwanted_")
    cluster.ask("scancel", job["JobID"])
    waited(
        lambda: driver.runs_of("step-unwanted-0") == 2, "the cancelled job is not sent again", 300
    )
    cluster.wait_until_gone(job["JobID"])
    (faulty / "go").touch()
    driver.done(900)
    first, second = cluster.states("step_wildcards_unwanted_")
    assert first["State"] == "CANCELLED by 0"
    assert second["State"] == "COMPLETED"


def test_a_preempted_job_is_sent_again(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """The executor by itself leaves it to SLURM, where jobs are not started again."""
    driver = submit(faulty, "results/faults/step-preempted-0", "--snakefile", "faults.smk")
    waited(lambda: driver.runs_of("step-preempted-0") == 1, "no job has started", 300)
    cluster.wait_until_running("step_wildcards_preempted_")
    all_gpus = ["--partition", "urgent", "--nodes", "2", "--exclusive", "--output", "/dev/null"]
    urgent = cluster.ask("sbatch", "--parsable", *all_gpus, "--wrap", "sleep 5").strip()
    waited(
        lambda: cluster.states("step_wildcards_preempted_")[0]["State"] == "PREEMPTED",
        "not preempted",
        300,
    )
    cluster.wait_until_gone(urgent)
    waited(
        lambda: driver.runs_of("step-preempted-0") == 2, "the preempted job is not sent again", 300
    )
    (faulty / "go").touch()
    driver.done(900)
    assert [job["State"] for job in cluster.states("step_wildcards_preempted_")] == [
        "PREEMPTED",
        "COMPLETED",
    ]


def test_a_drained_node_a_cancelled_job_and_a_new_controller(
    faulty: Path, submit: Submit, cluster: Cluster
) -> None:
    driver = submit(faulty, "results/faults/steps-drained", "--snakefile", "faults.smk")
    waited(
        lambda: sum(driver.runs_of(f"step-drained-{n}") for n in range(4)) == 4,
        "no job has started",
        300,
    )
    cluster.wait_until_running("step_wildcards_drained", 4)
    victim = next(
        job for job in cluster.states("step_wildcards_drained") if job["NodeList"] == "gpu1"
    )
    try:
        cluster.ask("scontrol", "update", "NodeName=gpu1", "State=DRAIN", "Reason=test")
        cluster.ask("scancel", victim["JobID"])
        cluster.end("slurmctld")
        cluster.start_controller()
        waited(
            lambda: len(cluster.states("step_wildcards_drained")) > 4,
            "the cancelled job is not sent again",
            300,
        )
        cluster.wait_until_gone(victim["JobID"])
        (faulty / "go").touch()
        driver.done(900)
    finally:
        cluster.ask("scontrol", "update", "NodeName=gpu1", "State=RESUME")
    states = [
        (job["State"].split()[0], job["NodeList"])
        for job in cluster.states("step_wildcards_drained")
    ]
    assert sorted(states)[0] == ("CANCELLED", "gpu1")
    assert len(states) == 5
    assert states[-1] == ("COMPLETED", "gpu2")
    assert [state for state, _ in states].count("COMPLETED") == 4
    assert driver.runs_of("steps-drained") == 1


@pytest.mark.skipif(
    not (CGROUPS / "freezer").is_dir(),
    reason="no control groups (v1), by which a node's processes are found",
)
def test_a_dead_node(faulty: Path, submit: Submit, cluster: Cluster) -> None:
    """Its job is sent to another node."""
    driver = submit(faulty, "results/faults/step-dead-0", "--snakefile", "faults.smk")
    waited(lambda: driver.runs_of("step-dead-0") == 1, "no job has started", 300)
    cluster.wait_until_running("step_wildcards_dead")
    node = cluster.states("step_wildcards_dead")[0]["NodeList"]
    cluster.end(f"slurmd {node}", signal.SIGKILL)
    processes = [
        p
        for procs in CGROUPS.glob(f"freezer/slurm_{node}/**/cgroup.procs")
        for p in procs.read_text().split()
    ]
    subprocess.run(["kill", "-9", *processes], check=False)
    (faulty / "go").touch()
    try:
        driver.done(900)
    finally:
        cluster.start_node(node)
    first, second = cluster.states("step_wildcards_dead")
    assert first["State"] == "NODE_FAIL"
    assert second["State"] == "COMPLETED"
    assert second["NodeList"] != node
