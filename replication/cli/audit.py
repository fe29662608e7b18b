"""The commands `isotropy audit …`, `report` and `site`."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from isotropy.cli import console, error_in_one_line, print_line
from isotropy.console import plain_console
from isotropy.errors import IsotropyError
from isotropy.files import RESULTS
from replication.cli.common import (
    Root,
    find_project,
    refuse,
    run_configuration,
    study_costs,
    study_plan,
    survey_study,
)
from replication.provenance.format import LEDGER, ledger_bytes, read_ledger

if TYPE_CHECKING:
    from replication.provenance.audit import Finding
    from replication.provenance.checkout import Checkout


app = typer.Typer(no_args_is_help=True, help="Check results back to the bytes they came from.")
Project = Annotated[
    Path | None,
    typer.Option(
        help="Checkout to compare with; default: the run's folder, if it is one, or this "
        "installation."
    ),
]
Threads = Annotated[int | None, typer.Option(min=1, help="Threads that digest files.")]


@app.command()
def verify(
    paths: Annotated[list[Path] | None, typer.Argument(help="Results: files or folders.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All results, and files that no record lists.")
    ] = False,
    root: Root = Path(),
    project: Project = None,
    configfile: Annotated[
        list[Path] | None,
        typer.Option(help="Configuration after config.yaml; default: that of the last run."),
    ] = None,
    digests_only: Annotated[
        bool, typer.Option("--digests-only", help="Compare neither spec nor code nor packages.")
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(help="A head of the ledger that was made public: it must be in the chain."),
    ] = None,
    threads: Threads = None,
) -> None:
    """Recompute every sha256 from results to sources, and compare spec, code and packages with the
    checkout.

    States: intact, temporary (gone, as declared), other version (a package has another version
    than the lock), other environment (made in another environment than the declared one), stale
    (spec or code has changed since), input changed (made from other bytes than its input's job
    wrote), without record, missing, altered. Changed infrastructure (code that cannot change
    results) is named, and does not count as a finding. Exit 0: all is well, 1: a finding, 2:
    inconclusive.
    """
    if everything == bool(paths):
        refuse("Name results to check, or give --all.")
    if paths and any(path.suffix == ".zip" for path in paths):
        refuse("Unpack it, and check the folder: isotropy audit verify --all --root FOLDER")
    from replication.provenance import audit

    incomplete: list[str] = []
    with error_in_one_line():
        checkout = None if digests_only else _checkout(project, root, configfile, incomplete)
        if everything:
            findings = audit.verify_all(root, checkout, threads)
        else:
            names = [_relative(p, root) for p in paths or []]
            findings = audit.verify(root, names, checkout, threads)
    raise typer.Exit(_report(root, findings, checkout, incomplete, head))


def _report(
    root: Path,
    findings: list[Finding],
    checkout: Checkout | None,
    incomplete: list[str],
    head: str | None,
) -> int:
    """Print the findings and a summary; return the exit code."""
    from replication.provenance import audit

    bad = [f for f in findings if f.state not in audit.GOOD]
    for finding in bad:
        # Lines are not truncated, so that paths can be copied
        print_line(f"{finding.state}: {finding.path} ({finding.detail})")
    ledger = root / RESULTS / LEDGER
    try:
        lines = read_ledger(ledger_bytes(ledger))[2] if ledger.is_file() else []
    except (OSError, ValueError):  # reported as a finding
        lines = []
    forged = head is not None and head not in lines
    if forged:
        reason = f"{head} is not the digest of one of its lines: it is not the published ledger"
        print_line(f"altered: {ledger} ({reason})")
    if checkout is not None:
        for name, n_files in sorted(checkout.changed_infrastructure.items()):
            print_line(f"infrastructure changed since: {name} ({n_files} files)")
        incomplete += checkout.incomplete
    for reason in dict.fromkeys(incomplete):
        print_line(f"incomplete: {reason}", "yellow")
    counts = Counter(f.state for f in findings)
    summary = ", ".join(f"{counts[state]} {state}" for state in audit.STATES)
    print_line(
        f"{len(findings)} files: {summary}; head of the ledger: {lines[-1] if lines else 'none'}",
        "red" if bad else "green",
    )
    return 1 if bad or forged else 2 if incomplete or not findings else 0


@app.command()
def trace(
    address: Annotated[
        str,
        typer.Argument(help="A result; a cell: TABLE#COLUMN=VALUE,…,COLUMN; or the id of a claim."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a tree.")] = False,
    root: Root = Path(),
) -> None:
    """Show what a result was made from, by which job, down to the source bytes, as the records have
    it.
    """
    from replication.provenance import trace as tracing

    path, mark, query = address.partition("#")
    with error_in_one_line():
        is_file = "/" in path or Path(path).is_file()  # else the id of a claim
        relative = _relative(Path(path), root).as_posix() if is_file else path
        lineage = tracing.trace(root, relative + mark + query)
    if as_json:
        typer.echo(json.dumps(lineage, indent=1, default=str))  # all else than ASCII as escapes
    else:
        # In a file or a pipe nothing is cut; a terminal wraps.
        wide = console if console.is_terminal else plain_console(width=1000)
        wide.print(tracing.tree(lineage))


@app.command()
def diff(
    first: Annotated[Path, typer.Argument(help="Folder of a run, or of an unpacked bundle.")],
    second: Annotated[Path, typer.Argument(help="The folder to compare with.")],
) -> None:
    """Name the first jobs in which two runs part, and why. Exit 0: the same bytes, 1: they differ,
    2: inconclusive.
    """
    from replication.provenance.diff import diff as compare

    with error_in_one_line():
        comparison = compare(first, second)
    for divergence in comparison.first:
        print_line(f"{divergence.name}: {'; '.join(divergence.causes)}")
    print_line(
        f"{comparison.n_same} jobs gave the same bytes, {len(comparison.first)} differ, "
        f"{comparison.n_following} more differ only because their inputs do",
        "red" if comparison.first else "green",
    )
    raise typer.Exit(1 if comparison.first else 0)


@app.command()
def rerun(
    paths: Annotated[
        list[Path], typer.Argument(help="Results, or folders of results, whose jobs are run again.")
    ],
    sample: Annotated[
        int | None, typer.Option(min=1, help="Number of jobs to draw at random.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Random seed for sampling.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Jobs to run in parallel.")] = 1,
    root: Root = Path(),
    project: Project = None,
    scratch: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Folder to work in; default: the system's folder for temporary files.",
        ),
    ] = None,
) -> None:
    """Do jobs again in a folder of their own, and compare. Exit 0: all reproduced, 1: one changed,
    2: one could not be done.
    """
    from replication.provenance.rerun import choose
    from replication.provenance.rerun import rerun as rerun_jobs

    checkout = find_project(project, root)
    if not (checkout / "rules").is_dir():
        refuse(f"{checkout} is not a checkout: give --project")
    counts: Counter[str] = Counter()
    with error_in_one_line():
        names = choose(root, [_relative(p, root) for p in paths], sample, seed)
        try:
            expected = study_plan(checkout, root, None)
        except (IsotropyError, OSError):  # only a mirror needs it
            expected = None
        for outcome in rerun_jobs(root, names, checkout, expected, jobs=jobs, scratch=scratch):
            counts[outcome.verdict] += 1
            print_line(
                f"{outcome.verdict}: {outcome.name} ({outcome.detail}; {outcome.seconds:.1f} s)",
                None if outcome.verdict == "reproduced" else "red",
            )
    summary = ", ".join(f"{counts[v]} {v}" for v in ("reproduced", "changed", "failed"))
    print_line(
        f"{len(names)} jobs: {summary}", "green" if counts["reproduced"] == len(names) else "red"
    )
    raise typer.Exit(1 if counts["changed"] else 2 if counts["failed"] else 0)


@app.command()
def identify(
    files: Annotated[list[Path], typer.Argument(help="Files with any names, in any folders.")],
    root: Root = Path(),
) -> None:
    """Find the record of a stray file, and say if it was altered. Exit 0: found and intact, 1:
    altered, 2: not found.
    """
    from replication.provenance import audit

    worst = 0
    for file in files:
        try:
            identity = audit.identify(root, file)
        except (IsotropyError, OSError) as error:
            print_line(str(error), "red")
            worst = 2
            continue
        if identity.path is not None:
            print_line(f"{file}: intact, it is {identity.path} of {identity.record}", "green")
        else:
            outputs = ", ".join(identity.outputs) or "another form of its outputs"
            print_line(
                f"{file}: altered, or of another run of the same job; it carries the id of "
                f"{identity.record}, which has {outputs}",
                "red",
            )
            worst = max(worst, 1)
    raise typer.Exit(worst)


@app.command()
def export(
    bundle: Annotated[
        Path | None,
        typer.Argument(help="The zip to write; default: results/bundle.zip of the run."),
    ] = None,
    root: Root = Path(),
    project: Project = None,
    with_data: Annotated[
        bool,
        typer.Option(
            "--with-data",
            help="Fetched sources, prepared texts and embeddings, too: mind their licences.",
        ),
    ] = False,
) -> None:
    """Write results, records and code as a Workflow Run RO-Crate; `verify_bundle.py` among its code
    checks the digests, `verify` all else, in the unpacked folder.
    """
    from replication.provenance import audit
    from replication.provenance.bundle import export as write

    bundle = bundle or root / RESULTS / audit.BUNDLE
    with error_in_one_line():
        # The ledger, before it says which configuration to read
        audit.require_intact(root, [RESULTS / "index.html"], upstream=False)
        folder = find_project(project, root)
        configuration = run_configuration(folder, root, unchanged=True)
        checkout = _planned_checkout(folder, root, None)
        n_files, n_bytes, head = write(root, checkout, configuration, bundle, with_data=with_data)
    size = f"{n_files} files, {n_bytes / 1e6:.1f} MB"
    print_line(f"{bundle}: {size}; head of the ledger: {head}", "green")


def _checkout(
    given: Path | None, root: Path, configfiles: list[Path] | None, incomplete: list[str]
) -> Checkout:
    """Return the checkout to compare with. Without its plan if that cannot be made; the reason is
    added to `incomplete`.
    """
    from replication.provenance.checkout import Checkout

    project = find_project(given, root)
    try:
        return _planned_checkout(project, root, configfiles)
    except (IsotropyError, OSError) as error:
        checkout = Checkout(project)
        incomplete.append(f"specs were not compared: {error}")
        return checkout


def _planned_checkout(project: Path, root: Path, configfiles: list[Path] | None) -> Checkout:
    """Return a checkout with the plan of its study, and what a run would make again."""
    from replication.provenance.checkout import Checkout

    costs = study_costs(project, root, configfiles)
    results = survey_study(root, costs, project)
    again = {r.name: r.message for r in results if r.state == "stale"}
    return Checkout(project, costs.plan, again)


def _relative(path: Path, root: Path) -> Path:
    """Return a path relative to the folder of the run, as in records. A path that begins with
    results/ is relative to that folder already, another to the working folder.
    """
    return (
        Path(os.path.normpath(path))
        if path.parts[:1] == (RESULTS.name,)
        else Path(os.path.relpath(path, root))
    )


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
    with error_in_one_line():
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

    with error_in_one_line():
        n_files = export_site(root, folder)
    print_line(f"{folder}: {n_files} files; open {folder / 'index.html'}", "green")
