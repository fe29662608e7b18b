"""The papers, and what each provides. A new paper is one folder and one line in `KEYS`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from isotropy.context import Context, Results, TokenLayers
from isotropy.extension import ResolvedExtension
from isotropy.figures.spec import FigureSpec
from isotropy.papers.declare import declared_figures, declared_tables
from isotropy.spec import Strict
from isotropy.tables.spec import PublishedNumber, TableSpec

KEYS = ("mickus2024", "rudman2024", "rajaee2021", "cai2021", "ethayarajh2019")
"""Folders of the papers, in the order of the pages."""


class PaperStudy(Strict):
    """What a study chooses of a paper: its section of the configuration."""

    def check(self, context: Context) -> None:
        """Refuse names that do not exist and choices that do not fit.

        Raises:
            IsotropyError: the first mistake: the field's path, the value, and what is expected.
        """

    def extended(self, extension: ResolvedExtension) -> Self | None:
        """The same of other models and data; None: nothing of it makes sense for them."""
        raise NotImplementedError

    def changed(self, **fields: Any) -> Self:
        """The section with other values of some fields, validated."""
        return self.model_validate(dict(self) | fields)


@dataclass(frozen=True)
class PaperPlan:
    """What a study makes of a paper.

    Attributes:
        results: what stages make for it, by stem.
        groups: stems of the runs that a table is made from, by the name in its entry.
        parts: parts of the paper that the study has; entries of others are left out.
        tokens: token vectors that its measurements read.
    """

    results: Results
    groups: dict[str, list[str]]
    parts: frozenset[str] = frozenset()
    tokens: list[TokenLayers] = field(default_factory=list)


@dataclass(frozen=True)
class Paper:
    """One paper.

    Attributes:
        key: its folder, and its name in paths and in the configuration.
        title, reference: as pages of the results have them.
        says: what it says, in one sentence for readers.
        lead: id of the figure that says most.
        study: model of its section of the configuration.
        results: what a study makes of it.
        model_column: column of its tables that holds the id of a model.
    """

    key: str
    title: str
    reference: str
    says: str
    lead: str
    study: type[PaperStudy]
    results: Callable[[Any, Context], PaperPlan]
    model_column: str

    @property
    def folder(self) -> Path:
        """Folder of its modules, claims and published numbers."""
        return Path(__file__).parent / self.key

    @property
    def tables(self) -> tuple[TableSpec, ...]:
        """Its tables, in the order of its page."""
        return declared_tables(self.key, self.folder / "tables.py")

    @property
    def figures(self) -> tuple[FigureSpec, ...]:
        """Its figures, in the order of its page."""
        return declared_figures(self.key, self.folder / "figures.py")

    def published(self) -> list[PublishedNumber]:
        """The numbers that it prints."""
        return list(_published(self.folder / "published.csv"))


@cache
def _published(path: Path) -> tuple[PublishedNumber, ...]:
    """Published numbers of a file, read once: the plan asks for them for each table."""
    with path.open(encoding="utf8", newline="") as stream:
        return tuple(
            PublishedNumber.model_validate({**row, "value": float(row["value"])})
            for row in csv.DictReader(stream)
        )


@cache
def paper(key: str) -> Paper:
    """A paper by its key. Raises ModuleNotFoundError: there is no such folder."""
    found: Paper = import_module(f"isotropy.papers.{key}.study").PAPER
    return found


def papers() -> list[Paper]:
    """All papers, in the order of the pages."""
    return [paper(key) for key in KEYS]
