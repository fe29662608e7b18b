"""The description of a fetched source, in the file `source.json` beside its files."""

from __future__ import annotations

from pathlib import Path

from replication.provenance.lineage import Status
from replication.sources.spec import Content
from replication.spec import Strict

FACTS = "source.json"  # beside the payload


class FetchedSource(Strict):
    """A source as it was fetched: written as `source.json`, and into the records of all results
    made from it.
    """

    id: str
    kind: str
    status: Status
    content: Content
    origin: str
    licence: str
    citation: str


def read_fetched(folder: Path) -> FetchedSource:
    """Read the description of a fetched source from its folder."""
    return FetchedSource.model_validate_json((folder / FACTS).read_text("utf8"))
