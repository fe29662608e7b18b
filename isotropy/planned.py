"""Results of a study: what defines each and what it reads, before anything of it is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from isotropy.spec import Spec


class Result(NamedTuple):
    """One result: the outputs of one job, which share a stem.

    Attributes:
        spec: makes the spec of its job.
        inputs: files that the job reads, by the names that its rule gives them; paths are relative
            to the folder of the run.
    """

    spec: Callable[[], Spec]
    inputs: dict[str, list[str]]


Results = dict[str, Result]
"""Results by stem: their path below `results/` without a suffix."""


class TokenLayers(NamedTuple):
    """Token vectors that a paper reads of a data set.

    Attributes:
        dataset: a name from `datasets`.
        model: a model of the source registry.
        layers: hidden layers; 0 is the embedding layer.
        window: tokens that the model reads at once, for a corpus; None: each text by itself.
    """

    dataset: str
    model: str
    layers: list[int]
    window: int | None
