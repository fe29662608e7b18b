"""Lineage: whether a result is original, and from which sources it is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict

from isotropy.scrub import scrub

Status = Literal["original", "stand-in", "rehearsal"]
"""The paper's own; a substitute; synthetic, to try out a study: its numbers say nothing."""
RANKS: dict[Status, int] = {"original": 0, "stand-in": 1, "rehearsal": 2}
"""Of several inputs the highest decides."""


class Lineage(BaseModel):
    """Whether a result is original, and from which sources it is made."""

    model_config = ConfigDict(extra="forbid")

    status: Status = "original"
    reasons: list[str] = []
    """Why it is a stand-in."""
    sources: list[dict[str, Any]] = []
    """Every fetched source below this result (`isotropy.sources.fetch.FetchedSource`)."""

    @classmethod
    def of(cls, inputs: Iterable[Self]) -> Self:
        """The lineage of a result that is made from several inputs."""
        found = cls()
        for lineage in inputs:
            found.merge(lineage)
        return found

    @property
    def deviations(self) -> str:
        """The reasons in one string, for tables."""
        return "; ".join(reason.replace(";", ",") for reason in self.reasons)

    def titles(self, *kinds: str) -> list[str]:
        """Titles of the contents of sources of some kinds, each once."""
        return list(
            dict.fromkeys(
                s["content"]["title"] for kind in kinds for s in self.sources if s["kind"] == kind
            )
        )

    def deviate(self, reasons: list[str]) -> None:
        """Note in what the job deviates from the papers' own way: any deviation makes a
        stand-in.
        """
        if reasons:
            self.merge(Lineage(status="stand-in", reasons=reasons))

    def merge(self, other: Lineage) -> None:
        """Add the lineage of another input."""
        self.status = max(self.status, other.status, key=RANKS.__getitem__)
        self.reasons += [r for r in other.reasons if r not in self.reasons]
        self.sources += [s for s in other.sources if s not in self.sources]

    def recorded(self) -> Lineage:
        """The lineage as records have it: without what belongs to a person."""
        return Lineage.model_validate(scrub(self.model_dump(mode="json")))
