"""The pages of the results: what each shows, and what it reads."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from isotropy.files import RESULTS
from replication.claims.read import read_main
from replication.figures.spec import FigureSpec
from replication.papers.locations import OF_ALL, figure_file, note_file, table_file
from replication.papers.protocol import Line, Publication, protocol_lines
from replication.papers.registry import KEYS, Paper, paper, papers
from replication.plan.page_spec import Findings, PageSpec, RunSpec
from replication.provenance.environment import locked_versions
from replication.spec import PaperSpec, Spec
from replication.tables.spec import TableSpec
from replication.yaml_files import read_yaml

if TYPE_CHECKING:
    from replication.plan.plan import Plan

Entry = TypeVar("Entry")
Figures = Mapping[str, FigureSpec]
Tables = Mapping[str, TableSpec]

INDEX = "index"
RUN = "site/run"
SHARED_PAGES = ("claims", "not-tested", "scorecard", "sources", "provenance", "glossary")
"""Pages besides the overview and one for each paper."""
FROM_DOCS = ("## What did we decide", "## Where do we deviate")
"""Sections of a paper's docs page that its page shows."""
IN_REPORT = ("## What was easy", "## Where do we deviate")
"""Sections of a paper's docs page that its report shows."""
REPORT = "-report"
"""What the name of a paper's report has after the paper's key."""


def pages() -> list[str]:
    """Names of all pages but the overview."""
    return [*KEYS, *(key + REPORT for key in KEYS), *SHARED_PAGES]


def site_spec(plan: Plan, path: list[str]) -> Spec | None:
    """The spec of a page, or of the summary of the run that pages read."""
    study, figures, tables = plan.study.config.study, plan.figures, plan.tables
    entries = [_entry(paper, figures) for paper in papers()]
    match path:
        case ["index"]:
            citation = _citation(plan.project / "CITATION.cff")
            return PageSpec(kind="overview", study=study, papers=entries, citation=citation)
        case ["site", "run"]:
            return RunSpec(study=study)
        case ["site", "provenance"]:
            locked = locked_versions(plan.project)
            return PageSpec(kind="provenance", study=study, papers=entries, locked=locked)
        case ["site", "claims" | "scorecard" | "sources" as kind]:
            return PageSpec(kind=kind, study=study, papers=entries)
        case ["site", "not-tested"]:
            return PageSpec(kind="claims", study=study, papers=entries, tested=False)
        case ["site", "glossary"]:
            words = _glossary(plan.project / "docs" / "glossary.md")
            return PageSpec(kind="glossary", study=study, papers=entries, glossary=words)
        case ["site", key] if key in KEYS:
            return PageSpec(
                kind="paper",
                study=study,
                papers=entries,
                paper=key,
                figures=list(_select(key, figures).values()),
                tables=list(_select(key, tables).values()),
                protocol=_protocol(plan, key),
                findings=read_findings(plan.project, paper(key), study),
                decisions=_sections(plan.project, key, FROM_DOCS),
                docs=_docs(plan.project, key),
            )
        case ["site", name] if (key := name.removesuffix(REPORT)) in KEYS:
            return PageSpec(
                kind="report",
                study=study,
                papers=entries,
                paper=key,
                protocol=_protocol(plan, key),
                decisions=_sections(plan.project, key, IN_REPORT),
                citation=_citation(plan.project / "CITATION.cff"),
            )
    return None


def site_inputs(plan: Plan, path: list[str]) -> dict[str, list[str]] | None:
    """Inputs of a page, by name."""
    figures, tables = plan.figures, plan.tables
    claims = {"claims": [table_file("claims")]}
    card = {"scorecard": [table_file("scorecard")]}
    run = {"run": [f"{RESULTS}/{RUN}.json"]}
    lineage = {"lineage": [f"{RESULTS}/{RUN}.lineage.json"]}
    match path:
        case ["index"]:
            others = {"pages": [f"{RESULTS}/site/{name}.html" for name in pages()]}
            return {**claims, **run, **lineage, **others}
        case ["site", "run"]:
            results = [*map(table_file, OF_ALL), *map(figure_file, figures)]
            results += map(table_file, tables)
            return {"results": results}
        case ["site", "provenance"]:
            return {**run, **lineage}
        case ["site", "sources"]:
            return lineage
        case ["site", "glossary"]:
            return claims
        case ["site", "scorecard"]:
            return {**card, **claims}
        case ["site", "claims" | "not-tested"]:
            graph = {"graph": [f"{RESULTS}/{RUN}.graph.js"]}
            return {**claims, **card, **lineage, **graph}
        case ["site", key] if key in KEYS:
            return {
                **claims,
                "figures": [figure_file(name) for name in _select(key, figures)],
                "notes": [note_file(name) for name in _select(key, figures)],
                "tables": [table_file(name) for name in _select(key, tables)],
            }
        case ["site", name] if name.removesuffix(REPORT) in KEYS:
            return {**claims, **run, **lineage}
    return None


def _select(key: str, entries: Mapping[str, Entry]) -> dict[str, Entry]:
    """Entries of a paper."""
    return {name: entry for name, entry in entries.items() if name.split("/")[0] == key}


def _entry(paper: Paper, figures: Figures) -> Publication:
    """A paper, with the figure that says most: the first where the study lacks that."""
    drawn = _select(paper.key, figures)
    lead = paper.lead if paper.lead in drawn else next(iter(drawn), None)
    caption = drawn[lead].caption if lead else ""
    return Publication.collect(paper, lead=lead, lead_caption=caption, main=read_main(paper))


def _protocol(plan: Plan, key: str) -> list[Line]:
    """The choices of a paper's authors beside the study; nothing of a paper that it leaves out."""
    if key not in plan.attempted:
        return []
    specs = [result.spec() for result in plan.attempted[key][1].results.values()]
    asked = [spec for spec in specs if isinstance(spec, PaperSpec)]
    return protocol_lines(key, asked, plan.context.registry)


@cache
def _docs(project: Path, key: str) -> str:
    """A paper's docs page; nothing where there is none."""
    page = project / "docs" / "papers" / f"{key}.md"
    return page.read_text("utf8") if page.is_file() else ""


def _sections(project: Path, key: str, headings: tuple[str, ...]) -> str:
    """Sections of a paper's docs page by the beginnings of their headings, in that order."""
    sections = re.split(r"^(?=## )", _docs(project, key), flags=re.M)
    return "\n".join(
        section for heading in headings for section in sections if section.startswith(heading)
    )


def read_findings(project: Path, of_paper: Paper, study: str) -> Findings:
    """What `docs/findings.md` says of a paper first, and the verdicts that it is about; nothing of
    another study, or where there is no such page.
    """
    page, table = project / "docs/findings.md", project / f"docs/results/verdicts-{study}.csv"
    if not page.is_file() or not table.is_file():
        return Findings()
    begin = rf"^## {re.escape(of_paper.title)} .*\n\n((?![#-]).+(?:\n.+)*)"
    if (found := re.search(begin, page.read_text("utf8"), re.M)) is None:
        return Findings()
    with table.open(encoding="utf8", newline="") as stream:
        words = {row["statement_id"]: row["word"] for row in csv.DictReader(stream)}
    own = {name: word for name, word in words.items() if name.startswith(f"{of_paper.key}-")}
    return Findings(text=found[1], verdicts=own)


@cache
def _glossary(page: Path) -> dict[str, str]:
    """Words of the pages and of the field, from a docs page; nothing where there is no page."""
    text = page.read_text("utf8").partition("## Words of the pages")[2] if page.is_file() else ""
    return dict(re.findall(r"^\| ([^|`]+) \| ([^|]+) \| `", text, re.M))


@cache
def _citation(file: Path) -> str:
    """A file CITATION.cff as BibTeX; nothing where there is no file."""
    if not file.is_file():
        return ""
    software = read_yaml(file)
    authors = [
        author.get("name") or f"{author['given-names']} {author['family-names']}"
        for author in software["authors"]
    ]
    fields = {
        "title": software["title"],
        "author": " and ".join(f"{{{author}}}" for author in authors),
        "version": software["version"],
        "license": software["license"],
    }
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join(["@software{isotropy,", *lines, "}"])
