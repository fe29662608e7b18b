"""Progress of a run in Snakemake's terminal: a bar of all its work and one for each running job,
in the display of `snakemake-logger-plugin-rich`, which by itself counts jobs per rule.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from isotropy.errors import first_line
from isotropy.files import RECORD_SUFFIX
from replication import patches
from replication.job import JOB_OUTPUT
from replication.plan.costs import CostModel
from replication.plan.status import (
    Expected,
    Forecast,
    ResultState,
    expected_results,
    format_seconds,
    survey,
)
from replication.provenance.code import Codebase

log = logging.getLogger("snakemake.logging")

UPDATE_SECONDS = 2.0
"""Least time between two updates."""


def show_progress(workflow: Any, costs: CostModel, results: Path, codebase: Codebase) -> None:
    """Show work in place of numbers of jobs, where the run has the logger `rich`. What jobs print
    would break its lines: it goes to their logs only.
    """
    # As a module it leaves the display and the variables of the other workflow as they are.
    if patches.is_module(workflow) or (display := patches.progress_display(workflow)) is None:
        return
    os.environ[JOB_OUTPUT] = "log"
    outputs = [path for path in patches.planned_outputs(workflow) if path.endswith(RECORD_SUFFIX)]
    names = [path.removeprefix(f"{results}/").removesuffix(RECORD_SUFFIX) for path in outputs]
    since = int(time.time())  # records have whole seconds
    root = results.parent.absolute()
    WorkProgress(display, root, codebase, expected_results(costs), names, since).start()


class WorkProgress:
    """Bars of a run.

    Args:
        display: the plugin's `rich.progress.Progress`.
        root: folder of the run.
        codebase: the code of the checkout.
        expected: what the plan expects.
        names: the results that the run makes.
        since: start of the run, in seconds since the epoch: older results are made again.
    """

    def __init__(
        self,
        display: Any,
        root: Path,
        codebase: Codebase,
        expected: Mapping[str, Expected],
        names: Collection[str],
        since: float,
    ) -> None:
        self._display, self._root, self._codebase = display, root, codebase
        self._expected, self._names, self._since = expected, set(names), since
        self._bars: dict[str, Any] = {}

    def start(self) -> None:
        """Update the bars in a thread for as long as the process lives."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            started = time.perf_counter()
            try:
                self.update()
            except Exception as error:  # the run goes on, with the plugin's bars
                for task in self._display.tasks:
                    ours = task.id in self._bars.values()
                    self._display.update(task.id, visible=not ours)
                log.warning("progress is no longer counted by work: %s", first_line(error))
                return
            # At most a twentieth of a core, however many results there are
            time.sleep(max(UPDATE_SECONDS, 20 * (time.perf_counter() - started)))

    def update(self) -> None:
        """Show the present state."""
        everything = survey(self._root, self._expected, self._codebase)
        forecast = Forecast(everything)
        results = [self._in_this_run(r) for r in everything if r.name in self._names]
        running = {result.name: result for result in results if result.state == "running"}
        group = forecast.group(results)
        left = f"{format_seconds(group.seconds_left)} left"
        self._show("", f"all work, {left}", 100 * group.work, 100, str(len(running)))
        for name, result in running.items():
            self._show_job(name, result, forecast)
        for name in [name for name in self._bars if name and name not in running]:
            self._display.remove_task(self._bars.pop(name))
        ours = set(self._bars.values())
        for task in self._display.tasks:
            if task.id not in ours and task.visible:  # a bar of the plugin, which counts jobs
                self._display.update(task.id, visible=False)

    def _in_this_run(self, result: ResultState) -> ResultState:
        """Return a result of an earlier run, which this one makes again, as waiting."""
        is_old = result.ended is not None and result.ended < self._since
        return result._replace(state="waiting") if is_old and result.state == "done" else result

    def _show_job(self, name: str, result: ResultState, forecast: Forecast) -> None:
        expected, left = forecast.seconds(result), forecast.seconds_left(result)
        text = f"{name}, {format_seconds(left) + ' left' if left else 'soon done'}"
        self._show(name, text, expected - left, max(expected, 1e-9), "")

    def _show(self, key: str, text: str, completed: float, total: float, active: str) -> None:
        if key not in self._bars:
            self._bars[key] = self._display.add_task(text, total=total, active=active)
        self._display.update(
            self._bars[key], description=text, completed=completed, total=total, active=active
        )
