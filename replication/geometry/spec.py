"""Specs of the measurements of point clouds, and the facts written beside their results."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from replication.field_types import DROPPABLE, Name, distinct
from replication.spec import Deviations, Facts, PaperSpec, Strict


class StabilityCloud(Strict):
    """A point cloud: a sample of a normal distribution, or the embeddings of a data set."""

    kind: Literal["normal", "embeddings"]
    d: Annotated[int, Field(ge=2)] | None = None
    """Dimensions (normal)."""
    isoscore: Annotated[float, Field(gt=0.75, lt=1)] | None = None
    """IsoScore of the distribution (normal). Its variances decrease linearly over dimensions, which
    limits it to more than 3/4."""
    dataset: str | None = None
    """A name from `datasets` (embeddings)."""
    embedding: str | None = None
    """A model of the source registry (embeddings)."""

    @model_validator(mode="after")
    def _complete(self) -> StabilityCloud:
        normal, embeddings = (self.d, self.isoscore), (self.dataset, self.embedding)
        needed, other = (normal, embeddings) if self.kind == "normal" else (embeddings, normal)
        if None in needed or other != (None, None):
            raise ValueError(
                "expected d and isoscore for kind normal, dataset and embedding for embeddings"
            )
        return self


class Stability(Strict):
    """Compare IsoScore* of small samples with the score of the whole cloud (Rudman & Eickhoff 2024,
    poster, Figure 4).
    """

    clouds: Annotated[dict[Name, StabilityCloud], Field(min_length=1), DROPPABLE]
    """Point clouds, by name."""
    zetas: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2)]
    """Weights of the shrinkage covariance; must include 0, which is IsoScore without shrinkage."""
    sizes: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=2)]
    """Sample sizes in ascending order; those larger than a cloud are left out."""
    shrinkage_points: Annotated[int, Field(ge=2)]
    """Points that the shrinkage covariance is estimated from, separate from the samples; at most
    half of the embeddings."""
    repeats: Annotated[int, Field(ge=2)]
    """Number of samples of each size."""

    @model_validator(mode="after")
    def _has_isoscore(self) -> Stability:
        distinct(self.zetas)
        if 0 not in self.zetas or sorted(set(self.sizes)) != self.sizes:
            raise ValueError("expected zetas that include 0, and sizes in ascending order")
        return self


class StabilitySpec(PaperSpec):
    """Spec of the IsoScore* stability measurement of one cloud."""

    name: str
    cloud: StabilityCloud
    zetas: list[float]
    sizes: list[int]
    shrinkage_points: int
    repeats: int


class StabilityFacts(Facts):
    """Facts about the samples of a cloud, written beside their rows."""

    name: str
    cloud: StabilityCloud
    data: str
    """Title of the data set, or description of the distribution."""
    embedding: str
    """Title of the model; empty for a normal cloud."""
    status: str
    deviations: Deviations = ""
    d: int
    isoscore: float
    """IsoScore of the distribution, or of all embeddings."""
    shrinkage_points: int


TypesName = Literal["subwords", "words"]
"""Definition of a type: an entry of the model's vocabulary (as in the paper), or a word between
blanks, as a sequence of such entries."""


Variant = Literal["all", "no-first", "no-massive", "standardized"]
"""Which tokens are measured, and how they are transformed. all: all tokens, unchanged (as in the
paper). no-first: without the first token of each window. no-massive: without tokens that have a
massive activation (`is_massive`). standardized: all tokens, each dimension scaled to mean 0 and
variance 1 (Timkey & van Schijndel 2021, section 5)."""


class Clustering(Strict):
    """Settings for choosing the number of clusters and clustering (Cai et al. 2021, section 4)."""

    k_max: Annotated[int, Field(ge=2)]
    """Numbers of clusters from 2 to this one are tried; 15 in the authors' code."""
    sample_size: Annotated[int, Field(ge=3)] | None
    """Number of tokens that silhouettes are computed on; 20,000 in the authors' code. null: all."""
    threshold: float
    """Minimum silhouette for a cloud to count as clustered; 0.1 in the authors' code."""
    n_components: Annotated[int, Field(ge=2)] | None
    """Number of principal components that k-means runs on; null: the vectors themselves. The paper
    does not say; the code has both."""
    n_init: Annotated[int, Field(ge=1)]
    """Random starts of k-means for each number of clusters, of which the best is taken; 10 in the
    authors' code, scikit-learn's default at that time."""
    max_iter: Annotated[int, Field(ge=1)]
    """Maximum number of iterations of k-means; 300 in the authors' code."""


class Lid(Strict):
    """Settings of the local intrinsic dimension (Cai et al. 2021, section 5)."""

    k: Annotated[int, Field(ge=2)]
    """Number of nearest neighbours, found exactly; 100 in the authors' code."""
    n_queries: Annotated[int, Field(ge=1)] | None
    """Number of random points at which the dimension is measured, with neighbours among all points;
    null: all points, as in the paper."""
    n_equal: Annotated[int, Field(ge=3)]
    """Size of a sample in which the dimension by cosines is measured again: it depends on the
    number of points, so that clouds are compared at equal size. Not measured in smaller clouds."""
    n_types: Annotated[int, Field(ge=3)]
    """Size of samples with few points of each type, one or more, in which the dimension by cosines
    is measured again: most neighbours of a frequent token are of its own type. Not measured in
    clouds with fewer types."""


class LayerSpec(PaperSpec):
    """Spec of the geometry of one layer of a model on a corpus."""

    dataset: str
    source: str
    """The corpus of the data set."""
    empty: str
    """Text that stands for an empty line of the corpus."""
    model: str
    layer: int
    window: int
    types: list[TypesName]
    variants: list[Variant]
    """The first is `all`."""
    clustering: Clustering
    lid: Lid
    n_points: int
    """Number of tokens in the plots."""
    seeds: list[int]
    """Seeds of k-means, samples and query points."""


class LayerFacts(Facts):
    """Facts about a layer, written beside its rows."""

    dataset: str
    embedding: str
    layer: int
    data: str
    """Title of the corpus."""
    model: str
    """Title of the model."""
    status: str
    deviations: Deviations = ""
    window: int
    n_windows: int
    d: int
    lid_k: int
    n_components: int | None
    """Number of principal components that k-means ran on; null: the vectors themselves."""
    threshold: float
    """Minimum silhouette for a cloud to count as clustered."""


class VectorsSpec(PaperSpec):
    """Spec of the local intrinsic dimension of static vectors."""

    vectors: str
    lid: Lid
    seeds: list[int]


class VectorsFacts(Facts):
    """Facts about static vectors, written beside their rows."""

    embedding: str
    model: str
    """Title of the vectors."""
    status: str
    deviations: Deviations = ""
    n: int
    d: int
    lid_k: int


Unit = Literal["pieces", "first", "mean"]
"""Representation of a word. pieces: each piece of the vocabulary is a word of its own; first: by
the first piece of the word; mean: by the mean of its pieces."""


class ContextsSpec(PaperSpec):
    """Spec of the contextuality measures of one layer of a model."""

    texts: str
    """Name of the group of data sets."""
    datasets: list[str]
    """Data sets whose texts are the sentences; each distinct sentence counts once."""
    model: str
    layer: int
    unit: Unit
    """Representation of words with which variants, single words and dimensions are measured."""
    units: list[Unit]
    variants: list[Variant]
    """The first is `all`."""
    min_contexts: int
    """Minimum number of different sentences of a word."""
    n_baseline: int
    """Number of random tokens per draw for the baseline of explainable variance."""
    n_draws: int
    """Number of such draws."""
    seed: int


class ContextsFacts(Facts):
    """Facts about a layer, written beside its rows."""

    texts: str
    embedding: str
    layer: int
    data: str
    """Titles of the data sets."""
    model: str
    """Title of the model."""
    status: str
    deviations: Deviations = ""
    main_unit: Unit
    """Representation of words with which claims are tested."""
    min_contexts: int
    d: int


class StaticWordsSpec(PaperSpec):
    """Spec of static word vectors made from layers of a model, evaluated on benchmarks."""

    texts: str
    """Name of the group of data sets."""
    datasets: list[str]
    """Data sets whose texts are the sentences; each distinct sentence counts once."""
    model: str
    layers: list[int]
    min_contexts: int
    """Minimum number of different sentences of a word."""
    benchmarks: list[str]
    """Data sets of word pairs with similarity scores."""
    vectors: list[str]
    """Static vectors that are evaluated on the same pairs, for comparison."""


class StaticWordsFacts(Facts):
    """Facts about static word vectors made from a model, written beside their rows."""

    texts: str
    embedding: str
    data: str
    """Titles of the data sets: sentences and benchmarks."""
    model: str
    """Title of the model."""
    status: str
    deviations: Deviations = ""
    vector_titles: dict[str, str] = {}
    """Titles of the static vectors that it is compared with, by their ids."""
    min_contexts: int
