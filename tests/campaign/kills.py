"""Kills at random times until a run completes: the bytes are those of an undisturbed run.

python -m tests.campaign.kills [--n 50] [--seed 0]

Each round starts a fresh checkout, kills the run and all its jobs again and again (as a crash of
the machine would, or by a lost terminal, or Ctrl-C) until it completes, and compares every result.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conftest import Workflow, copy_checkout, digests

TARGETS = [
    "results/optimize/mickus2024/polarity/seed0.parquet",
    "results/similarity/rajaee2021/wordsim353/word2vec-enwiki-2021/words.parquet",
    "results/prepare/supersenses.texts.parquet",
]
SIGNALS = [signal.SIGKILL, signal.SIGKILL, signal.SIGHUP, signal.SIGINT]


def run_for(workflow: Workflow, seconds: float, kill_signal: signal.Signals) -> bool:
    """Run the workflow, kill it with all its jobs after `seconds`; return whether it completed."""
    process = subprocess.Popen(
        workflow.command("--nolock", "--", *TARGETS),
        cwd=workflow.folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=_reset_signal_handlers,
    )
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, kill_signal)
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        return False
    if process.returncode != 0:
        raise SystemExit(f"a run ended with {process.returncode}: {workflow.folder}")
    return True


def _reset_signal_handlers() -> None:
    """Handle signals by default, even if the campaign runs in the background or under nohup."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def campaign(folder: Path, n: int, seed: int) -> tuple[int, int, list[str]]:
    """Start and kill runs until there were `n` kills.

    Returns:
        Number of kills, of completed rounds, and results that differ from an undisturbed run.
    """
    draw = random.Random(seed)
    undisturbed = Workflow(copy_checkout(folder / "undisturbed"))
    began = time.monotonic()
    undisturbed.done("--", *TARGETS)
    undisturbed_seconds = time.monotonic() - began
    expected = digests(undisturbed.folder)
    kills, rounds, missed = 0, 0, list[str]()
    while kills < n:
        workflow = Workflow(copy_checkout(folder / "killed"))
        kills_in_round = 0
        # Wait longer after each kill, so that a round ends even if the machine has become slower
        while not run_for(
            workflow,
            draw.uniform(0.5, (0.7 + kills_in_round / 20) * undisturbed_seconds),
            draw.choice(SIGNALS),
        ):
            kills_in_round += 1
        kills, rounds = kills + kills_in_round, rounds + 1
        print(f"round {rounds}: completed after {kills_in_round} kills, {kills} in all", flush=True)
        obtained = digests(workflow.folder)
        missed += [
            f"round {rounds}: {name}"
            for name in sorted(expected.keys() | obtained.keys())
            if expected.get(name) != obtained.get(name)
        ]
        leftovers = [
            p for p in workflow.folder.rglob("results/**/*") if p.suffix in (".tmp", ".work")
        ]
        missed += [f"round {rounds}: left over: {path}" for path in leftovers]
        shutil.rmtree(workflow.folder)
    return kills, rounds, missed


def main() -> int:
    """Run a campaign; return exit code 1 if results differ or temporary files are left."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        kills, rounds, missed = campaign(Path(folder), arguments.n, arguments.seed)
    for line in missed:
        print(f"missed: {line}")
    print(f"{kills} kills in {rounds} completed rounds: {len(missed)} missed")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
