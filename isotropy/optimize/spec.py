"""What defines a trajectory of direct optimization."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from isotropy.spec import Spec, Strict


class Schedule(Strict):
    """The updates after which the metrics are taken. Step 0, before any update, and the last are always among them."""

    every_until: int = Field(ge=0)
    """Every update up to this one."""
    then_every: int = Field(ge=1)
    """After that, the updates that are a multiple of this."""

    def steps(self, updates: int) -> list[int]:
        """The steps, from 0 to `updates`."""
        return [s for s in range(updates + 1) if s <= self.every_until or s % self.then_every == 0 or s == updates]

    def describe(self, updates: int) -> str:
        """The schedule in words, for captions."""
        if self.every_until >= updates or self.then_every == 1:
            return f"metrics at step 0 and after each of {updates:,} updates"
        return (
            f"metrics at step 0, after each of the first {self.every_until} updates, then after every "
            f"{self.then_every}th to {updates:,}"
        )


class OptimizeSpec(Spec):
    """What defines one trajectory."""

    paper: str
    setup: str
    dataset: str
    embedding: str
    loss: Literal["cross_entropy", "binary_cross_entropy"]
    bias: bool
    mean_norm: float | None
    seed: int
    updates: int
    learning_rate: float
    schedule: Schedule
    device: Literal["auto", "cpu", "cuda"]


class Run(Spec):
    """Facts about one trajectory, written beside it for tables and figures."""

    setup: str
    dataset: str
    seed: int
    data: str
    """Title of the data set's content."""
    model: str
    """Source id of the model or vectors."""
    embedding: str
    """Title of the model or vectors, and what was done to them."""
    status: str
    """`original` or `stand-in`."""
    schedule: str
    n_items: int
    n_vectors: int
    n_params: int
    dim: int
    n_labels: int
    n_classes: int
    """Distinct targets, the classes of the silhouette."""
    loss: str
    bias: bool
