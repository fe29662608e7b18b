"""Changes to private parts of Snakemake 9.27 and its SLURM executor 2.8, each with its reason.

Nothing else of the project touches them. Those that mend a fault are proposed upstream
(`docs/upstream/`); each goes when it is no longer needed.
"""

from __future__ import annotations

import atexit
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any


def apply(workflow: Any) -> None:
    """Make all changes for a run that is about to start.

    Args:
        workflow: Snakemake's workflow, with its scheduler.
    """
    limit_scheduler_timers(workflow.scheduler)
    atexit.register(cancel_submitted_jobs, workflow.scheduler)
    slurm: Any = sys.modules.get("snakemake_executor_plugin_slurm")
    if slurm is not None:
        settings = workflow.executor_settings
        slurm.query_job_status = with_known_states(slurm.query_job_status, settings)


def limit_gpu_jobs(workflow: Any, n: int) -> None:
    """Let at most `n` jobs with a GPU run on this machine at a time, unless `--resources gpu=N`
    sets a limit; 0: there is no GPU. A cluster gives each job a GPU of its own.

    Snakemake reads limits before it knows whether jobs run here or on a cluster.
    """
    scheduler = workflow.scheduler
    if n and workflow.local_exec and "gpu" not in scheduler.global_resources:
        scheduler.global_resources["gpu"] = scheduler.resources["gpu"] = n


def is_module(workflow: Any) -> bool:
    """Return whether another workflow uses this one as a module."""
    return not workflow.modifier.is_main_snakefile()


def module_prefix(workflow: Any) -> str:
    """Return the prefix that another workflow, which uses this one as a module, puts before all
    paths; empty if there is none.
    """
    return workflow.modifier.path_modifier.prefix or ""


def call_at_start(workflow: Any, function: Callable[[], None]) -> None:
    """Call a function when a run starts, also in a module, whose `onstart` Snakemake ignores. An
    `onstart` of the other workflow that stands after the module takes its place.
    """
    previous = workflow._onstart

    def start(log: Any) -> None:
        previous(log)
        function()

    workflow._onstart = start


def limit_scheduler_timers(scheduler: Any) -> None:
    """Let the scheduler wait for one timer instead of one for each job that has finished.

    Snakemake 9.27 starts a timer in each pass of its loop, and each timer begins a pass: after N
    jobs it makes N passes a second, and waits for the last at its end.
    """
    pending = threading.Event()

    def begin_pass() -> None:
        pending.clear()
        scheduler._open_jobs.release()

    def schedule_pass(delay: float) -> None:
        if not pending.is_set():
            pending.set()
            timer = threading.Timer(delay, begin_pass)
            timer.daemon = True
            timer.start()

    scheduler._schedule_reevalutation = schedule_pass


def cancel_submitted_jobs(scheduler: Any) -> None:
    """Cancel what a run still has on SLURM when it ends: nothing, unless it was interrupted.

    At Ctrl-C the executor cancels the jobs on its list, and the list is empty while it asks for
    their states.
    """
    run = getattr(getattr(scheduler, "_executor", None), "run_uuid", None)
    if run is not None:
        subprocess.run(["scancel", "--name", run], check=False)


def with_known_states(
    query: Callable[..., Awaitable[Any]], settings: Any
) -> Callable[..., Awaitable[Any]]:
    """The SLURM executor's query of job states, with the states that it knows.

    It would wait for ever for a job in another: `CANCELLED by 1000`, and PREEMPTED where SLURM is
    told not to start jobs again.
    """

    async def normalized(*args: Any) -> Any:
        reported, seconds = await query(*args)
        ended = {"PREEMPTED"} if settings.no_requeue else set()
        states = {job: s.partition(" ")[0] for job, s in (reported or {}).items()}
        states = {job: "CANCELLED" if s in ended else s for job, s in states.items()}
        return reported and states, seconds

    return normalized
