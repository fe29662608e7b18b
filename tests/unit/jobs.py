"""Small jobs, run for real without Snakemake."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from typer.testing import CliRunner

from replication.cli import app
from replication.job import Job
from replication.provenance.code import Codebase
from replication.spec import Spec

RULE = "prepare_sentences"


class NoteSpec(Spec):
    """A job that writes one text."""

    text: str


class Named(list):
    """Stand-in for Snakemake's named lists."""

    def items(self) -> list[tuple[str, Any]]:
        return list(self)

    def __getattr__(self, name: str) -> Any:
        return next(value for key, value in self if key == name)


def snakemake_object(
    project: Path,
    stem: str,
    text: str = "hello",
    inputs: dict[str, Any] | None = None,
    modules: Sequence[str] = (),
) -> SimpleNamespace:
    """Imitate the `snakemake` object of a script, for a job that writes results/<stem>.txt."""
    return SimpleNamespace(
        rule=RULE,
        params=SimpleNamespace(
            spec=NoteSpec(text=text).canonical(),
            code=Codebase(project).code(RULE, *modules).param(),
        ),
        input=Named((inputs or {}).items()),
        output=Named([("note", f"results/{stem}.txt"), ("record", f"results/{stem}.record.json")]),
        log=[f"results/logs/{stem}.log"],
        wildcards=Named(),
        threads=1,
        resources=SimpleNamespace(),
    )


def write_note(
    project: Path, stem: str, text: str = "hello", inputs: dict[str, Any] | None = None
) -> None:
    given = snakemake_object(project, stem, text, inputs)
    with Job(given, NoteSpec) as job, job.write("note") as path:
        path.write_text(job.spec.text)


def states(findings: list[Any]) -> dict[str, str]:
    return {f.path: f.state for f in findings}


def audit(*arguments: object, code: int = 0) -> str:
    """Run `isotropy audit`, check its exit code, and return its output."""
    result = CliRunner().invoke(app, ["audit", *map(str, arguments)])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    return result.output
