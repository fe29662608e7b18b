"""A run is killed (SIGKILL or SIGHUP) while it fetches, embeds, optimizes and fine-tunes: the next
run gives the same bytes as an undisturbed one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest

from tests.conftest import Workflow, digests

TARGET = "results/optimize/mickus2024/polarity/seed0.parquet"
TUNED = "results/finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2"
TARGETS = [TARGET, f"{TUNED}/seed0.json"]

# The smoke study's jobs take seconds. With this code, on which no result depends, they save a
# checkpoint at every occasion but the first, and sleep after each, so that they can be killed then.
SLOWING_CODE = {
    "isotropy/checkpoint.py": """
import time

def due(self, asked=set()):
    again = id(self) in asked
    asked.add(id(self))
    return again

CheckpointTimer.due = due
CheckpointTimer.note_saved = lambda self, began: time.sleep(1)
""",
    "isotropy/models/sentence_encoder.py": """
import time

TEXTS_PER_PART = 40
start_without_rest = start_batches

def start_batches(*args):
    time.sleep(0.5)
    return start_without_rest(*args)
""",
}


def kill_when(
    workflow: Workflow,
    ready: Callable[[], object],
    what: str,
    target: str = TARGET,
    kill_signal: signal.Signals = signal.SIGKILL,
) -> None:
    """Start a run, wait until `ready` returns true, and send a signal to the run and all its
    jobs."""
    process = subprocess.Popen(
        workflow.command("--nolock", "--", target),
        cwd=workflow.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # Tests may run under nohup
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 600
    try:
        while not ready():
            assert process.poll() is None, f"the run ended before {what}"
            assert time.monotonic() < deadline, f"no {what} in ten minutes"
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, kill_signal)
        process.wait(60)


def test_run_killed_four_times_gives_undisturbed_results(
    checkout: Workflow, request: pytest.FixtureRequest
) -> None:
    killed, results = checkout, checkout.folder / "results"
    for name, code in SLOWING_CODE.items():
        with (killed.folder / name).open("a") as stream:
            stream.write(code)

    kill_when(killed, lambda: list(results.glob("fetch/.*.work/*/*")), "download")
    killed.done("--unlock")  # as Snakemake's message requires; later runs use no lock
    assert not list(results.glob("optimize/**/*.parquet"))

    embedding = "embed/polarity/.*.work/*/cpu/part00000.safetensors"
    # SIGHUP: the terminal is closed
    kill_when(killed, lambda: list(results.glob(embedding)), "part", kill_signal=signal.SIGHUP)
    assert not list(results.glob("embed/polarity/*.safetensors"))

    saved = "optimize/mickus2024/polarity/.*.work/*/cpu/checkpoint.safetensors"
    kill_when(killed, lambda: list(results.glob(saved)), "checkpoint")
    assert not (killed.folder / TARGET).exists()

    tuned = killed.folder / TUNED
    saved = ".*.work/*/cpu/checkpoint.safetensors"
    kill_when(killed, lambda: list(tuned.glob(saved)), "checkpoint of a model", target=TARGETS[1])
    assert not (tuned / "seed0.json").exists()

    output = killed.done("--nolock", "--", *TARGETS)
    assert output.count("resuming from update") == 2
    leftovers = [p for p in results.rglob("*") if p.name.endswith((".tmp", ".work"))]
    assert leftovers == []
    # Requested only here: another pytest process may run the smoke study meanwhile.
    undisturbed = digests(request.getfixturevalue("smoke").folder)
    obtained = digests(killed.folder)
    assert set(TARGETS) <= obtained.keys()
    assert obtained == {name: undisturbed.get(name) for name in obtained}
