"""Specification of a trajectory of direct optimization, and the facts that are stored with it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from replication.spec import Deviations, Facts, PaperSpec, Strict

Loss = Literal["cross_entropy", "binary_cross_entropy"]

NODES = 9
"""Number of steps of a window that are evaluated."""


class Evaluation(Strict):
    """Settings for evaluating IsoScore and silhouette, before the first update (step 0) and after
    each.
    """

    tolerance: Annotated[float, Field(gt=0)] | None
    """Largest certified error of either score: windows of updates are evaluated at a few steps and
    interpolated between them as long as the error bound stays below it
    (`replication.optimize.windows`); null: every step is evaluated directly."""
    sample_size: Annotated[int, Field(ge=2)] | None
    """Number of items in a sample, a new one at each step, from which the scores are computed
    (Mickus et al. 2024, Appendix A); null: all items."""

    def samples(self, n_items: int) -> bool:
        """Return whether the scores of a data set of `n_items` items are computed from samples."""
        return self.sample_size is not None and self.sample_size < n_items


class Control(Strict):
    """Items of a control: a part of a data set with shuffled labels, or noise with random ones."""

    kind: Literal["shuffled", "noise"]
    n_items: Annotated[int, Field(ge=4)]
    dimensions: int | None
    """Dimensions of the noise; null: those of the embeddings."""
    n_classes: int | None
    """Classes of the noise, of equal size; null: those of the data set."""
    decay: Annotated[float, Field(gt=0, le=1)]
    """Standard deviation of a dimension of the noise over that of the one before; 1: isotropic."""


class OptimizeSpec(PaperSpec):
    """Specification of one trajectory."""

    setup: str
    """Name of the trajectory."""
    group: str
    """Part of the paper: section3, glue (Appendix A), sensitivity, or controls."""
    base: str
    variant: str | None
    dataset: str
    embedding: str
    loss: Loss
    bias: bool
    mean_norm: float | None
    control: Control | None = None
    """null: the data set as it is."""
    seed: int
    updates: int
    learning_rate: float
    measure: Evaluation
    device: Literal["auto", "cpu", "cuda"]


class Objectives(Strict):
    """The objectives of Appendix B at one step."""

    step: int
    silhouette: float
    """Equation 1, over all items."""
    triplet: float
    """Equation 5, a bound on the triplet objective, over all items."""
    sample_triplet: float | None
    """Equation 5 over a sample of items; null: the sample has only one class."""
    sample_hinged: float | None
    """The hinged triplet objective with margin 0 over the same sample (all items have too many
    triplets); null: the sample has only one class."""


class TrajectoryFacts(Facts):
    """Facts about one trajectory, written beside it for tables and figures."""

    setup: str
    base: str
    """Name of the setup or task without its variant."""
    variant: str | None
    """Change of the variant with respect to the setup; null: not a variant."""
    dataset: str
    seed: int
    data: str
    """Title of the data set."""
    model: str
    """Source id of the model or vectors."""
    embedding: str
    """Title of the model or vectors, with a note if they are scaled."""
    status: str
    """`original` or `stand-in`."""
    deviations: Deviations = ""
    evaluation: str
    """Description of how the scores were evaluated, for captions."""
    error_bound: float
    """Largest certified error of an interpolated score; 0 if all scores were evaluated directly."""
    n_items: int
    n_vectors: int
    n_params: int
    dim: int
    n_labels: int
    n_classes: int
    """Number of distinct targets, which are the classes of the silhouette."""
    loss: str
    bias: bool
    learning_rate: float
    objectives: list[Objectives]
