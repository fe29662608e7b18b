"""What defines a trajectory of direct optimization."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotropy.spec import PaperSpec, Spec, Strict

Loss = Literal["cross_entropy", "binary_cross_entropy"]

NODES = 9
"""Steps of a window that are evaluated."""


class Evaluation(Strict):
    """How IsoScore and silhouette are taken: at step 0, before any update, and after every
    update.
    """

    tolerance: Annotated[float, Field(gt=0)] | None
    """Windows of updates are evaluated at a few steps and interpolated between them, as long as the
    certified error of either score stays below this (`isotropy.optimize.windows`); null: every step
    is evaluated directly."""
    sample_size: Annotated[int, Field(ge=2)] | None
    """Items drawn afresh at every step, where there are more (Mickus et al. 2024, Appendix A);
    null: all of them."""

    def samples(self, n_items: int) -> bool:
        """Whether the scores are taken on a sample of so many items."""
        return self.sample_size is not None and self.sample_size < n_items


class OptimizeSpec(PaperSpec):
    """What defines one trajectory."""

    setup: str
    """Name of the trajectory."""
    group: str
    """Part of the paper: section3, glue (Appendix A), or sensitivity."""
    base: str
    variant: str | None
    dataset: str
    embedding: str
    loss: Loss
    bias: bool
    mean_norm: float | None
    seed: int
    updates: int
    learning_rate: float
    measure: Evaluation
    device: Literal["auto", "cpu", "cuda"]


class Objectives(Strict):
    """Objectives of Appendix B at one step."""

    step: int
    silhouette: float
    """Equation 1, over all items."""
    triplet: float
    """Equation 5, the bound, over all items."""
    sample_triplet: float | None
    """Equation 5 over a sample of items; null: the sample has one class."""
    sample_hinged: float | None
    """The triplet objective with its hinge, margin 0, over the same sample: its triplets are too
    many for all items."""


class TrajectoryFacts(Spec):
    """Facts about one trajectory, written beside it for tables and figures."""

    setup: str
    base: str
    """The setup or task that it is or is a variant of."""
    variant: str | None
    """What is changed against the setup; null: nothing."""
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
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    evaluation: str
    """How the scores were taken, for captions."""
    error_bound: float
    """Largest certified error of an interpolated score; 0 where all were evaluated directly."""
    n_items: int
    n_vectors: int
    n_params: int
    dim: int
    n_labels: int
    n_classes: int
    """Distinct targets, the classes of the silhouette."""
    loss: str
    bias: bool
    learning_rate: float
    objectives: list[Objectives]
