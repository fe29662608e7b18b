"""GPUs are shared evenly by the jobs of a machine; tested with names and files instead of GPUs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from isotropy import gpus

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
    held: list[str] = []
    try:
        for _ in range(4):
            holders.append(start_process(tmp_path))
            held.append(read_line(holders[-1]))
        assert sorted(held[:2]) == sorted(held[2:]) == ["0", "1"]
        holders[1].kill()
        holders[1].wait()
        holders.append(start_process(tmp_path))
        assert read_line(holders[-1]) == held[1]
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()


def test_gpus_are_counted_without_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("nvidia0", "nvidia1", "nvidia-uvm", "nvidiactl", "null"):
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.count_gpus() == 2
    for visible, n in (
        ("", 0),
        ("-1", 0),
        ("1", 1),
        ("0,1", 2),
        ("0,-1,1", 1),
        ("GPU-a,GPU-b,GPU-c", 2),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus.count_gpus() == n


STAND_IN = """#!/bin/sh
# Stand-in for nvidia-smi: two GPUs of 80 and 24 GB.
echo "0, GPU-a1, {mig}, 81559"
echo "1, GPU-b2, [N/A], {memory}"
"""


def test_memory_of_gpus_is_read_without_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In MB, of the GPUs that are visible; not known without nvidia-smi, or for parts of a GPU."""
    for name in ("nvidia0", "nvidia1"):
        (tmp_path / name).touch()
    monkeypatch.setattr(gpus, "DEVICES", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert gpus.gpu_memory() == []
    command = tmp_path / "nvidia-smi"
    command.write_text(STAND_IN.format(mig="Disabled", memory=24576))
    command.chmod(0o755)
    first, second = 81559 * 2**20 // 10**6, 24576 * 2**20 // 10**6
    assert gpus.gpu_memory() == [first, second]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    assert gpus.gpu_memory() == []  # CUDA's first is the fastest, whichever slot it is in
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    for visible, memory in (
        ("0", [first]),
        ("GPU-b", [second]),
        ("1, 0", [first, second]),
        ("", []),
        ("-1", []),
        ("0,MIG-c3", []),
    ):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        assert gpus.gpu_memory() == memory, visible
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    for mistake in (
        STAND_IN.format(mig="Enabled", memory=24576),
        STAND_IN.format(mig="Disabled", memory="[N/A]"),
        "#!/bin/sh\necho 'No devices were found'\n",
        "#!/bin/sh\nexit 9\n",
        "not a program",
    ):
        command.write_text(mistake)
        assert gpus.gpu_memory() == [], mistake
