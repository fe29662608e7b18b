"""Checkpoints of long jobs: when to save one, and how to read it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from safetensors import safe_open


class Pace:
    """Decides when a checkpoint is due: after some seconds, or later if saving takes long.

    Args:
        seconds: shortest time between two checkpoints; a killed run can lose at least so much work.
        pause: shortest time between two, as a multiple of the time that the last took to save.
    """

    def __init__(self, seconds: float, pause: float) -> None:
        self.seconds, self.factor = seconds, pause
        self.saved, self.wait = perf_counter(), seconds

    def due(self) -> bool:
        """Whether a checkpoint is due."""
        return perf_counter() - self.saved > self.wait

    def note_saved(self, began: float) -> None:
        """Note that a checkpoint was saved; `began` is `perf_counter()` when saving began."""
        self.saved = perf_counter()
        self.wait = max(self.seconds, self.factor * (self.saved - began))


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The tensors of a checkpoint, and its metadata."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        return {name: file.get_tensor(name) for name in names}, file.metadata()
