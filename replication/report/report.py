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
from replication.palette import GROUPS, SIGNS, WORDS
from replication.papers.protocol import Publication, with_stand_ins
from replication.plan.page_spec import Inputs, PageSpec
from replication.provenance.lineage import titles_by_id
from replication.report.outcome import count_groups, count_text, main_statements, tested_on
from replication.report.verdicts import group_statements, has_number, select_by_origin

NAMED_PACKAGES = ("torch", "transformers", "numpy", "scikit-learn")


def content(spec: PageSpec, inputs: Inputs, folder: Path) -> dict[str, Any]:
    """Make the variables of the page's template; `files` has the report as Markdown.

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
    parts = [
        _scope(spec, paper, rows),
        _methods(spec, rows, lineage["sources"]),
        _outcome(paper, rows, up),
        _from_docs(spec.decisions),
        _compute(paper, run, lineage["jobs"], up),
        _records(spec, paper, run, up),
    ]
    text = "\n\n".join(filter(None, parts)) + "\n"
    html = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    return {
        "paper": paper,
        "files": {"markdown": text},
        "html": Markup(html),  # noqa: S704 - markdown-it escapes what is not Markdown
    }


def _scope(spec: PageSpec, paper: Publication, rows: pd.DataFrame) -> str:
    heads = rows[rows["overall"]]
    ours = heads["ours"].fillna(False).astype(bool)
    tested = heads["word"].map(GROUPS) != "none"
    n_controls = int((tested & ours).sum())
    controls = f", and {n_controls} controls of ours" if n_controls else ""
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


def _outcome(paper: Publication, rows: pd.DataFrame, up: str) -> str:
    """The main statements, a line for each statement of the paper that was tested, and counts of
    our own controls.
    """
    heads = rows[rows["overall"]]
    ours = heads["ours"].fillna(False).astype(bool)
    counts = count_text(count_groups(heads[~ours]))
    statements = group_statements(rows)
    main = [
        _row(_verdict(line["head"]), line["says"], _number(line["head"]), line["why"])
        for line in main_statements(paper, statements)
    ]
    tested = [
        _row(
            _verdict(head),
            f"{without_remark(head['statement'])} ({head['locator']})",
            " ".join(filter(None, [head["quantity"], head["facts"].get("what we test", "")])),
            _number(head) or head["detail"],
        )
        for head in (s["head"] for s in select_by_origin(statements, ours=False) if has_number(s))
        if head["id"] not in {statement.id for statement in paper.main}
    ]
    claims, others = (
        f"{up}site/{name}.html#paper={paper.key}" for name in ("claims", "not-tested")
    )
    controls = (
        f"[Our controls]({claims}&by=us): {count_text(count_groups(heads[ours]))}. "
        if ours.any()
        else ""
    )
    return "\n\n".join(
        [
            f"## What was found\n\nStatements of the paper: {counts}.",
            "\n".join(["| | main statement | here | why |", "| --- | --- | --- | --- |", *main]),
            "\n".join(
                [
                    "| | other statement | what we test | here |",
                    "| --- | --- | --- | --- |",
                    *tested,
                ]
            ),
            f"{controls}[The statements that are not tested]({others}), with reasons.",
        ]
    )


def _row(*cells: str) -> str:
    return f"| {' | '.join(map(_text, cells))} |"


def _verdict(head: dict[str, Any]) -> str:
    """The verdict on a statement in words, and what it was tested on."""
    group = head["group"]
    status = f", {head['status']}" if head["status"] and group != "none" else ""
    return f"{SIGNS[group]} {WORDS[group][0]}{status}"


def _number(head: dict[str, Any]) -> str:
    """The number of a statement with its interval, or its range over cases; empty without any."""
    if not head["obtained"]:
        return ""
    return " ".join(
        filter(None, [f"{head['quantity']}:", *map(head.get, ("obtained", "interval", "over"))])
    )


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
