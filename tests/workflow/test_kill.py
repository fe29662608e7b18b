"""kill -9, or a lost terminal, while a run fetches, embeds, optimizes, fine-tunes: the next gives
undisturbed bytes."""

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

# The smoke study's jobs take seconds: here they save from their second occasion on, after which
# there is nothing yet to go on from, and rest a second after each, in which they can be killed.
# What a job makes does not depend on its code, so its bytes are those of the smoke study.
RESTING = {
    "isotropy/checkpoint.py": """
import time

def due(self, asked=set()):
    again = id(self) in asked
    asked.add(id(self))
    return again

Pace.due = due
Pace.note_saved = lambda self, began: time.sleep(1)
""",
    "isotropy/embed/sentence_encoder.py": """
import time

TEXTS_PER_PART = 40
map_without_rest = map_batches

def map_batches(*args):
    time.sleep(0.5)
    return map_without_rest(*args)
""",
}


def resting(workflow: Workflow) -> Workflow:
    for name, code in RESTING.items():
        with (workflow.folder / name).open("a") as stream:
            stream.write(code)
    return workflow


def kill_when(
    workflow: Workflow,
    ready: Callable[[], object],
    what: str,
    target: str = TARGET,
    by: signal.Signals = signal.SIGKILL,
) -> None:
    """Start the run, wait until `ready`, and kill the run with all its jobs as a crash of the
    machine would, or by a signal."""
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
            os.killpg(process.pid, by)
        process.wait(60)


def test_killed_four_times(checkout: Workflow, request: pytest.FixtureRequest) -> None:
    killed = resting(checkout)
    results = killed.folder / "results"

    kill_when(killed, lambda: list(results.glob("fetch/.*.work/*/*")), "download")
    killed.done("--unlock")  # as Snakemake asks for; what follows leaves the lock out
    assert not list(results.glob("optimize/**/*.parquet"))

    embedding = "embed/polarity/.*.work/*/cpu/part00000.safetensors"
    # A lost terminal
    kill_when(
        killed, lambda: list(results.glob(embedding)), "part of the embeddings", by=signal.SIGHUP
    )
    assert not list(results.glob("embed/polarity/*.safetensors"))

    saved = "optimize/mickus2024/polarity/.*.work/*/cpu/checkpoint.safetensors"
    kill_when(killed, lambda: list(results.glob(saved)), "checkpoint")
    assert not (killed.folder / TARGET).exists()

    tuned = killed.folder / TUNED
    kill_when(
        killed,
        lambda: list(tuned.glob(".*.work/*/cpu/checkpoint.safetensors")),
        "checkpoint of a model",
        target=TARGETS[1],
    )
    assert not (tuned / "seed0.json").exists()

    output = killed.done("--nolock", "--", *TARGETS)
    assert output.count("going on from update") == 2
    left = [p for p in results.rglob("*") if p.name.endswith((".tmp", ".work"))]
    assert left == []
    # Asked for here only: another process may make it meanwhile.
    undisturbed = digests(request.getfixturevalue("smoke").folder)
    found = digests(killed.folder)
    assert set(TARGETS) <= found.keys()
    assert found == {name: undisturbed.get(name) for name in found}
