"""The GPUs of this machine, without loading torch."""

from __future__ import annotations

import os
from pathlib import Path

DEVICES = Path("/dev")


def count_gpus() -> int:
    """Count the NVIDIA GPUs that a job on this machine could use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    n_devices = sum(1 for path in DEVICES.glob("nvidia[0-9]*"))
    if visible is None:
        return n_devices
    chosen = [name for name in visible.split(",") if name.strip() not in ("", "-1")]
    return min(n_devices, len(chosen))
