"""Lineage: whether a result is original, and the sources that it is made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from isotropy.scrub import scrub

Status = Literal["original", "stand-in"]
"""original: the paper's own data, model and protocol; stand-in: a substitute."""


def titles_by_id(sources: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Titles of what was fetched, by the ids of the sources, as records have them."""
    return {source["id"]: source["content"]["title"] for source in sources}


class Lineage(BaseModel):
    """Status of a result (original or not), and the sources that it is made from."""

    model_config = ConfigDict(extra="forbid")

    status: Status = "original"
    reasons: list[str] = []
    """Reasons why it is a stand-in."""
    sources: list[dict[str, Any]] = []
    """All fetched sources upstream of the result (`replication.sources.spec.FetchedSource`)."""

    @classmethod
    def of(cls, inputs: Iterable[Self]) -> Self:
        """Combine the lineages of the inputs of a result."""
        combined = cls()
        for lineage in inputs:
            combined.merge(lineage)
        return combined

    @property
    def deviations(self) -> str:
        """The reasons as one string, for tables; semicolons separate them."""
        return "; ".join(reason.replace(";", ",") for reason in self.reasons)

    def titles(self, *kinds: str) -> list[str]:
        """Return the titles of sources of the given kinds, each once."""
        return list(
            dict.fromkeys(
                s["content"]["title"] for kind in kinds for s in self.sources if s["kind"] == kind
            )
        )

    def deviate(self, reasons: list[str]) -> None:
        """Add deviations of the job from the paper's protocol; any deviation makes a stand-in."""
        if reasons:
            self.merge(Lineage(status="stand-in", reasons=reasons))

    def merge(self, other: Lineage) -> None:
        """Add the lineage of another input."""
        if other.status == "stand-in":
            self.status = "stand-in"
        self.reasons += [r for r in other.reasons if r not in self.reasons]
        self.sources += [s for s in other.sources if s not in self.sources]

    def recorded(self) -> Lineage:
        """Return the lineage as it is written to records, without personal data."""
        return Lineage.model_validate(scrub(self.model_dump(mode="json")))
