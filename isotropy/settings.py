"""Settings of a study that no paper owns: where inputs come from, and how jobs compute."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from isotropy.sources.registry import Tier
from isotropy.spec import Strict


class Sources(Strict):
    """Where inputs come from."""

    registry: str
    """Folder of the source registry, relative to the project."""
    order: Annotated[list[Tier], Field(min_length=1)]
    """Kinds of origins, in the order in which they are tried."""
    mirror: str | None
    """A folder in the layout of the official homes, relative to the project; null: none."""
    trust_on_first_use: bool
    """Accept a download whose sha256 the registry does not know, and record what came."""


class Compute(Strict):
    """How jobs compute."""

    device: Literal["auto", "cpu", "cuda"]
    """`auto`: the GPU where there is one; `cuda`: a job without a GPU stops."""
    dtype: Literal["float32", "bfloat16"]
    """Number format of the encoders. The papers' results are float32."""
    token_budget: Annotated[int, Field(ge=16)]
    """Most tokens in one batch of an encoder, padding included."""
    shards: Annotated[int, Field(ge=1)]
    """Jobs that share the extraction of the token vectors of one data set by one model. Does not
    change the result."""

    def for_encoders(self) -> dict[str, Any]:
        """The fields that specs of encoders have."""
        return self.model_dump(exclude={"shards"})
