"""Queries on the records of a finished study, and its audit through the command line."""

from __future__ import annotations

import contextlib
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from isotropy.files import RECORD_SUFFIX
from replication.cli import app
from tests.conftest import Workflow


class CommandResult(NamedTuple):
    """Exit code and output of an audit command."""

    returncode: int
    stdout: str


def audit(workflow: Workflow, *arguments: str) -> CommandResult:
    """Run an audit command in a checkout, in this process: starting Python would take longer than
    most audits."""
    with contextlib.chdir(workflow.folder):
        done = CliRunner().invoke(app, ["audit", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return CommandResult(done.exit_code, done.output)


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """Read all records of a run, by the stem of their results below `results/`."""
    results = folder / "results"
    return {
        path.relative_to(results).as_posix().removesuffix(RECORD_SUFFIX): json.loads(
            path.read_text()
        )
        for path in results.rglob("*" + RECORD_SUFFIX)
        if not any(part.startswith(".") for part in path.relative_to(results).parts)
    }


def stems_made_by(folder: Path, *rules: str) -> set[str]:
    """Return the stems of the results that some rules made."""
    return {stem for stem, record in records(folder).items() if record["rule"] in rules}


def made_from(folder: Path, stems: Iterable[str]) -> set[str]:
    """Return results, all results derived from them, and other results of the same jobs."""
    return derived_from(records(folder), stems)


def derived_from(all_records: dict[str, dict[str, Any]], stems: Iterable[str]) -> set[str]:
    """The same, of records by the stem of their results."""
    readers, jobs = defaultdict[str, set[str]](set), defaultdict[str, set[str]](set)
    for stem, record in all_records.items():
        jobs[f"{record['rule']} {record['wildcards']}"].add(stem)
        for name in record["input_records"]:
            readers[name.removeprefix("results/").removesuffix(RECORD_SUFFIX)].add(stem)
    derived: set[str] = set()
    queue = set(stems)
    while queue:
        stem = queue.pop()
        derived.add(stem)
        record = all_records[stem]
        queue |= (readers[stem] | jobs[f"{record['rule']} {record['wildcards']}"]) - derived
    return derived
