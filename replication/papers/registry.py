"""The registry of papers, and the interface of a paper. To add one, add a folder and a line in
`KEYS`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from replication.context import Context, Results, TokenLayers
from replication.extension import ResolvedExtension
from replication.figures.spec import FigureSpec
from replication.papers.declare import declared
from replication.papers.locations import package
from replication.papers.protocol import Publication
from replication.spec import Strict
from replication.tables.spec import PublishedNumber, TableSpec

KEYS = ("mickus2024", "rudman2024", "rajaee2021", "cai2021", "ethayarajh2019")
"""Keys of the papers, which name their folders, in the order of their pages."""


class PaperStudy(Strict):
    """The section of a paper in the configuration of a study."""

    def check(self, context: Context) -> None:
        """Check that names exist and that values fit each other.

        Raises:
            IsotropyError: describes the first mistake: path of the field, value, and what is
                expected.
        """

    def extended(self, extension: ResolvedExtension) -> Self | None:
        """Return the section for a user's models and data; None if no experiment applies."""
        raise NotImplementedError

    def changed(self, **fields: Any) -> Self:
        """Return a validated copy of the section with some fields changed."""
        return self.model_validate(dict(self) | fields)


@dataclass(frozen=True)
class PaperPlan:
    """The plan of a paper's results in a study.

    Attributes:
        results: results of the stages, by stem.
        groups: stems of runs by group; a table names the group that it is made from. The models of
            the group `kept` are kept.
        sections: parts of the paper that the study includes; tables and figures of others are
            left out.
        tokens: token vectors that the measurements read.
    """

    results: Results
    groups: dict[str, list[str]]
    sections: frozenset[str] = frozenset()
    tokens: list[TokenLayers] = field(default_factory=list)


class Paper(Publication):
    """One paper, with what makes its results."""

    study: type[PaperStudy]
    """Its section of the configuration."""
    results: Callable[[Any, Context], PaperPlan]
    """Lists the results to compute, given its section of a study's configuration."""
    model_column: str
    """Column of its tables with the id of a model."""

    @property
    def folder(self) -> Path:
        """Folder of its modules, claims and published numbers."""
        return Path(__file__).parent / self.key

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Declared tables, in the order of the page."""
        return declared(import_module(f"{package(self.key)}.tables"), TableSpec)

    @property
    def figures(self) -> tuple[FigureSpec, ...]:
        """Declared figures, in the order of the page."""
        return declared(import_module(f"{package(self.key)}.figures"), FigureSpec)

    def published(self) -> list[PublishedNumber]:
        """Read the published numbers of the paper."""
        return list(_published(self.folder / "published.csv"))


@cache
def _published(path: Path) -> tuple[PublishedNumber, ...]:
    """Read published numbers from a file; cached, since the plan needs them for each table."""
    with path.open(encoding="utf8", newline="") as stream:
        return tuple(
            PublishedNumber.model_validate({**row, "value": float(row["value"])})
            for row in csv.DictReader(stream)
        )


@cache
def paper(key: str) -> Paper:
    """Return a paper by its key.

    Raises:
        ModuleNotFoundError: there is no such folder.
    """
    result: Paper = import_module(f"replication.papers.{key}.study").PAPER
    return result


def papers() -> list[Paper]:
    """Return all papers, in the order of their pages."""
    return [paper(key) for key in KEYS]
