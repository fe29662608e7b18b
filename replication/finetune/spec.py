"""Specification of a fine-tuned model, and the facts about it that tables use."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from replication.spec import Deviations, Facts, PaperSpec, Strict

Metric = Literal["accuracy", "f1", "matthews", "pearson", "spearman", "exact_match"]
"""Performance metric of a task, in percent; correlations are multiplied by 100, as in GLUE."""


SAMPLED = "trained on {n:,} of {of:,} items"
"""Template of the deviation of a model trained on a sample (`PaperSpec.deviations_of`)."""


class Method(Strict):
    """Method that changes the geometry in fine-tuning: a penalty that is added to the loss of the
    task (istar and cosreg: Rudman & Eickhoff 2024, section 3; unbiased: IsoScore without bias in
    place of IsoScore*), or a transform of the first tokens
    of each batch before the head (cluster: Rajaee & Sheikhi 2020).
    """

    kind: Literal["none", "istar", "unbiased", "cosreg", "cluster"]
    strength: float | None = None
    """Weight lambda of the penalty; for istar and unbiased, positive values increase isotropy,
    negative ones decrease it."""
    zeta: Annotated[float, Field(ge=0, le=1)] | None = None
    """Weight of the shrinkage covariance (I-STAR)."""
    layers: Literal["all", "last"] = "all"
    """Hidden layers to which the penalty applies, without the embedding layer; ignored for methods
    without penalty."""
    n_clusters: Annotated[int, Field(ge=1)] | None = None
    """Number of clusters in a batch (cluster)."""
    n_components: Annotated[int, Field(ge=1)] | None = None
    """Number of principal components that are removed from each cluster (cluster)."""

    @model_validator(mode="after")
    def _check_parameters(self) -> Method:
        if (self.strength is None) != (self.kind not in ("istar", "unbiased", "cosreg")) or (
            self.zeta is None
        ) != (self.kind != "istar"):
            raise ValueError(
                "I-STAR has strength and zeta, unbiased and CosReg only strength, others neither"
            )
        if (self.n_clusters is None) != (self.kind != "cluster") or (self.n_components is None) != (
            self.kind != "cluster"
        ):
            raise ValueError("cluster has n_clusters and n_components, other methods neither")
        return self

    @property
    def name(self) -> str:
        """Name for paths: letters, digits, _ and - only."""
        parts: list[str] = [self.kind]
        parts += [] if self.strength is None else [f"lambda{_format_for_path(self.strength)}"]
        parts += [] if self.zeta is None else [f"zeta{_format_for_path(self.zeta)}"]
        parts += [] if self.n_clusters is None else [f"{self.n_clusters}x{self.n_components}"]
        return "_".join(parts)


class Training(Strict):
    """Hyper-parameters of fine-tuning."""

    learning_rate: Annotated[float, Field(gt=0)]
    """Maximum learning rate of AdamW."""
    batch_size: Annotated[int, Field(ge=2)]
    """Number of items in a batch."""
    epochs: Annotated[int, Field(ge=1)]
    """Number of passes over the training items."""
    n_train: Annotated[int, Field(ge=2)] | None
    """Size of the sample of training items, drawn for each seed; null: all items. A model that is
    trained on a sample is a stand-in."""
    max_length: Annotated[int, Field(ge=8)]
    """Maximum length of an input in word pieces; longer ones are truncated (for extractive tasks:
    divided into several windows)."""
    token_types: bool
    """Give token type ids (the sentence of a pair that a token is in) to models that have them; the
    authors do not."""
    keep_padding: bool
    """Include padding tokens in the penalty and its shrinkage covariance, as the authors do."""
    pad_to_max_length: bool
    """Pad training items to `max_length` instead of the longest in the batch, as the authors do for
    SQuAD. This changes the penalty if `keep_padding` is true."""
    schedule: Literal["constant", "linear"]
    """Learning rate after the warm-up: constant (the authors), or falling linearly to 0."""
    warmup: Annotated[float, Field(ge=0, lt=1)]
    """Fraction of the updates during which the learning rate rises to its maximum."""
    weight_decay: Annotated[float, Field(ge=0)]
    """Weight decay of AdamW; 0 in the authors' code."""
    max_grad_norm: Annotated[float, Field(gt=0)] | None
    """Norm to which gradients are clipped; null: no clipping."""

    def limit_length(self, positions: int) -> Training:
        """Return a copy with `max_length` limited to the number of positions of a model."""
        return self.model_copy(update={"max_length": min(self.max_length, positions)})

    shrinkage_tokens: Annotated[int, Field(ge=2)]
    """Number of token vectors, of all layers together, from which the shrinkage covariance is
    estimated at the start of each epoch."""
    precision: Literal["float32", "bfloat16", "float16"]
    """Number format of the forward pass; the penalty is always float32. float16 needs a GPU."""


class GeometrySettings(Strict):
    """Settings for measuring the geometry of a fine-tuned model."""

    zeta: Annotated[float, Field(ge=0, le=1)]
    """Weight of the shrinkage covariance in IsoScore*; 0.75 in the authors' analysis."""
    tokens: Annotated[int, Field(ge=2)]
    """Number of token vectors of training items, of all layers together, from which that covariance
    is estimated."""


class FinetuneSpec(PaperSpec):
    """Specification of one fine-tuned model."""

    run: str
    """Name of the run, without its seed."""
    task: str
    train: str
    validation: str
    """Data set of validation items; `train` is that of training items."""
    metric: Metric
    """Metric of the task."""
    model: str
    method: Method
    training: Training
    measure: GeometrySettings
    seed: int
    """Random seed of the head's initialization, the sample and order of items, and dropout."""
    device: Literal["auto", "cpu", "cuda"]


class Probe(Strict):
    """A linear classifier or ridge regression on frozen sentence embeddings of the last layer."""

    method: Literal["none", "abtt"]
    """Post-processing of the embeddings: none, or All-But-The-Top."""
    performance: float
    """Metric of the task on the validation set."""
    n_train: int
    n_components: int
    """Number of principal components that were removed."""


class FinetuneFacts(Facts):
    """Facts about one fine-tuned model, written beside it for tables and figures."""

    run: str
    task: str
    model: str
    method: Method
    seed: int
    data: str
    """Titles of the data sets."""
    embedding: str
    """Title of the model."""
    status: str
    """`original` or `stand-in`."""
    deviations: Deviations = ""
    metric: Metric
    performance: float
    """Metric of the task on the whole validation set."""
    metrics: dict[str, float]
    """All metrics of the task."""
    chance: float
    """Metric of always predicting the most frequent training class; 0 for scores and answers."""
    isoscore: float
    """IsoScore of all token vectors of the validation set, of all layers together (without the
    embedding layer)."""
    isoscore_star: float
    """IsoScore* of the same token vectors."""
    mean_cosine: float
    """Mean cosine of pairs of the same token vectors."""
    zeta: float
    """Weight of the shrinkage covariance in `isoscore_star`."""
    n_train: int
    n_validation: int
    n_tokens: int
    """Number of tokens in the validation set."""
    n_layers: int
    updates: int
    """Number of updates by AdamW."""
    learning_rate: float
    """Largest learning rate of AdamW."""
    final_loss: float
    """Loss of the task, averaged over the last tenth of the updates."""
    activations: list[float]
    """Mean of each dimension of the sentence embeddings of the validation set, last layer."""
    probes: list[Probe]
    """Probes of a model without a method; empty for other models and for extractive tasks."""


def _format_for_path(value: float) -> str:
    """Format a number for use in paths: 0.5 as 0_5, -5 as m5."""
    return f"{value:g}".replace("-", "m").replace(".", "_").replace("+", "")
