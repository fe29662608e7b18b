"""Locks that assign each GPU of a machine to one process; tested with names instead of GPUs."""

from __future__ import annotations

import select
import subprocess
import sys
from pathlib import Path

LOCKING_PROGRAM = """
import sys, time
from pathlib import Path
from isotropy.device import lock_any
print("ready", flush=True)
print(lock_any(["GPU-a", "GPU-b"], Path(sys.argv[1]) / "locks"), flush=True)
time.sleep(600)
"""


def start_process(folder: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", LOCKING_PROGRAM, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert read_line(process) == "ready"
    return process


def read_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_processes_lock_different_gpus_and_a_third_waits(tmp_path: Path) -> None:
    """The lock of a killed process is released."""
    holders: list[subprocess.Popen[str]] = []
    try:
        holders += [start_process(tmp_path), start_process(tmp_path)]
        held = [read_line(holder) for holder in holders]
        assert sorted(held) == ["0", "1"]
        holders.append(start_process(tmp_path))
        late = holders[-1].stdout
        assert late is not None
        assert not select.select([late], [], [], 2)[0]
        holders[0].kill()
        assert read_line(holders[-1]) == held[0]
        assert holders[1].poll() is None
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
