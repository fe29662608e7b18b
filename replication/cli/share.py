"""The commands `isotropy report` and `isotropy site`: results to send and to publish."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from isotropy.cli import one_sentence, print_line
from isotropy.files import RESULTS
from replication.cli.common import Root, find_project


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
    folder: Annotated[Path, typer.Argument(help="A new or empty folder, or an earlier export.")],
    base: Annotated[
        str | None,
        typer.Option(help="Address that the folder will have, for the previews of links."),
    ] = None,
    with_bundle: Annotated[
        bool,
        typer.Option(
            "--bundle/--no-bundle", help="Write results/bundle.zip, whose digest the README gives."
        ),
    ] = True,
    root: Root = Path(),
    project: Annotated[
        Path | None, typer.Option(help="Checkout for the bundle; default: as isotropy audit.")
    ] = None,
) -> None:
    """Write the pages of a finished study, and all files that they link to, into a folder that any
    host of static files can serve.
    """
    from replication.provenance.audit import BUNDLE
    from replication.provenance.bundle import export
    from replication.report.share import export_site

    bundle = root / RESULTS / BUNDLE if with_bundle else None
    with one_sentence():
        if bundle is not None:
            export(root, find_project(project, root), bundle, with_data=False)
        n_files = export_site(root, folder, base, bundle)
    print_line(f"{folder}: {n_files} files; open {folder / 'index.html'}", "green")
