"""The command `isotropy status`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from isotropy.cli import error_in_one_line
from isotropy.console import plain_console
from isotropy.files import RESULTS
from isotropy.printable import escape_for_terminal
from replication.cli.common import Root, find_project, study_costs
from replication.provenance.format import LEDGER

if TYPE_CHECKING:
    from replication.plan.status import Forecast, ResultState

WATCH_SECONDS = 2
MAX_SHOWN = 20
"""Running and failed jobs that are listed on a terminal."""


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Show it until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    configfile: Annotated[
        list[Path] | None,
        typer.Option(help="Configuration after config.yaml; default: that of the last run."),
    ] = None,
    root: Root = Path(),
    project: Annotated[Path | None, typer.Option(help="Folder of the checkout.")] = None,
) -> None:
    """Print how far a study is: results that are done, running, waiting, failed or stale, per stage
    and paper, and the time left, from records and logs alone.

    Failed: the last job ended with an error. Stale: spec or code has changed since; what is made
    from a stale result counts as done until that is made again. Waiting: all others, killed jobs
    among them.
    """
    from replication.plan.costs import read_rates
    from replication.plan.status import Forecast, expected_results, survey
    from replication.provenance.code import Codebase

    if watch and as_json:
        raise typer.BadParameter("--watch does not go with --json")
    checkout = find_project(project, root)
    console = plain_console()
    with error_in_one_line():
        if configfile is None and not (root / RESULTS / LEDGER).is_file():
            configfile = []
        rates = read_rates(checkout / "config/rates.yaml")
        expected = expected_results(study_costs(checkout, root, configfile, rates))

        def view() -> Group:
            results = survey(root, expected, Codebase(checkout))
            return _tables(results, Forecast(results))

        if as_json:
            results = survey(root, expected, Codebase(checkout))
            typer.echo(json.dumps(_as_json(results, Forecast(results)), indent=1))
        elif watch:
            with Live(view(), console=console, auto_refresh=False) as live:
                try:
                    while True:
                        time.sleep(WATCH_SECONDS)
                        live.update(view(), refresh=True)
                except KeyboardInterrupt:
                    pass
        else:
            console.print(view())


def _grouped(results: list[ResultState], key: str) -> dict[str, list[ResultState]]:
    groups: dict[str, list[ResultState]] = {}
    for result in results:
        groups.setdefault(getattr(result.expected, key), []).append(result)
    return groups | ({"all": results} if key == "stage" else {})


def _as_json(results: list[ResultState], forecast: Forecast) -> dict[str, Any]:
    running = [
        {
            "name": r.name,
            "seconds": round(r.seconds or 0.0, 1),
            "seconds_expected": round(forecast.seconds(r), 1),
        }
        for r in results
        if r.state == "running"
    ]
    groups: dict[str, Any] = {
        f"{key}s": {
            name: group.counts
            | {"work": round(group.work, 4), "seconds_left": round(group.seconds_left)}
            for name, group in (
                (name, forecast.group(members)) for name, members in _grouped(results, key).items()
            )
        }
        for key in ("stage", "paper")
    }
    return groups | {
        "jobs_at_a_time": round(forecast.at_a_time, 2),
        "running": running,
        "failed": [{"name": r.name, "error": r.message} for r in results if r.state == "failed"],
        "stale": [r.name for r in results if r.state == "stale"],
    }


def _tables(results: list[ResultState], forecast: Forecast) -> Group:
    """What is done, a line per stage and paper; a line per running and failed job; the whole."""
    from replication.plan.status import STATES, format_seconds

    table = Table("", *STATES, "work", "time left", box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for key in ("paper", "stage"):
        for name, members in _grouped(results, key).items():
            group = forecast.group(members)
            counts = [f"{n:,}" if n else "" for n in group.counts.values()]
            left = format_seconds(group.seconds_left) if group.seconds_left else ""
            table.add_row(name, *counts, f"{int(100 * group.work)} %", left)
        table.add_section()
    lines = [_running(r, forecast) for r in _first(results, "running")]
    failed = [
        Text(escape_for_terminal(f"failed: {r.name}: {r.message}"), style="red")
        for r in _first(results, "failed")
    ]
    return Group(table, *lines, *failed)


def _first(results: Iterable[ResultState], state: str) -> list[ResultState]:
    return [r for r in results if r.state == state][:MAX_SHOWN]


def _running(result: ResultState, forecast: Forecast) -> Table:
    """One line of a running job: name, bar, time left."""
    from replication.plan.status import format_seconds

    line = Table.grid(padding=(0, 1), expand=True)
    line.add_column(ratio=1, no_wrap=True)
    line.add_column(width=16)
    line.add_column(width=6, justify="right")
    expected, left = forecast.seconds(result), forecast.seconds_left(result)
    line.add_row(
        result.name,
        ProgressBar(total=max(expected, 1e-9), completed=expected - left),
        format_seconds(left) if left else "soon",
    )
    return line
