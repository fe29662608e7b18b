"""The list of tables on the results page, and the published numbers that they are compared with."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Literal

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
    function: str
    """Function in `isotropy.tables.<paper>`. Its arguments: trajectories, tables, published numbers, as far as named."""
    runs: Literal["section3", "glue", "sensitivity"] | None = None
    """Trajectories that it is made from."""
    tables: list[str] = []
    """Tables that it is made from."""
    published: list[PublishedNumber] | None = None
    """What the paper prints, for the tables that set it beside our numbers."""
    needs: Literal["glue", "sensitivity"] | None = None
    """Part of the study without which there is no such table."""
    section: str
    """Section of the paper."""
    caption: str


def read_published(path: Path) -> list[PublishedNumber]:
    """The numbers that a paper prints."""
    with path.open(encoding="utf8", newline="") as stream:
        return [PublishedNumber.model_validate({**row, "value": float(row["value"])}) for row in csv.DictReader(stream)]


VERDICTS = TableSpec(
    id="claims/verdicts",
    function="evaluate",
    section="all",
    caption="Every claim of the papers against our number. Reproduced, deviates, contradicted: on the paper's own data and "
    "model; consistent, inconsistent: on a stand-in, which never counts as a reproduction; undecided: the interval over seeds "
    "does not tell.",
)
"""The table that the stage `claims` makes: `results/claims.parquet`."""

TABLES = {
    entry.id: entry
    for entry in (
        TableSpec(
            id="mickus2024/table1",
            function="table1",
            runs="section3",
            published=[],
            section="3.1",
            caption="Number of items and of trainable parameters per setup, computed from what was optimized, beside the "
            "published numbers.",
        ),
        TableSpec(
            id="mickus2024/correlations",
            function="correlations",
            tables=["mickus2024/trajectories"],
            published=[],
            section="3.2",
            caption="Correlation of IsoScore with silhouette over all updates of each trajectory, per seed, with mean and "
            "standard deviation over seeds, beside the published value and how far to trust it.",
        ),
        TableSpec(
            id="mickus2024/seeds",
            function="seeds",
            tables=["mickus2024/trajectories"],
            section="3.2",
            caption="Standard deviation of both scores over the initializations: the largest at any step, and the mean over "
            "steps. The paper calls it negligible.",
        ),
        TableSpec(
            id="mickus2024/table2",
            function="table2",
            runs="glue",
            published=[],
            needs="glue",
            section="A",
            caption="Number of items and of trainable parameters of the GLUE tasks, computed from what was optimized, beside "
            "the published numbers.",
        ),
        TableSpec(
            id="mickus2024/table3",
            function="table3",
            tables=["mickus2024/correlations-glue"],
            published=[],
            needs="glue",
            section="A",
            caption="Correlation of IsoScore with silhouette over the updates, per GLUE task and encoder, mean over seeds. "
            "The numbers of the paper's Table 3 did not survive in the source that we have.",
        ),
        TableSpec(
            id="mickus2024/sensitivity",
            function="sensitivity",
            tables=["mickus2024/trajectories", "mickus2024/trajectories-sensitivity"],
            published=[],
            needs="sensitivity",
            section="3",
            caption="What changes the result: the correlation and the direction of both scores with one thing changed at a "
            "time, and whether the verdict changes with it.",
        ),
        TableSpec(
            id="mickus2024/appendix_b",
            function="appendix_b",
            runs="section3",
            section="B",
            caption="The objective of equation 5 against the two that it is said to bound from above: the silhouette "
            "objective (equation 1), over all items, and the triplet objective (margin 0), on 200 items; before and "
            "after training.",
        ),
        TableSpec(
            id="mickus2024/trajectories",
            function="trajectories",
            runs="section3",
            section="3.2",
            caption="Loss, accuracy, IsoScore and silhouette of every setup and seed after each update: the numbers behind "
            "Figures 2 and 3.",
        ),
        TableSpec(
            id="mickus2024/trajectories-glue",
            function="trajectories",
            runs="glue",
            needs="glue",
            section="A",
            caption="The same for each GLUE task and encoder: the numbers behind Figure 4.",
        ),
        TableSpec(
            id="mickus2024/correlations-glue",
            function="correlations",
            tables=["mickus2024/trajectories-glue"],
            published=[],
            needs="glue",
            section="A",
            caption="Correlation of IsoScore with silhouette per GLUE task, encoder and seed: the numbers behind Table 3.",
        ),
        TableSpec(
            id="mickus2024/trajectories-sensitivity",
            function="trajectories",
            runs="sensitivity",
            needs="sensitivity",
            section="3",
            caption="The same for the setups with one thing changed at a time.",
        ),
    )
}
