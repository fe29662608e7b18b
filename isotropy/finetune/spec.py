"""What defines a fine-tuned model, and the facts about it that tables read."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.spec import PaperSpec, Spec, Strict

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman", "exact_match"]
"""How good a model is; in percent, but for correlations times 100, as GLUE reports them."""


SAMPLED = "trained on {n:,} of {of:,} items"
"""Departure of a model that is trained on a part of the items (`PaperSpec.departures`)."""


class Method(Strict):
    """What is added to the task's loss (Rudman & Eickhoff 2024, section 3), or done to the first
    tokens of a batch before the head (cluster: Rajaee & Sheikhi 2020).
    """

    kind: Literal["none", "istar", "cosreg", "cluster"]
    strength: float | None = None
    """lambda: of I-STAR positive for more isotropy, negative for less."""
    zeta: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of the shrinkage covariance (I-STAR)."""
    layers: Literal["all", "last"] = "all"
    """Hidden layers that the penalty sees, the embedding layer not among them; of no account for
    the others."""
    n_clusters: Annotated[int, Field(ge=1)] | None = None
    """Clusters of a batch (cluster)."""
    n_components: Annotated[int, Field(ge=1)] | None = None
    """Principal components removed from each cluster (cluster)."""

    @model_validator(mode="after")
    def _complete(self) -> Method:
        if (self.strength is None) != (self.kind not in ("istar", "cosreg")) or (
            self.zeta is None
        ) != (self.kind != "istar"):
            raise ValueError("I-STAR has strength and zeta, CosReg a strength, the others neither")
        if (self.n_clusters is None) != (self.kind != "cluster") or (self.n_components is None) != (
            self.kind != "cluster"
        ):
            raise ValueError("cluster has n_clusters and n_components, the others neither")
        return self

    @property
    def name(self) -> str:
        """As it stands in paths: letters, digits, _ and -."""
        parts: list[str] = [self.kind]
        parts += [] if self.strength is None else [f"lambda{_plain(self.strength)}"]
        parts += [] if self.zeta is None else [f"zeta{_plain(self.zeta)}"]
        parts += [] if self.n_clusters is None else [f"{self.n_clusters}x{self.n_components}"]
        return "_".join(parts)


class Training(Strict):
    """How a model is fine-tuned."""

    learning_rate: Annotated[float, Field(gt=0)]
    """Of AdamW, at its highest."""
    batch_size: Annotated[int, Field(ge=2)]
    """Items in a batch."""
    epochs: Annotated[int, Field(ge=1)]
    """Passes over the training items."""
    n_train: Annotated[int, Field(ge=2)] | None
    """Training items, drawn once per seed, where there are more; null: all. A part is a
    stand-in."""
    max_length: Annotated[int, Field(ge=8)]
    """Longest input in word pieces; the rest is cut (extractive tasks: goes into further
    windows)."""
    token_types: bool
    """Tell the model which sentence of a pair a token is in, where it can know; the authors do
    not."""
    keep_padding: bool
    """Count padding as tokens in the penalty and its shrinkage covariance, as the authors do."""
    pad_to_max_length: bool
    """Pad each item to `max_length`, not to the longest of its batch, in training: the authors do
    so for SQuAD. It changes the penalty where padding counts."""
    schedule: Literal["constant", "linear"]
    """Of the learning rate: as it is (the authors), or falling to 0 from the end of the warm-up."""
    warmup: Annotated[float, Field(ge=0, lt=1)]
    """Share of the updates in which the learning rate rises to its highest."""
    weight_decay: Annotated[float, Field(ge=0)]
    """Of AdamW; 0 in the authors' code."""
    max_grad_norm: Annotated[float, Field(gt=0)] | None
    """Gradients are clipped to this norm; null: not."""

    def no_longer_than(self, positions: int) -> Training:
        """The same for models that read no more than so many word pieces."""
        return self.model_copy(update={"max_length": min(self.max_length, positions)})

    shrinkage_tokens: Annotated[int, Field(ge=2)]
    """Token vectors, all layers together, from which the shrinkage covariance is estimated at the
    start of each epoch."""
    precision: Literal["float32", "bfloat16", "float16"]
    """Of the forward pass; the penalty is always float32. float16 needs a GPU."""


class GeometrySettings(Strict):
    """How the geometry of a fine-tuned model is measured."""

    zeta: Annotated[float, Field(ge=0, le=1)]
    """Of IsoScore*; 0.75 in the authors' analysis."""
    tokens: Annotated[int, Field(ge=2)]
    """Token vectors of training items, all layers together, behind the shrinkage covariance of that
    IsoScore*."""


class FinetuneSpec(PaperSpec):
    """What defines one fine-tuned model."""

    run: str
    """Name of the run, without its seed."""
    task: str
    train: str
    validation: str
    """Data sets."""
    metric: Metric
    """The task's own metric."""
    model: str
    method: Method
    training: Training
    measure: GeometrySettings
    seed: int
    """Of the classifier's initialization, the order of items and dropout."""
    device: Literal["auto", "cpu", "cuda"]


class Probe(Strict):
    """A linear classifier or ridge regression on frozen sentence embeddings of the last layer."""

    method: Literal["none", "abtt"]
    """What was done to the embeddings: nothing, or All-But-The-Top."""
    performance: float
    """The task's own metric on the validation set."""
    n_train: int
    n_components: int
    """Principal components that were removed."""


class FinetuneFacts(Spec):
    """Facts about one fine-tuned model, written beside it for tables and figures."""

    run: str
    task: str
    model: str
    method: Method
    seed: int
    data: str
    """Titles of the data sets' contents."""
    embedding: str
    """Title of the model."""
    status: str
    """`original` or `stand-in`."""
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    metric: Metric
    performance: float
    """The task's own metric on the whole validation set."""
    metrics: dict[str, float]
    """All metrics of the task."""
    chance: float
    """The task's own metric of the most frequent training class; 0 for scores and answers."""
    isoscore: float
    """Of all token vectors of the validation set, all layers together (the embedding layer left
    out)."""
    isoscore_star: float
    """The same with shrinkage."""
    mean_cosine: float
    """Of pairs of the same token vectors."""
    zeta: float
    """Of `isoscore_star`."""
    n_train: int
    n_validation: int
    n_tokens: int
    """Tokens of the validation set."""
    n_layers: int
    updates: int
    """Steps of AdamW."""
    final_loss: float
    """The task's loss, mean over the last tenth of the updates."""
    activations: list[float]
    """Mean of each dimension of the validation set's sentence embeddings, last layer."""
    probes: list[Probe]
    """On the embeddings of a model without penalty; empty for others and for extractive tasks."""


def _plain(value: float) -> str:
    """A number for a path: 0.5 is 0_5, -5 is m5."""
    return f"{value:g}".replace("-", "m").replace(".", "_").replace("+", "")
