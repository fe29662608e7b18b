"""What a fetched folder says of itself."""

from __future__ import annotations

from pathlib import Path

from isotropy.provenance.lineage import Status
from isotropy.sources.spec import Content
from isotropy.spec import Strict

FACTS = "source.json"  # beside the payload


class FetchedSource(Strict):
    """What really came: written as `source.json`, and into the records of everything made from
    it.
    """

    id: str
    kind: str
    status: Status
    content: Content
    origin: str
    licence: str
    citation: str


def fetched(folder: Path) -> FetchedSource:
    """What a fetched folder holds."""
    return FetchedSource.model_validate_json((folder / FACTS).read_text("utf8"))
