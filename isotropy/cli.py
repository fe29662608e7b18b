"""The console command `isotropy`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotropy.audit_cli import app as audit_app

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Measure embedding spaces, and audit results.")
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
