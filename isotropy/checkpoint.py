"""Checkpoints of long jobs: when to save one, and how to read it."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any

from safetensors import safe_open


class Pace:
    """When a checkpoint is due: after some seconds, later where saving takes long.

    Args:
        seconds: the shortest time between two, which is the work that a killed run loses at least.
        pause: the same as a multiple of the time that the last one took to save.
    """

    def __init__(self, seconds: float, pause: float) -> None:
        self.seconds, self.factor = seconds, pause
        self.saved, self.wait = perf_counter(), seconds

    def due(self) -> bool:
        """Whether it is time."""
        return perf_counter() - self.saved > self.wait

    def saved_since(self, began: float) -> None:
        """A checkpoint has been saved, which began at this reading of `perf_counter`."""
        self.saved = perf_counter()
        self.wait = max(self.seconds, self.factor * (self.saved - began))


def read_checkpoint(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The tensors of a checkpoint, and what was written beside them."""
    with safe_open(path, framework="pt") as file:
        names = list(file.keys())
        return {name: file.get_tensor(name) for name in names}, file.metadata()
