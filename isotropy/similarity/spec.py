"""What defines measurements of post-processed representations (Rajaee & Pilehvar 2021; Rajaee &
Sheikhi 2020).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from isotropy.sources.encoder import Encoder
from isotropy.spec import PaperSpec, Spec, Strict

MethodName = Literal["none", "mean", "abtt", "kmeans-mean", "gmm", "kmeans"]
"""none; mean: subtract the mean; abtt: mean and first principal components ("global"); kmeans-mean:
the mean of each cluster;
gmm, kmeans: mean and first principal components of each cluster of a Gaussian mixture, of k-means
("cluster-based")."""

METHOD_TITLES: dict[str, str] = {
    "none": "none",
    "mean": "mean",
    "abtt": "mean + PCA (global)",
    "kmeans-mean": "k-means + mean",
    "gmm": "GMM + mean + PCA",
    "kmeans": "k-means + mean + PCA",
}
CLUSTERED = ("kmeans-mean", "gmm", "kmeans")

DroppedTokens = Literal["special", "first-and-last", "nothing"]
"""Tokens that do not count: special tokens such as [CLS]; the first and the last of each text;
none."""


class Parameters(Strict):
    """How many clusters, and how many principal components are removed."""

    n_clusters: Annotated[int, Field(ge=1)]
    """27 for BERT and RoBERTa, 10 for GPT-2 in the paper."""
    n_components: Annotated[int, Field(ge=1)]
    """From each cluster: 12 for BERT and RoBERTa, 30 for GPT-2 in the paper."""
    n_components_global: Annotated[int, Field(ge=1)]
    """From the whole: 15 for BERT, 25 for RoBERTa, 30 for GPT-2 in the paper."""


class Clusterer(Strict):
    """How clusters are found."""

    init: Literal["random", "k-means++"]
    """First centres: random points (the authors), or k-means++."""
    max_iter: Annotated[int, Field(ge=1)]
    """Iterations. The authors' code, which does not converge, is 9: SciPy's labels of 10 are of
    before the last."""
    tol: Annotated[float, Field(ge=0)]
    """Of convergence, as in scikit-learn; 0: all iterations."""


class Mlp(Strict):
    """The authors' classifier: one hidden layer, and the epoch with the best validation score."""

    hidden: Annotated[int, Field(ge=1)]
    """Units; 100 in the authors' code."""
    epochs: Annotated[int, Field(ge=1)]
    """Passes; 10 in the authors' code."""
    batch_size: Annotated[int, Field(ge=1)]
    """Items; 32 in the authors' code."""
    learning_rate: Annotated[float, Field(gt=0)]
    """Of Adam: 0.00003 in the authors' notebook, 0.005 in their e-mail to Dzubur (2022)."""


class SimilaritySpec(PaperSpec):
    """What defines the measurements on one data set, in one layer."""

    dataset: str
    embedding: str
    """A model, or static vectors."""
    layer: int | None
    """null: static vectors."""
    drop_tokens: DroppedTokens
    repeat_texts: bool
    """A sentence counts as often as it occurs (the authors), or once."""
    methods: list[MethodName]
    parameters: Parameters | None
    """null: those that the tuning found."""
    cluster_counts: list[int]
    """Other numbers of clusters for kmeans-mean (the paper's Table 1)."""
    profiled: bool
    """One of the layers whose isotropy is shown layer by layer (the paper's Table 5)."""
    plotted: bool
    """Tokens are drawn before and after the method."""
    n_clusterings: Annotated[int, Field(ge=1)]
    """Clusterings, with seeds 0, 1, …"""
    clusterer: Clusterer


class TuningSpec(PaperSpec):
    """What defines the choice of numbers on one data set, in one layer."""

    dataset: str
    embedding: str
    layer: int | None
    drop_tokens: DroppedTokens
    repeat_texts: bool
    n_clusters: list[int]
    n_components: list[int]
    """Tried with each number of clusters, and for the global method."""
    n_clusterings: Annotated[int, Field(ge=1)]
    """Clusterings per trial, with seeds 0, 1, …"""
    clusterer: Clusterer


class TuningFacts(Spec):
    """The numbers with the highest Spearman correlation."""

    embedding: str
    layer: int | None
    status: str
    """`original` or `stand-in`."""
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    parameters: Parameters
    dataset: str
    """Title of the data that they were chosen on."""


class SimilarityFacts(Spec):
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
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    drop_tokens: DroppedTokens
    parameters: Parameters | None
    """null: nothing was post-processed."""
    parameters_from: str
    """Where the numbers come from: the configuration, or the data that they were chosen on."""
    profiled: bool
    """One of the layers whose isotropy is shown layer by layer."""
    n_pairs: int
    """Pairs whose similarity counts."""
    n_pairs_all: int
    """Pairs of the data set; static vectors do not have all words."""
    n_sentences: int
    n_tokens: int
    """Rows of the cloud: tokens, or words of the vocabulary."""
    d: int


class ClassifySpec(PaperSpec):
    """What defines the classification of one task on frozen features of one model."""

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
    token_budget: int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class ClassificationFacts(Spec):
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
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    metric: str
    chance: float
    """The metric of the most frequent training class."""
    parameters: Parameters
    n_train: int
    n_train_all: int
    n_validation: int
    max_length: int
    d: int
