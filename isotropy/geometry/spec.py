"""What defines measurements of point clouds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.field_types import DROPPABLE, Name, distinct
from isotropy.spec import PaperSpec, Spec, Strict


class PointCloud(Strict):
    """A point cloud: drawn from a normal distribution, or the embeddings of a data set."""

    kind: Literal["normal", "embeddings"]
    d: Annotated[int, Field(ge=2)] | None = None
    """Dimensions (normal)."""
    isoscore: Annotated[float, Field(gt=0.75, lt=1)] | None = None
    """True IsoScore (normal); variances fall linearly, which cannot give less than 3/4."""
    dataset: str | None = None
    """A name from `datasets` (embeddings)."""
    embedding: str | None = None
    """A model of the source registry (embeddings)."""

    @model_validator(mode="after")
    def _complete(self) -> PointCloud:
        normal, embeddings = (self.d, self.isoscore), (self.dataset, self.embedding)
        needed, other = (normal, embeddings) if self.kind == "normal" else (embeddings, normal)
        if None in needed or other != (None, None):
            raise ValueError(
                "a normal cloud has d and isoscore, one of embeddings has dataset and embedding"
            )
        return self


class Stability(Strict):
    """IsoScore* of small samples against the score of the whole (Rudman & Eickhoff 2024, poster,
    Figure 4).
    """

    clouds: Annotated[dict[Name, PointCloud], Field(min_length=1), DROPPABLE]
    """Point clouds, by name."""
    zetas: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2)]
    """Shares of the shrinkage covariance; 0, which is IsoScore, must be among them."""
    sizes: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=2)]
    """Sizes of samples, rising; those that a cloud cannot give are left out."""
    shrinkage_points: Annotated[int, Field(ge=2)]
    """Points behind the shrinkage covariance, apart from the samples; at most half of the
    embeddings."""
    repeats: Annotated[int, Field(ge=2)]
    """Samples of each size."""

    @model_validator(mode="after")
    def _has_isoscore(self) -> Stability:
        distinct(self.zetas)
        if 0 not in self.zetas or sorted(set(self.sizes)) != self.sizes:
            raise ValueError("zetas must hold 0, and sizes must rise")
        return self


class StabilitySpec(PaperSpec):
    """What defines the samples of one cloud."""

    name: str
    cloud: PointCloud
    zetas: list[float]
    sizes: list[int]
    shrinkage_points: int
    repeats: int
    rehearsal: bool = False
    """Whether the study is a rehearsal: of a normal cloud, no source says so."""


class StabilityFacts(Spec):
    """Facts about the samples of a cloud, written beside them."""

    name: str
    cloud: PointCloud
    data: str
    """Title of the data set, or what was drawn."""
    embedding: str
    """Title of the model; empty for a normal cloud."""
    status: str
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    d: int
    isoscore: float
    """Of the distribution, or of all embeddings."""
    shrinkage_points: int


TypesName = Literal["subwords", "words"]
"""What a type is: an entry of the model's vocabulary (the authors), or a word between blanks, as
the model reads it."""


Variant = Literal["all", "no-first", "no-massive", "standardized"]
"""Which tokens count, and as what. all: all, as they are (the authors). no-first: without the first
of each window. no-massive: without those that have a massive activation (`is_massive`).
standardized: all, each dimension with mean 0 and variance 1 (Timkey & van Schijndel 2021, section
5)."""


class Clustering(Strict):
    """How clusters are counted and found (Cai et al. 2021, section 4)."""

    k_max: Annotated[int, Field(ge=2)]
    """Numbers of clusters from 2 to this one are tried; 15 in the authors' code."""
    sample_size: Annotated[int, Field(ge=3)] | None
    """Tokens on which silhouettes are taken; 20,000 in the authors' code. null: all."""
    threshold: float
    """Least silhouette of a cloud that has clusters; 0.1 in the authors' code."""
    n_components: Annotated[int, Field(ge=2)] | None
    """Principal components that k-means sees; null: the vectors themselves. The paper does not say;
    the code has both."""
    n_init: Annotated[int, Field(ge=1)]
    """Starts of k-means for each number of clusters, of which the best counts; 10 in the authors'
    code, which leaves scikit-learn's default of its time."""
    max_iter: Annotated[int, Field(ge=1)]
    """Iterations of k-means; 300 in the authors' code."""


class Lid(Strict):
    """How the local intrinsic dimension is measured (Cai et al. 2021, section 5)."""

    k: Annotated[int, Field(ge=2)]
    """Neighbours, which are exact; 100 in the authors' code."""
    n_queries: Annotated[int, Field(ge=1)] | None
    """Measured at so many points, drawn, with neighbours among all. null: at all points, as the
    authors."""
    n_equal: Annotated[int, Field(ge=3)]
    """Points of a sample in which the dimension by cosines is taken once more: it depends on their
    number, so clouds are compared at an equal one. Smaller clouds have none."""


class LayerSpec(PaperSpec):
    """What defines the geometry of one layer of a model on a corpus."""

    dataset: str
    source: str
    """The corpus of the data set."""
    empty: str
    """What its empty lines read."""
    model: str
    layer: int
    window: int
    types: list[TypesName]
    variants: list[Variant]
    """The first is `all`."""
    clustering: Clustering
    lid: Lid
    n_points: int
    """Tokens in the pictures."""
    seeds: list[int]
    """Of k-means, samples and queries."""


class LayerFacts(Spec):
    """Facts about a layer, written beside its rows."""

    dataset: str
    embedding: str
    layer: int
    data: str
    """Title of the corpus."""
    model: str
    """Title of the model."""
    status: str
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    window: int
    n_windows: int
    d: int
    lid_k: int
    n_components: int | None
    """Principal components that k-means saw."""
    threshold: float
    """Least silhouette of a cloud that has clusters."""


class VectorsSpec(PaperSpec):
    """What defines the local intrinsic dimension of static vectors."""

    vectors: str
    lid: Lid
    seeds: list[int]


class VectorsFacts(Spec):
    """Facts about static vectors, written beside their rows."""

    embedding: str
    model: str
    """Title of the vectors."""
    status: str
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    n: int
    d: int
    lid_k: int


Unit = Literal["pieces", "first", "mean"]
"""What stands for a word: each piece of the vocabulary is a word of its own; the first piece of the
word; the mean of its pieces."""


class ContextsSpec(PaperSpec):
    """What defines how contextual one layer of a model is."""

    texts: str
    """Name of the data sets together."""
    datasets: list[str]
    """Data sets whose texts are the sentences, each different one once."""
    model: str
    layer: int
    unit: Unit
    """What stands for a word where variants, single words and dimensions are measured."""
    units: list[Unit]
    variants: list[Variant]
    """The first is `all`."""
    min_contexts: int
    """Different sentences that a word must have."""
    n_baseline: int
    """Random tokens behind the baseline of explainable variance."""
    n_draws: int
    """Draws of them."""
    seed: int


class ContextsFacts(Spec):
    """Facts about a layer, written beside its rows."""

    texts: str
    embedding: str
    layer: int
    data: str
    """Titles of the data sets."""
    model: str
    """Title of the model."""
    status: str
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    main_unit: Unit
    """What stands for a word where claims are tested."""
    min_contexts: int
    d: int


class StaticWordsSpec(PaperSpec):
    """What defines static vectors of words from layers of a model, on benchmarks."""

    texts: str
    """Name of the data sets together."""
    datasets: list[str]
    """Data sets whose texts are the sentences, each different one once."""
    model: str
    layers: list[int]
    min_contexts: int
    """Different sentences that a word must have."""
    benchmarks: list[str]
    """Data sets of pairs of words with scores."""
    vectors: list[str]
    """Static vectors, for the same pairs."""


class StaticWordsFacts(Spec):
    """Facts about static vectors of words, written beside their rows."""

    texts: str
    embedding: str
    data: str
    """Titles of the data sets: of sentences, and benchmarks."""
    model: str
    """Title of the model."""
    status: str
    deviations: str = ""
    """What makes it a stand-in, with semicolons between."""
    min_contexts: int
