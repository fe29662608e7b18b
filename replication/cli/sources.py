"""The commands `isotropy sources …`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from isotropy.cli import one_sentence
from isotropy.printable import escape_for_terminal

app = typer.Typer(
    no_args_is_help=True, help="Add models and data of your own, and check where sources are."
)

Project = Annotated[Path, typer.Option(help="Folder of the checkout.")]
Names = Annotated[list[str] | None, typer.Argument(help="Ids of sources; default: all.")]
Mirror = Annotated[Path | None, typer.Option(help="Mirror folder, as in sources.mirror.")]


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
    with one_sentence():
        from replication.sources.own.add import AddRequest, add_source

        request = AddRequest(what, text or [], label, scores, file, pooling, name, licence, replace)
        for line in add_source(project, request):
            print(escape_for_terminal(line))


@app.command("list")
def show(project: Project = Path()) -> None:
    """Print all sources: id, kind, status, kinds of origins, licence."""
    with one_sentence():
        from replication.sources.own.state import list_sources

        for line in list_sources(project):
            print(escape_for_terminal(line))


@app.command()
def check(names: Names = None, project: Project = Path(), mirror: Mirror = None) -> None:
    """Check for each source which of its origins are available, without downloading it. The exit
    status is 1 if a source is unavailable.
    """
    with one_sentence():
        from replication.sources.own.state import check_sources

        n_unavailable = 0
        for line, available in check_sources(project, names or [], mirror):
            print(escape_for_terminal(line), flush=True)
            n_unavailable += not available
    raise typer.Exit(1 if n_unavailable else 0)


@app.command()
def verify(names: Names = None, project: Project = Path(), mirror: Mirror = None) -> None:
    """Compare local files (own folders, mirror, the hub's cache, fetched results) with the digests
    in the registry. The exit status is 1 if a file differs.
    """
    with one_sentence():
        from replication.sources.own.state import verify_sources

        n_wrong, n_lines = 0, 0
        for line, matches in verify_sources(project, names or [], mirror):
            print(escape_for_terminal(line), flush=True)
            n_wrong, n_lines = n_wrong + (not matches), n_lines + 1
        if not n_lines:
            print("nothing to check: no file of a source is on this machine")
    raise typer.Exit(1 if n_wrong else 0)
