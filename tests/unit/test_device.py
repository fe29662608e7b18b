"""GPUs are shared evenly by the jobs of a machine; tested with names and files instead of GPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from replication import resources

LOCKING_PROGRAM = """
import sys, time
from pathlib import Path
from isotropy.device import lock_least_used
print("ready", flush=True)
print(lock_least_used(["GPU-a", "GPU-b"], Path(sys.argv[1]) / "locks"), flush=True)
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


def test_processes_take_the_least_used_gpu(tmp_path: Path) -> None:
    """Two take one each, two more share them evenly; what a killed one held is taken next."""
    holders: list[subprocess.Popen[str]] = []

    def take() -> str:
        holders.append(start_process(tmp_path))
        return read_line(holders[-1])

    try:
        held = [take() for _ in range(4)]
        assert sorted(held[:2]) == sorted(held[2:]) == ["0", "1"]
        holders[1].kill()
        holders[1].wait()
        assert take() == held[1]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def test_gpus_are_counted_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia-uvm", "nvidiactl", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(resources, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert resources.count_gpus() == 2
    for visible, n in (("", 0), ("-1", 0), ("1", 1), ("0,-1,1", 1), ("GPU-a,GPU-b,GPU-c", 2)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert resources.count_gpus() == n
