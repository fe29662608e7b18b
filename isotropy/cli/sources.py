"""The commands `isotropy sources …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotropy.cli.audit import one_sentence
from isotropy.printable import for_terminal

app = typer.Typer(
    no_args_is_help=True, help="Add models and data of your own, and check where sources are."
)

Project = Annotated[Path, typer.Option(help="The checkout.")]
Names = Annotated[list[str] | None, typer.Argument(help="Ids of sources; default: all.")]
Mirror = Annotated[Path | None, typer.Option(help="A folder of copies, as sources.mirror.")]


@app.command()
def add(
    what: Annotated[
        str, typer.Argument(help="hub:ORG/NAME[@REVISION], a model's folder, or a file of texts.")
    ],
    text: Annotated[
        list[str] | None,
        typer.Option(help="Of a data set: the field of the text; twice for the two of a pair."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="The field of the class or score; none: running text.")
    ] = None,
    scores: Annotated[
        bool | None, typer.Option("--scores/--classes", help="What labels are; default: found.")
    ] = None,
    file: Annotated[str | None, typer.Option(help="Of a data set of a hub: one file.")] = None,
    pooling: Annotated[str | None, typer.Option(help="Of a model: mean or cls.")] = None,
    name: Annotated[str | None, typer.Option(help="Id; default: from the name of WHAT.")] = None,
    licence: Annotated[str | None, typer.Option(help="Default: what the hub says.")] = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Overwrite an entry of your own with the same id.")
    ] = False,
    project: Project = Path(),
) -> None:
    """Write an entry of the registry for a model or data of your own, with revision and digests,
    and print the lines of configuration that use it.
    """
    with one_sentence():
        from isotropy.sources.own.add import Wanted, add_source

        given = Wanted(what, text or [], label, scores, file, pooling, name, licence, replace)
        for line in add_source(project, given):
            print(for_terminal(line))


@app.command("list")
def show(project: Project = Path()) -> None:
    """Print all sources: id, kind, status, licence, and by which origins they come."""
    with one_sentence():
        from isotropy.sources.own.state import listed

        for line in listed(project):
            print(for_terminal(line))


@app.command()
def check(names: Names = None, project: Project = Path(), mirror: Mirror = None) -> None:
    """Say of each source by which of its origins it would come here, without downloading it. Ends
    with 1 if one would not come at all.
    """
    with one_sentence():
        from isotropy.sources.own.state import checked

        lost = 0
        for line, comes in checked(project, names or [], mirror):
            print(for_terminal(line), flush=True)
            lost += not comes
    raise typer.Exit(1 if lost else 0)


@app.command()
def verify(names: Names = None, project: Project = Path(), mirror: Mirror = None) -> None:
    """Compare what is on this machine (own folders, mirror, the hub's cache, fetched results) with
    the digests of the registry. Ends with 1 if a file differs.
    """
    with one_sentence():
        from isotropy.sources.own.state import verified

        wrong, lines = 0, 0
        for line, right in verified(project, names or [], mirror):
            print(for_terminal(line), flush=True)
            wrong, lines = wrong + (not right), lines + 1
        if not lines:
            print("nothing to check: no file of a source is on this machine")
    raise typer.Exit(1 if wrong else 0)
