"""What a finished study is made of, by its records; and its audit, as the command gives it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.files import RECORD_SUFFIX
from tests.conftest import Workflow


class Said(NamedTuple):
    """How an audit command ended."""

    returncode: int
    stdout: str


def audit(workflow: Workflow, *arguments: str) -> Said:
    """An audit command in a checkout, in this process: starting Python anew would take longer than
    most audits."""
    with contextlib.chdir(workflow.folder):
        done = CliRunner().invoke(app, ["audit", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Said(done.exit_code, done.output)


def audit_by_command(
    workflow: Workflow, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """The same as a user calls it."""
    return subprocess.run(
        [sys.executable, "-m", "isotropy", "audit", *arguments],
        cwd=workflow.folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        timeout=900,
    )


def records(folder: Path) -> dict[str, dict[str, Any]]:
    """All records of a run, by the stem of their results below `results/`."""
    results = folder / "results"
    return {
        path.relative_to(results).as_posix().removesuffix(RECORD_SUFFIX): json.loads(
            path.read_text()
        )
        for path in results.rglob("*" + RECORD_SUFFIX)
        if not any(part.startswith(".") for part in path.relative_to(results).parts)
    }


def of_rules(folder: Path, *rules: str) -> set[str]:
    """Stems of the results that some rules made."""
    return {stem for stem, record in records(folder).items() if record["rule"] in rules}


def made_from(folder: Path, stems: Iterable[str]) -> set[str]:
    """Results, all that stands on them, and what is made by the same jobs as one of these."""
    readers: dict[str, set[str]] = {}
    made = records(folder)
    jobs: dict[str, set[str]] = {}
    for stem, record in made.items():
        jobs.setdefault(f"{record['rule']} {record['wildcards']}", set()).add(stem)
        readers.setdefault(stem, set())
    for stem, record in made.items():
        for name in record["input_records"]:
            read = name.removeprefix("results/").removesuffix(RECORD_SUFFIX)
            readers.setdefault(read, set()).add(stem)
    found: set[str] = set()
    waiting = set(stems)
    while waiting:
        stem = waiting.pop()
        found.add(stem)
        together = jobs.get(f"{made[stem]['rule']} {made[stem]['wildcards']}", set())
        waiting |= (readers.get(stem, set()) | together) - found
    return found


def jobs(folder: Path, stems: Iterable[str]) -> dict[str, int]:
    """Jobs that make results: rule -> number."""
    made = records(folder)
    return dict(Counter(made[stem]["rule"] for stem in stems))
