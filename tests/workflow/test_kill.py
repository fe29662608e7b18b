"""kill -9, or a lost terminal, while a run fetches, embeds, optimizes, fine-tunes: the next gives
undisturbed bytes."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from tests.conftest import Workflow, copy_checkout
from tests.workflow.test_rerun import digests

OVERLAY = {
    "study": "kill",
    "datasets": {
        "polarity": {"sample": {"n_items": 2600, "seed": 1}},
        "polarity-train": {"sample": {"n_items": 200, "seed": 1}},
        "polarity-validation": {"sample": {"n_items": 200, "seed": 1}},
    },
    "mickus2024": {"seeds": [0], "updates": 300, "sensitivity": None},
    "rudman2024": {
        "seeds": [0],
        "training": {"n_train": 90, "epochs": 3, "batch_size": 8, "shrinkage_tokens": 2000},
    },
}
TARGET = "results/optimize/mickus2024/polarity/seed0.parquet"
TUNED = "results/finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2"
TARGETS = [TARGET, f"{TUNED}/seed0.json"]


def study(folder: Path) -> Workflow:
    workflow = Workflow(copy_checkout(folder))
    (workflow.folder / "config/kill.yaml").write_text(yaml.safe_dump(OVERLAY))
    # On a fast machine the whole training takes seconds.
    for module in ("optimize/optimize.py", "finetune/train.py"):
        file = workflow.folder / "isotropy" / module
        file.write_text(
            file.read_text().replace("CHECKPOINT_SECONDS = 5.0", "CHECKPOINT_SECONDS = 1.0")
        )
    workflow.overlays = ["config/kill.yaml"]
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
    command = workflow.command("--", target)
    process = subprocess.Popen(
        command,
        cwd=workflow.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # Tests may run under nohup
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 1200
    try:
        while not ready():
            assert process.poll() is None, f"the run ended before {what}"
            assert time.monotonic() < deadline, f"no {what} in twenty minutes"
            time.sleep(0.02)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, by)
        process.wait(60)
    workflow.done("--unlock")


def test_killed_four_times(smoke: Workflow, tmp_path: Path) -> None:
    undisturbed = study(tmp_path / "undisturbed")
    # All-MiniLM-L6-v2 and polarity, with their records
    for path in (smoke.folder / "results/fetch").glob("[ap][lo]l*"):
        target = undisturbed.folder / "results/fetch" / path.name
        if path.is_dir():
            shutil.copytree(path, target)
        else:
            shutil.copy2(path, target)
    undisturbed.done("--", *TARGETS)
    killed = study(tmp_path / "killed")
    results = killed.folder / "results"

    kill_when(killed, lambda: list(results.glob("fetch/.*.work/*/*")), "download")
    assert not list(results.glob("optimize/**/*.parquet"))

    embedding = "embed/polarity/.*.work/*/cpu/part00000.safetensors"
    # A lost terminal
    kill_when(
        killed, lambda: list(results.glob(embedding)), "part of the embeddings", by=signal.SIGHUP
    )
    assert not list(results.glob("embed/polarity/*.safetensors"))

    kill_when(
        killed,
        lambda: list(
            results.glob("optimize/mickus2024/polarity/.*.work/*/cpu/checkpoint.safetensors")
        ),
        "checkpoint",
    )
    assert not (killed.folder / TARGET).exists()

    tuned = killed.folder / TUNED
    kill_when(
        killed,
        lambda: list(tuned.glob(".*.work/*/cpu/checkpoint.safetensors")),
        "checkpoint of a model",
        target=TARGETS[1],
    )
    assert not (killed.folder / TUNED / "seed0.json").exists()

    output = killed.done("--", *TARGETS)
    assert output.count("going on from update") == 2
    assert digests(killed.folder) == digests(undisturbed.folder)
    left = [p for p in results.rglob("*") if p.name.endswith((".tmp", ".work"))]
    assert left == []
