"""The commands `isotropy sources …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotropy.cli import error_in_one_line
from isotropy.printable import escape_for_terminal

app = typer.Typer(no_args_is_help=True, help="Add models and data of your own.")

Project = Annotated[Path, typer.Option(help="Folder of the checkout.")]


@app.command()
def add(
    what: Annotated[
        str, typer.Argument(help="hub:ORG/NAME[@REVISION], a model's folder, or a file of texts.")
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(help="Text field of a data set; give it twice for pairs of texts."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Field of the class or score; default: no labels.")
    ] = None,
    scores: Annotated[
        bool | None, typer.Option("--scores/--classes", help="Kind of labels; default: inferred.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="File of a hub's data set.")] = None,
    pooling: Annotated[str | None, typer.Option(help="For a model: mean or cls.")] = None,
    name: Annotated[str | None, typer.Option(help="Id; default: from the name of WHAT.")] = None,
    licence: Annotated[str | None, typer.Option(help="Default: as on the hub.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite an entry of your own with the same id.")
    ] = False,
    project: Project = Path(),
) -> None:
    """Write an entry of the registry for a model or data of your own, with revision and digests,
    and print the lines of configuration that use it.
    """
    with error_in_one_line():
        from replication.sources.own.add import AddRequest, add_source

        request = AddRequest(what, text or [], label, scores, file, pooling, name, licence, replace)
        for line in add_source(project, request):
            print(escape_for_terminal(line))
