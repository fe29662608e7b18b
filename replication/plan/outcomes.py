"""tables, figures, claims, pages: what is read."""

from __future__ import annotations

from functools import cache
from typing import Any

from isotropy.files import RESULTS
from replication.claims.read import claims_figures, read_claims
from replication.claims.spec import Claim, ClaimsSpec, ScorecardSpec
from replication.figures.spec import FigureSpec
from replication.papers.locations import figure_file, table_file
from replication.papers.registry import KEYS, PaperPlan, paper
from replication.plan.pages import INDEX, pages, site_inputs, site_spec
from replication.plan.parts import Parts
from replication.spec import Spec
from replication.tables.spec import TableSpec


def tables(parts: Parts) -> dict[str, TableSpec]:
    """Entries of all tables of the study, by id."""
    return {
        entry.id: entry
        for one, made in parts.attempted.values()
        for entry in one.tables
        if _has(made, entry)
    }


def figures(parts: Parts) -> dict[str, FigureSpec]:
    """Entries of all figures of the study, by id: those of the verdicts first."""
    own = [
        entry
        for one, made in parts.attempted.values()
        for entry in one.figures
        if _has(made, entry)
    ]
    return {entry.id: entry for entry in [*claims_figures(), *own]}


def batches(parts: Parts) -> dict[str, list[str]]:
    """Results that one job makes together, by their folder below the results: stems of the tables
    of a paper, of the figures of a paper, of the pages.
    """
    grouped: dict[str, list[str]] = {}
    for kind, ids in {"tables": list(tables(parts)), "figures": list(figures(parts))}.items():
        for name in ids:
            grouped.setdefault(f"{kind}/{name.split('/')[0]}", []).append(f"{kind}/{name}")
    return grouped | {"site": [*(f"site/{page}" for page in pages()), INDEX]}


def table_files(parts: Parts) -> list[str]:
    """Parquet files of all tables."""
    return [table_file(name) for name in tables(parts)]


def figure_files(parts: Parts) -> list[str]:
    """One file of each figure."""
    return [figure_file(name) for name in figures(parts)]


def spec(parts: Parts, path: list[str]) -> Spec | None:
    """Return the spec of the result at a path below results/, split at its slashes, such as
    `["tables", key, name]`: a table, a figure, the verdicts, the scorecard or a page. None: no such
    result.
    """
    match path:
        case ["tables", key, table]:
            entry = tables(parts)[f"{key}/{table}"]
            if entry.published is None:
                return entry
            return entry.model_copy(update={"published": paper(key).published()})
        case ["figures", key, figure]:
            return figures(parts)[f"{key}/{figure}"]
        case ["claims"]:
            return ClaimsSpec(**_judged(parts))
        case ["scorecard"]:
            columns = {key: one.model_column for key, (one, _) in parts.attempted.items()}
            return ScorecardSpec(**_judged(parts), model_columns=columns)
    return site_spec(parts, path, figures(parts), tables(parts))


def _judged(parts: Parts) -> dict[str, Any]:
    """What verdicts are made from: claims of all papers, tables of the study."""
    return {
        "study": parts.study.config.study,
        "claims": [claim for key in KEYS for claim in _claims(key)],
        "attempted": list(tables(parts)),
    }


@cache
def _claims(key: str) -> list[Claim]:
    """Claims of a paper, read once: the verdicts and the scorecard both hold them."""
    return read_claims(paper(key))


def inputs(parts: Parts, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["tables", key, table]:
            return _table_inputs(parts.attempted[key][1], tables(parts)[f"{key}/{table}"])
        case ["figures", key, figure]:
            entry = figures(parts)[f"{key}/{figure}"]
            return {"tables": [table_file(name) for name in entry.tables]}
        case ["claims"] | ["scorecard"]:
            return {"tables": table_files(parts)}
    return site_inputs(path, figures(parts), tables(parts))


def _has(made: PaperPlan, entry: TableSpec | FigureSpec) -> bool:
    """Whether the study has what a table or figure shows: it may leave out parts of a paper."""
    return entry.needs is None or entry.needs in made.parts


def _table_inputs(made: PaperPlan, entry: TableSpec) -> dict[str, list[str]]:
    """Tables, and runs: in the configured order, then seeds."""
    inputs = {"tables": [table_file(name) for name in entry.tables]}
    if entry.runs is not None:
        stems = [f"{RESULTS}/{stem}" for stem in made.groups.get(entry.runs, [])]
        suffix = f".{entry.part}.parquet" if entry.part else ".parquet"
        inputs["runs"] = [f"{stem}.json" for stem in stems]
        inputs["rows"] = [f"{stem}{suffix}" for stem in stems]
    return inputs
