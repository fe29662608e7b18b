"""What defines embeddings: of sentences or tokens by an encoder, of words by a table."""

from __future__ import annotations

from typing import Literal

from isotropy.sources.encoder import Encoder
from isotropy.sources.spec import RandomOrigin, Source
from isotropy.spec import Spec


class InitializeSpec(Spec):
    """What defines a model with random weights."""

    id: str
    source: Source
    origin: RandomOrigin


class EmbedSpec(Spec):
    """What defines the embeddings of a data set."""

    dataset: str
    model: str
    encoder: Encoder
    token_budget: int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class TokensSpec(Spec):
    """What defines the token vectors of a data set."""

    dataset: str
    model: str
    encoder: Encoder
    layers: list[int]
    """Hidden layers, rising: 0 is the embedding layer, the last as the model gives it (after its
    final norm, if any)."""
    window: int | None
    """Tokens of a window of the stream of all texts; null: each text by itself."""
    token_budget: int
    device: Literal["auto", "cpu", "cuda"]
    dtype: Literal["float32", "bfloat16"]


class ShardSpec(Spec):
    """What defines a share of the token vectors of a data set."""

    tokens: TokensSpec
    shard: int
    """Which share, from 1."""
    shards: int


class LookUpSpec(Spec):
    """What defines the static embeddings of a data set of words."""

    dataset: str
    vectors: str
