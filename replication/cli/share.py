"""The commands `isotropy report` and `isotropy site`: results to send and to publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from isotropy.cli import one_sentence, print_line
from replication.cli.common import Root


def report(
    paper: Annotated[str, typer.Option(help="Key of a paper, as on the page of its results.")],
    kind: Annotated[
        Literal["html", "md"] | None,
        typer.Option("--format", help="Default: as the output's name ends, else md."),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File; default: print the report.")
    ] = None,
    root: Root = Path(),
) -> None:
    """Report on a paper of a finished study, as reproducibility tracks ask for: claims, methods,
    outcome, what was easy and what was not, deviations, cost, records. The HTML prints on a page
    of A4.
    """
    from replication.report.share import report_text

    is_html = output is not None and output.suffix in (".html", ".htm")
    with one_sentence():
        folder = Path() if output is None else output.parent
        text = report_text(root, paper, kind or ("html" if is_html else "md"), folder)
        if output is not None:
            output.write_text(text, "utf8")
    if output is None:
        typer.echo(text, nl=False)
    else:
        print_line(str(output))


def site(
    folder: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    root: Root = Path(),
) -> None:
    """Copy the pages of a finished study, and all files that they link to, into a folder that any
    host of static files can serve, after an audit of these files.
    """
    from replication.report.share import export_site

    with one_sentence():
        n_files = export_site(root, folder)
    print_line(f"{folder}: {n_files} files; open {folder / 'index.html'}", "green")
