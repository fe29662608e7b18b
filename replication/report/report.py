"""The report on a paper, in the form that reproducibility tracks ask for: claims, methods, outcome,
what was easy and what was not, deviations, cost, records. Written as Markdown, and shown as a page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pandas as pd
from markdown_it import MarkdownIt
from markupsafe import Markup

from isotropy.files import RECORD_SUFFIX, RESULTS, read_json
from isotropy.printable import escape_for_markdown, without_remark
from replication.papers.protocol import Publication, with_stand_ins
from replication.plan.page_spec import Inputs, PageSpec
from replication.provenance.lineage import titles_by_id
from replication.report.outcome import answer, count_text, outcomes, tested_on
from replication.report.verdicts import group_statements, has_number, select_by_origin

NAMED_PACKAGES = ("torch", "transformers", "numpy", "scikit-learn")


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template; `markdown` is the report as Markdown.

    Args:
        spec: the spec of the page; its `decisions` are the sections of the docs to show.
        inputs: `claims`: the verdicts; `run` and `lineage`: the summary of the run.
        folder: folder of the page.
    """
    paper = next(paper for paper in spec.papers if paper.key == spec.paper)
    verdicts = pd.read_parquet(inputs("claims")[0])
    run, lineage = (read_json(inputs(name)[0]) for name in ("run", "lineage"))
    rows = verdicts[verdicts["paper"] == paper.key]
    up = os.path.relpath(RESULTS, folder) + "/"
    summary = answer(paper, verdicts)
    parts = [
        _scope(spec, paper, rows),
        _methods(spec, rows, lineage["sources"]),
        _outcome(paper, rows, summary, up),
        _from_docs(spec.decisions),
        _compute(paper, run, lineage["jobs"], up),
        _records(spec, paper, run, up),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return {
        "paper": paper,
        "answer": summary,
        "markdown": text,
        "html": Markup(html),  # noqa: S704 - markdown-it escapes what is not Markdown
    }


def _scope(spec: PageSpec, paper: Publication, rows: pd.DataFrame) -> str:
    heads = rows[rows["overall"]]
    ours = heads["ours"].fillna(False).astype(bool)
    tested = ~heads["word"].isin(["not attempted", "not computable"])
    n_controls = int((tested & ours).sum())
    controls = f", and {n_controls} controls of our own" if n_controls else ""
    link = f" <{paper.link}>." if paper.link else ""
    return (
        f"# Replication report: {_text(paper.title)}\n\n{_text(paper.reference)}.{link}\n\n"
        f"## Scope of the claims\n\n{_text(paper.says)} We count {(~ours).sum()} statements of the "
        f"paper; the {_text(spec.study)} study tests {(tested & ~ours).sum()} of them{controls}."
    )


def _methods(spec: PageSpec, rows: pd.DataFrame, fetched: list[dict[str, Any]]) -> str:
    """Models and data, and how many of the authors' choices the study follows."""
    sources = [source for record in fetched for source in record["sources"]]
    measured = tested_on(rows, titles_by_id(sources)) or "nothing"
    text = f"## What was done\n\nMeasured: {_text(measured)}."
    if not spec.protocol:
        return text
    topics: dict[str, list[str]] = {}
    for line in with_stand_ins(spec.protocol, sources):
        topics.setdefault(line.state, []).append(line.topic)
    states = [f"{len(names)} {state}" for state, names in topics.items()]
    not_followed = topics.get("not followed", [])
    named = f" Not followed: {_text(', '.join(not_followed))}." if not_followed else ""
    return f"{text} Choices of the authors: {', '.join(states)}.{named}"


def _outcome(paper: Publication, rows: pd.DataFrame, summary: str, up: str) -> str:
    """The main statement in a sentence, a line for each statement of the paper with a number, and
    counts of our own controls.
    """
    heads = rows[rows["overall"]]
    ours = heads["ours"].fillna(False).astype(bool)
    counts = count_text(outcomes(heads[~ours]))
    lines = [
        f"## What was found\n\n**{_text(summary)}** Statements of the paper: {counts}. Verdicts "
        "are on stand-ins where not marked as original.",
        "| verdict | statement | paper, or to hold | here |\n| --- | --- | --- | --- |",
    ]
    shown = filter(has_number, select_by_origin(group_statements(rows), ours=False))
    for head in (statement["head"] for statement in shown):
        here = " ".join([head["obtained"], f"({head['interval']})" if head["interval"] else ""])
        cells = (
            f"{head['sign']} {head['word']}{', original' * (head['status'] == 'original')}",
            f"{without_remark(head['statement'])} ({head['locator']})",
            head["published"] or head["facts"].get("expected", ""),
            here.strip() or _share(head["detail"]),
        )
        lines[-1] += f"\n| {' | '.join(map(_text, cells))} |"
    claims, others = (
        f"{up}site/{name}.html#paper={paper.key}" for name in ("claims", "not-attempted")
    )
    controls = (
        f"[Our own controls]({claims}&by=us): {count_text(outcomes(heads[ours]))}. "
        if ours.any()
        else ""
    )
    return "\n\n".join(
        [*lines, f"{controls}[The statements that were not tested]({others}), with reasons."]
    )


def _share(detail: str) -> str:
    """The part of a detail that says in how many cases a statement holds."""
    return next((part for part in detail.split("; ") if re.match(r"\d+ of \d+ ", part)), detail)


def _from_docs(text: str) -> str:
    """Sections of the docs without their links, whose targets are relative to the docs."""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).strip()


def _compute(paper: Publication, run: dict[str, Any], jobs: list[dict[str, Any]], up: str) -> str:
    """Cost of all jobs behind the paper's tables."""
    makers = {path: job["record"] for job in jobs for path, _ in job["outputs"]}
    reads = {job["record"]: {makers[p] for p in job["inputs"] if p in makers} for job in jobs}
    folder = f"{RESULTS}/tables/{paper.key}/"
    behind, waiting = set[str](), [name for name in reads if name.startswith(folder)]
    while waiting:
        if (name := waiting.pop()) not in behind:
            behind.add(name)
            waiting += reads[name]
    times = [job for job in run["jobs"] if job["record"] in behind]
    if not times:
        return "## Compute\n\nNo job of this study is about the paper."
    seconds = sum(job["seconds"] * job["threads"] for job in times)
    peak = max(job["peak_memory_bytes"] or 0 for job in times)
    machines = sorted({job[kind] for job in times for kind in ("cpu", "gpu") if job[kind]})
    environment = run["environments"][0]
    packages = [
        f"{n} {environment['packages'][n]}" for n in NAMED_PACKAGES if n in environment["packages"]
    ]
    return (
        f"## Compute\n\n{len(times)} jobs, {seconds:,.0f} core-seconds (threads times seconds; "
        f"downloads included), at most {peak / 1e9:.1f} GB of memory for one, on "
        f"{_text('; '.join(machines) or 'an unknown machine')}, with Python "
        f"{environment['python']}, {_text(', '.join(packages))}. "
        f"[All jobs and packages]({up}site/provenance.html)."
    )


def _records(spec: PageSpec, paper: Publication, run: dict[str, Any], up: str) -> str:
    links = {
        "verdicts": f"{up}claims.csv",
        "their record": f"{up}claims{RECORD_SUFFIX}",
        "sources, with digests": f"{up}site/sources.html",
        "tables and figures, with records": f"{up}site/{paper.key}.html",
    }
    named = ", ".join(f"[{name}]({target})" for name, target in links.items())
    head = run["ledger"]["head"]
    bibtex = "\n".join(text.strip() for text in (paper.bibtex, spec.citation) if text)
    return (
        f"## Records and citation\n\nStudy {_text(spec.study)}, {run['started'][:10]}: {named}. "
        f"Digest of the study, the head of its ledger: `{head}`. To check: "
        f"`isotropy audit verify --all --head {head}`.\n\n```bibtex\n{bibtex}\n```"
    )


def _text(text: str) -> str:
    return escape_for_markdown(text).replace("*", "\\*")
