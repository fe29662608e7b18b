"""The commands of the workflow, beside `isotropy measure`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from isotropy.cli import app, error_in_one_line
from isotropy.errors import IsotropyError
from replication.cli.audit import app as audit_app
from replication.cli.audit import report, site
from replication.cli.common import Root, find_project, study_costs, survey_study
from replication.cli.sources import app as sources_app
from replication.cli.status import status

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from replication.plan.costs import Rates, Total
    from replication.plan.status import ResultState


app.add_typer(audit_app, name="audit")
app.add_typer(sources_app, name="sources")
app.command()(status)
app.command()(report)
app.command()(site)


@app.command()
def plan(
    configfile: Annotated[
        list[Path] | None, typer.Option(help="A configuration read after config.yaml.")
    ] = None,
    rates: Annotated[Path | None, typer.Option(help="Rates, instead of config/rates.yaml.")] = None,
    project: Annotated[
        Path | None,
        typer.Option(help="Checkout; default: this folder, if it is one, or this installation."),
    ] = None,
    measured: Annotated[
        bool,
        typer.Option("--measured", help="Correct the speeds by the finished jobs of this folder."),
    ] = False,
    root: Root = Path(),
) -> None:
    """Print what a study will cost, before anything runs: jobs, hours, disk and memory per stage;
    in a folder with results, what is left of it, too.
    """
    from isotropy.console import plain_console
    from replication.plan.costs import read_rates, totals

    console = plain_console()
    checkout = find_project(project, Path())
    with error_in_one_line():
        speeds = read_rates(rates or checkout / "config/rates.yaml")
        scale = {}
        if measured:
            last = study_costs(checkout, root, None, speeds)
            scale = _measured_scale(survey_study(root, last, checkout), root)
        costs = study_costs(checkout, root, configfile or [], speeds)
        results = survey_study(root, costs, checkout)
        left = [result.name for result in results if result.state != "done"]
        stage_totals = totals(costs, costs.plan.stems(), scale)
    console.print(_cost_table(stage_totals, totals(costs, left, scale) if results else None))
    for (stage, gpu), factor in scale.items():
        console.print(f"measured: {stage}{' on GPUs' if gpu else ''} {factor:.2f} times as long")
    _print_origin(console, speeds, rates, costs.unknown)


def _print_origin(
    console: Console, speeds: Rates, rates: Path | None, unknown: Iterable[str]
) -> None:
    """Print whose speeds these are, and which sizes are not known."""
    hardware = f"GPU: {speeds.hardware['gpu']}. CPU: {speeds.hardware['cpu']}."
    origin = f"Speeds: {rates or 'config/rates.yaml'}."
    console.print(f"{hardware} {origin}", soft_wrap=True)
    if names := ", ".join(sorted(unknown)):
        warning = f"Sources of unknown size, counted as empty: {names}"
        console.print(warning, style="yellow", soft_wrap=True)


def _measured_scale(results: list[ResultState], root: Path) -> dict[tuple[str, bool], float]:
    """Factors on the estimates of jobs by stage, from the finished jobs of a folder."""
    from replication.plan.status import measured_scale

    if scale := measured_scale(results):
        return scale
    raise IsotropyError(
        f"--measured: {root} has no finished jobs of this checkout: run a part of a study first, "
        "such as --configfile config/smoke.yaml"
    )


def _cost_table(stage_totals: Mapping[str, Total], left: Mapping[str, Total] | None) -> Table:
    """One row per stage, and one for the total; `left`: the same of results that do not exist."""
    from rich.table import Table

    numbers = (
        "jobs",
        "GPU jobs, hours",
        "CPU jobs, hours",
        "longest job, hours",
        "disk, GB",
        "largest job, GB",
    )
    to_do = () if left is None else ("jobs left", "hours left")
    table = Table("stage", *numbers, *to_do, box=None)
    table.columns[0].no_wrap = True
    for column in table.columns[1:]:
        column.justify = "right"
    for stage, row in stage_totals.items():
        hours = [_hours(value) for value in (row.gpu_hours, row.cpu_hours, row.longest)]
        table.add_row(
            stage,
            f"{row.jobs:,}",
            *hours,
            f"{row.disk:,.1f}",
            f"{row.memory:,.1f}",
            *([] if left is None else _left(left.get(stage))),
            end_section=stage == "report",
        )
    return table


def _left(total: Total | None) -> tuple[str, str]:
    """Jobs and hours that are left of a stage; empty if there are none."""
    if total is None or not total.jobs:
        return "", ""
    return f"{total.jobs:,}", _hours(total.gpu_hours + total.cpu_hours)


def _hours(value: float) -> str:
    """Format hours, with two decimals below one; empty for none."""
    return f"{value:,.{1 if value >= 1 else 2}f}" if value else ""


@app.command()
def schema(
    write: Annotated[
        bool,
        typer.Option(
            "--write",
            help="Write schemas/config.schema.json and config/README.md instead of printing.",
        ),
    ] = False,
) -> None:
    """Print the JSON schema of the configuration."""
    from replication.plan.config import generated_files
    from replication.plan.config import schema as config_schema

    if write:
        for path, text in generated_files().items():
            Path(path).write_text(text, "utf8")
    else:
        typer.echo(config_schema(), nl=False)
