"""The GPUs of this machine, without loading torch."""

from __future__ import annotations

import os
import shutil
import subprocess
from itertools import takewhile
from pathlib import Path

DEVICES = Path("/dev")
QUERY = "--query-gpu=index,uuid,mig.mode.current,memory.total"
MEGABYTES = 2**20 / 10**6  # in a MiB, the unit of nvidia-smi
SECONDS = 30  # nvidia-smi may first start the driver of each GPU


def count_gpus() -> int:
    """Count the NVIDIA GPUs that a job on this machine could use."""
    n_devices = sum(1 for path in DEVICES.glob("nvidia[0-9]*"))
    visible = _visible_devices()
    return n_devices if visible is None else min(n_devices, len(visible))


def gpu_memory() -> list[int]:
    """Return the memory in MB of each GPU that a job on this machine could use, as nvidia-smi
    reports it; empty if that is not known for all of them, as for parts of a GPU (MIG), or for
    unlike GPUs that are chosen by number: CUDA has the fastest first, nvidia-smi the slots.
    """
    command, visible = shutil.which("nvidia-smi"), _visible_devices()
    if command is None or not count_gpus():
        return []
    try:
        answer = subprocess.run(
            [command, QUERY, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            check=True,
            timeout=SECONDS,
        )
        rows = [[field.strip() for field in line.split(",")] for line in answer.stdout.splitlines()]
        memory = [
            int(int(mib) * MEGABYTES)
            for index, uuid, mig, mib in rows
            if mig != "Enabled" and (visible is None or _is_named(index, uuid, visible))
        ]
        sizes = {mib for *_, mib in rows}
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    by_number = visible is not None and any(name[0].isdigit() for name in visible[:1])
    if by_number and len(sizes) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
        return []
    return memory if len(memory) == count_gpus() else []


def _visible_devices() -> list[str] | None:
    """Return what CUDA_VISIBLE_DEVICES names, before what is invalid; None if it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    names = (name.strip() for name in visible.split(","))
    return list(takewhile(lambda name: name not in ("", "-1"), names))


def _is_named(index: str, uuid: str, names: list[str]) -> bool:
    """Return whether a GPU is named, by its number or the beginning of its UUID."""
    return any(name == index or uuid.startswith(name) for name in names)
