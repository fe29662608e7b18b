"""The GPUs of this machine, without loading torch."""

from __future__ import annotations

import os
from itertools import takewhile
from pathlib import Path

DEVICES = Path("/dev")


def count_gpus() -> int:
    """Count the NVIDIA GPUs that a job on this machine could use."""
    n_devices = sum(1 for path in DEVICES.glob("nvidia[0-9]*"))
    visible = _visible_devices()
    return n_devices if visible is None else min(n_devices, len(visible))


def _visible_devices() -> list[str] | None:
    """Return what CUDA_VISIBLE_DEVICES names, before what is invalid; None if it is not set."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return None
    names = (name.strip() for name in visible.split(","))
    return list(takewhile(lambda name: name not in ("", "-1"), names))
