"""The console command `isotropy`."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.console import Console

from isotropy.errors import IsotropyError
from isotropy.provenance import audit
from isotropy.provenance import trace as tracing

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure embedding spaces, and audit results.")
audit_app = typer.Typer(no_args_is_help=True, help="Check results back to the bytes they came from.")
app.add_typer(audit_app, name="audit")


@app.callback()
def main() -> None:
    """Measure embedding spaces, and audit results."""


@app.command()
def schema(
    write: Annotated[bool, typer.Option("--write", help="Write schemas/config.schema.json instead of printing.")] = False,
) -> None:
    """Print the JSON schema of the configuration."""
    from isotropy.config import schema as config_schema

    if write:
        Path("schemas/config.schema.json").write_text(config_schema(), "utf8")
    else:
        typer.echo(config_schema(), nl=False)


@audit_app.command()
def verify(
    paths: Annotated[list[Path] | None, typer.Argument(help="Results: files or folders, relative to the run.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="All results, and files that no record speaks of.")] = False,
    root: Annotated[Path, typer.Option(help="Folder of the run.")] = Path(),
    project: Annotated[
        Path | None, typer.Option(help="Checkout to compare code and packages with; default: the run's folder, if it is one.")
    ] = None,
) -> None:
    """Recompute every sha256 from results to sources, and compare code and packages with the checkout.

    States: intact, altered, missing, without record, stale (the code has changed since), behind (a package has another
    version than the lock). Exit 0: all intact, 1: a finding, 2: it could not be told.
    """
    if project is None and (root / "Snakefile").is_file():
        project = root
    console = Console(highlight=False)
    if everything == bool(paths):
        console.print("Name results to check, or give --all.", style="red")
        raise typer.Exit(2)
    try:
        if everything:
            findings = audit.verify_all(root, project)
        else:
            findings = audit.verify(root, [_relative(p, root) for p in paths or []], project)
    except IsotropyError as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
    bad = [f for f in findings if f.state != "intact"]
    for finding in bad:
        # One line each, never cut: a path that cannot be copied is of no use.
        console.print(f"{finding.state}: {finding.path} ({finding.detail})", markup=False, soft_wrap=True)
    counts = Counter(f.state for f in findings)
    summary = ", ".join(f"{counts[state]} {state}" for state in get_args(audit.State))
    compared = "" if project else "; code and packages not compared, for want of a checkout: give --project"
    console.print(f"{len(findings)} files: {summary}{compared}", style="red" if bad else "green", soft_wrap=True)
    raise typer.Exit(1 if bad else 0)


@audit_app.command()
def trace(
    path: Annotated[Path, typer.Argument(help="A result.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a tree.")] = False,
    root: Annotated[Path, typer.Option(help="Folder of the run.")] = Path(),
) -> None:
    """Show what a result was made from, by which job, down to the source bytes, as the records tell it."""
    console = Console(highlight=False)
    try:
        lineage = tracing.trace(root, _relative(path, root))
    except IsotropyError as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        raise typer.Exit(2) from None
    if as_json:
        typer.echo(json.dumps(lineage, indent=1, ensure_ascii=False))
    else:
        console.print(tracing.tree(lineage), soft_wrap=True)


def _relative(path: Path, root: Path) -> Path:
    """A path as records name it."""
    return Path(os.path.relpath(path, root))
