"""The list of tables on the results page, and the published numbers that they are compared with."""

from __future__ import annotations

import csv
from pathlib import Path

from isotropy.spec import Spec, Strict


class PublishedNumber(Strict):
    """A number that a paper prints, and how far to trust it. The rows of `published/<paper>.csv`."""

    locator: str
    """Table, figure or section."""
    dataset: str
    model: str
    quantity: str
    value: float
    trust: str


class TableSpec(Spec):
    """What defines a table; also its entry on the results page."""

    id: str
    """Paper and name: `results/tables/<id>.parquet`, `.csv`, `.md`."""
    section: str
    """Section of the paper."""
    caption: str
    published: list[PublishedNumber] = []
    """What the paper prints, for the tables that set it beside our numbers."""


def read_published(path: Path) -> list[PublishedNumber]:
    """The numbers that a paper prints."""
    with path.open(encoding="utf8", newline="") as stream:
        return [PublishedNumber.model_validate({**row, "value": float(row["value"])}) for row in csv.DictReader(stream)]


TABLES = {
    entry.id: entry
    for entry in (
        TableSpec(
            id="mickus2024/trajectories",
            section="3.2",
            caption="Loss, accuracy, IsoScore and silhouette of every setup and seed at each evaluated step: the numbers "
            "behind Figures 2 and 3.",
        ),
        TableSpec(
            id="mickus2024/table1",
            section="3.1",
            caption="Number of items and of trainable parameters per setup, computed from what was optimized, beside the "
            "published numbers.",
        ),
        TableSpec(
            id="mickus2024/correlations",
            section="3.2",
            caption="Correlation of IsoScore with silhouette over all updates of each trajectory (interpolated linearly "
            "where fewer steps were measured), per seed, with mean and standard deviation over seeds, beside the published "
            "value and how far to trust it.",
        ),
    )
}
