"""Specs of the measurements of post-processed representations (Rajaee & Pilehvar 2021; Rajaee &
Sheikhi 2020), and the facts written beside their results.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotropy.models.encoder import Encoder
from replication.spec import Deviations, Facts, PaperSpec, Strict

MethodName = Literal["none", "mean", "abtt", "kmeans-mean", "gmm", "kmeans"]
"""Post-processing method. none: unchanged; mean: subtract the mean; abtt: remove the mean and the
first principal components ("global"); kmeans-mean: subtract the mean of each k-means cluster; gmm,
kmeans: remove the mean and the first principal components of each cluster of a Gaussian mixture or
of k-means ("cluster-based")."""

ControlName = Literal["random-parts", "abtt-variance"]
"""Control of kmeans. random-parts: kmeans with random parts as large as its clusters;
abtt-variance: abtt with as many components as leave the variance that kmeans leaves."""

METHOD_TITLES: dict[str, str] = {
    "none": "none",
    "mean": "mean",
    "abtt": "mean + PCA (global)",
    "kmeans-mean": "k-means + mean",
    "gmm": "GMM + mean + PCA",
    "kmeans": "k-means + mean + PCA",
    "random-parts": "random parts + mean + PCA",
    "abtt-variance": "global, variance of k-means",
}
ISOTROPIES = ("log10_isotropy", "log10_isotropy_matched", "log10_isotropy_sentences")
"""Columns with I(W) of all tokens, of the same at their norm before, and of sentences; each has a
range over the signs of eigenvectors."""
CLUSTERED = ("kmeans-mean", "gmm", "kmeans")


def with_range(column: str) -> tuple[str, str, str]:
    """Return the names of a column and of those with its lowest and highest value over signs."""
    return column, f"{column}_low", f"{column}_high"


DroppedTokens = Literal["special", "first-and-last", "nothing"]
"""Tokens that are left out: special tokens such as [CLS]; the first and the last token of each
text; none."""


class Parameters(Strict):
    """Number of clusters, and of principal components to remove."""

    n_clusters: Annotated[int, Field(ge=1)]
    """27 for BERT and RoBERTa, 10 for GPT-2 in the paper."""
    n_components: Annotated[int, Field(ge=1)]
    """Components to remove per cluster: 12 for BERT and RoBERTa, 30 for GPT-2 in the paper."""
    n_components_global: Annotated[int, Field(ge=1)]
    """Components to remove from the whole cloud (abtt): 15 for BERT, 25 for RoBERTa, 30 for GPT-2
    in the paper."""


class Clusterer(Strict):
    """Settings of the clustering."""

    init: Literal["random", "k-means++"]
    """Initial centres: random points (as in the authors' code), or k-means++."""
    max_iter: Annotated[int, Field(ge=1)]
    """Maximum number of iterations. 9 reproduces the authors' code, which does not converge: it
    runs 10 iterations of SciPy's k-means, whose labels are those before the last update."""
    tol: Annotated[float, Field(ge=0)]
    """Tolerance of convergence, as in scikit-learn; 0: run all iterations."""


class Mlp(Strict):
    """The authors' classifier: one hidden layer, and the epoch with the best validation score."""

    hidden: Annotated[int, Field(ge=1)]
    """Units of the hidden layer; 100 in the authors' code."""
    epochs: Annotated[int, Field(ge=1)]
    """Training epochs; 10 in the authors' code."""
    batch_size: Annotated[int, Field(ge=1)]
    """Items per batch; 32 in the authors' code."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Learning rate of Adam: 0.00003 in the authors' notebook, 0.005 in their e-mail to Dzubur
    (2022)."""


class SimilaritySpec(PaperSpec):
    """Spec of the measurements on one data set, in one layer."""

    dataset: str
    embedding: str
    """Name of a model or of static vectors."""
    layer: int | None
    """Hidden layer; null: static vectors."""
    drop_tokens: DroppedTokens
    repeat_texts: bool
    """Whether a sentence counts as often as it occurs (as in the paper), or once."""
    methods: list[MethodName]
    parameters: Parameters | None
    """null: the parameters that the tuning found."""
    cluster_counts: list[int]
    """Other numbers of clusters for kmeans-mean (the paper's Table 1)."""
    profiled: bool
    """Whether the layer is part of the profile of isotropy by layer (the paper's Table 5)."""
    plotted: bool
    """Whether tokens are plotted before and after post-processing."""
    n_clusterings: Annotated[int, Field(ge=1)]
    """Number of clusterings, with seeds 0, 1, …"""
    clusterer: Clusterer


class TuningSpec(PaperSpec):
    """Spec of the tuning of parameters on one data set, in one layer."""

    dataset: str
    embedding: str
    layer: int | None
    drop_tokens: DroppedTokens
    repeat_texts: bool
    n_clusters: list[int]
    n_components: list[int]
    """Numbers of components to try, with each number of clusters and for the global method."""
    n_clusterings: Annotated[int, Field(ge=1)]
    """Number of clusterings per trial, with seeds 0, 1, …"""
    clusterer: Clusterer


class TuningFacts(Facts):
    """What the tuning writes: the parameters with the highest Spearman correlation."""

    embedding: str
    layer: int | None
    status: str
    """`original` or `stand-in`."""
    deviations: Deviations = ""
    parameters: Parameters
    dataset: str
    """Title of the data set that they were tuned on."""


class SimilarityFacts(Facts):
    """Facts about the measurements, written beside them for tables and figures."""

    dataset: str
    embedding: str
    layer: int | None
    data: str
    """Title of the data set."""
    model: str
    """Title of the model or vectors."""
    status: str
    """`original` or `stand-in`."""
    deviations: Deviations = ""
    drop_tokens: DroppedTokens
    parameters: Parameters | None
    """null: nothing was post-processed."""
    parameters_from: str
    """Origin of the parameters: the configuration, or the data set that they were tuned on."""
    profiled: bool
    """Whether the layer is part of the profile of isotropy by layer."""
    n_pairs: int
    """Number of scored pairs that are evaluated."""
    n_pairs_all: int
    """Number of pairs of the data set; static vectors lack some words."""
    n_sentences: int
    n_tokens: int
    """Number of rows of the cloud: tokens, or words of the vocabulary."""
    d: int


class ClassifySpec(PaperSpec):
    """Spec of the classification of one task on frozen features of one model."""

    task: str
    train: str
    validation: str
    """Data sets."""
    metric: Literal["accuracy", "f1", "matthews"]
    embedding: str
    """A model."""
    layer: int
    encoder: Encoder
    methods: list[MethodName]
    parameters: Parameters
    clusterer: Clusterer
    n_train: int | None
    max_length: int
    mlp: Mlp
    seeds: list[int]
    token_budget: Literal["auto"] | int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class ClassificationFacts(Facts):
    """Facts about the classification of a task, written beside its rows."""

    task: str
    embedding: str
    layer: int
    data: str
    """Titles of the data sets."""
    model: str
    """Title of the model."""
    status: str
    """`original` or `stand-in`."""
    deviations: Deviations = ""
    metric: str
    chance: float
    """Value of the metric if the most frequent training class is always predicted."""
    parameters: Parameters
    n_train: int
    n_train_all: int
    n_validation: int
    max_length: int
    d: int
