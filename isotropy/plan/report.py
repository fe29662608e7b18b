"""tables, figures, claims, index: what is read."""

from __future__ import annotations

from isotropy.claims import catalogue as verdicts
from isotropy.claims.read import read_claims
from isotropy.claims.spec import ClaimsSpec
from isotropy.figures.spec import FigureSpec
from isotropy.files import RESULTS
from isotropy.papers.locations import CLAIMS
from isotropy.papers.registry import Paper, PaperPlan, paper, papers
from isotropy.paths import table_file
from isotropy.plan.parts import Parts
from isotropy.report.spec import PageSpec, PaperTitle
from isotropy.spec import Spec
from isotropy.tables.spec import TableSpec

VERDICTS = PaperTitle(
    key=CLAIMS, title="Verdicts", reference="Every claim of the papers against our numbers"
)
"""The verdicts as the page names them, before the papers."""


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
    return {entry.id: entry for entry in [*verdicts.FIGURES, *own]}


def table_files(parts: Parts) -> list[str]:
    """Parquet files of all tables."""
    return [table_file(name) for name in tables(parts)]


def figure_files(parts: Parts) -> list[str]:
    """One file of each figure."""
    return [f"{RESULTS}/figures/{name}.png" for name in figures(parts)]


def spec(parts: Parts, path: list[str]) -> Spec | None:
    """The spec of a table, a figure, the verdicts or the page."""
    match path:
        case ["tables", key, table]:
            entry = tables(parts)[f"{key}/{table}"]
            if entry.published is None:
                return entry
            return entry.model_copy(update={"published": paper(key).published()})
        case ["figures", key, figure]:
            return figures(parts)[f"{key}/{figure}"]
        case ["claims"]:
            return ClaimsSpec(
                study=parts.study.config.study,
                claims=[claim for one in papers() for claim in read_claims(one)],
                attempted=list(tables(parts)),
            )
        case ["index"]:
            return PageSpec(
                study=parts.study.config.study,
                papers=[VERDICTS, *map(_title, papers())],
                figures=list(figures(parts).values()),
                tables=[verdicts.VERDICTS, *tables(parts).values()],
            )
    return None


def inputs(parts: Parts, path: list[str]) -> dict[str, list[str]] | None:
    """Its inputs, by name."""
    match path:
        case ["tables", key, table]:
            return _table_inputs(parts.attempted[key][1], tables(parts)[f"{key}/{table}"])
        case ["figures", key, figure]:
            entry = figures(parts)[f"{key}/{figure}"]
            return {"tables": [table_file(name) for name in entry.tables]}
        case ["claims"]:
            return {"tables": table_files(parts)}
        case ["index"]:
            claims = table_file(CLAIMS)
            return {"results": [*figure_files(parts), claims, *table_files(parts)]}
    return None


def _title(one: Paper) -> PaperTitle:
    return PaperTitle(key=one.key, title=one.title, reference=one.reference)


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
