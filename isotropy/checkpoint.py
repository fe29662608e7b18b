"""Checkpoints of long jobs: decide when to save one, and read it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from safetensors import safe_open


class CheckpointTimer:
    """Decides when a checkpoint is due: after a fixed time, or later if saving takes long.

    Args:
        seconds: minimum time between two checkpoints, and so the work that a killed run may lose.
        pause_factor: minimum time between two checkpoints, as a multiple of the time that saving
            the last one took.
    """

    def __init__(self, seconds: float, pause_factor: float) -> None:
        self.seconds, self.pause_factor = seconds, pause_factor
        self.last_saved, self.wait = perf_counter(), seconds

    def due(self) -> bool:
        """Return whether a checkpoint is due."""
        return perf_counter() - self.last_saved > self.wait

    def note_saved(self, began: float) -> None:
        """Record that a checkpoint was saved just now, and set the wait until the next.

        Args:
            began: value of `perf_counter()` when saving began.
        """
        self.last_saved = perf_counter()
        self.wait = max(self.seconds, self.pause_factor * (self.last_saved - began))


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the tensors of a checkpoint and its metadata."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        return {name: file.get_tensor(name) for name in names}, file.metadata()
