"""What defines measurements of point clouds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from isotropy.names import Name, distinct
from isotropy.spec import Spec, Strict


class Cloud(Strict):
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
    def _complete(self) -> Cloud:
        normal, embeddings = (self.d, self.isoscore), (self.dataset, self.embedding)
        needed, other = (normal, embeddings) if self.kind == "normal" else (embeddings, normal)
        if None in needed or other != (None, None):
            raise ValueError("a normal cloud has d and isoscore, one of embeddings has dataset and embedding")
        return self


class Stability(Strict):
    """IsoScore* of small samples against the score of the whole (Rudman & Eickhoff 2024, poster, Figure 4)."""

    clouds: Annotated[dict[Name, Cloud], Field(min_length=1)]
    """Point clouds, by name."""
    zetas: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=2)]
    """Shares of the shrinkage covariance; 0, which is IsoScore, must be among them."""
    sizes: Annotated[list[Annotated[int, Field(ge=2)]], Field(min_length=2)]
    """Sizes of samples, rising; those that a cloud cannot give are left out."""
    shrinkage_points: Annotated[int, Field(ge=2)]
    """Points behind the shrinkage covariance, apart from the samples; at most half of the embeddings."""
    repeats: Annotated[int, Field(ge=2)]
    """Samples of each size."""

    @model_validator(mode="after")
    def _has_isoscore(self) -> Stability:
        distinct(self.zetas)
        if 0 not in self.zetas or sorted(set(self.sizes)) != self.sizes:
            raise ValueError("zetas must hold 0, and sizes must rise")
        return self


class StabilitySpec(Spec):
    """What defines the samples of one cloud."""

    paper: str
    name: str
    cloud: Cloud
    zetas: list[float]
    sizes: list[int]
    shrinkage_points: int
    repeats: int


class Sampled(Spec):
    """Facts about the samples of a cloud, written beside them."""

    name: str
    cloud: Cloud
    data: str
    """Title of the data set, or what was drawn."""
    embedding: str
    """Title of the model; empty for a normal cloud."""
    status: str
    d: int
    isoscore: float
    """Of the distribution, or of all embeddings."""
    shrinkage_points: int
