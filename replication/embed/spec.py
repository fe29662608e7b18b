"""Specifications of embeddings: of sentences or tokens by an encoder, of words by lookup."""

from __future__ import annotations

from typing import Literal

from isotropy.models.encoder import Encoder
from replication.sources.spec import RandomOrigin, Source
from replication.spec import Spec


class InitializeSpec(Spec):
    """Specification of a model with random weights."""

    id: str
    source: Source
    origin: RandomOrigin


class EmbedSpec(Spec):
    """Specification of the sentence embeddings of a data set."""

    dataset: str
    model: str
    encoder: Encoder
    token_budget: Literal["auto"] | int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class TokensSpec(Spec):
    """Specification of the token vectors of a data set."""

    dataset: str
    model: str
    encoder: Encoder
    layers: list[int]
    """Hidden layers in ascending order: 0 is the embedding layer; the last one is as the model
    returns it (after its final layer norm, if any)."""
    window: int | None
    """Length in tokens of the windows into which the concatenated texts are cut; null: each text is
    encoded by itself."""
    token_budget: Literal["auto"] | int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class ShardSpec(Spec):
    """Specification of one shard of the token vectors of a data set."""

    tokens: TokensSpec
    shard: int
    """Number of this shard, counted from 1."""
    shards: int


class LookUpSpec(Spec):
    """Specification of the static embeddings of a data set of words."""

    dataset: str
    vectors: str
