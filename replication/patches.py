"""Changes to private parts of Snakemake 9.27 and its SLURM executor 2.8, each with its reason.

Nothing else of the project touches them; each goes when it is no longer needed. One is also a
change for the executor itself: `docs/upstream/slurm-job-states.patch`.
"""

from __future__ import annotations

import atexit
import logging
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

SLURM_EXECUTOR = "snakemake_executor_plugin_slurm"
FAULTY_VERSION = "2.8.0"


def apply(workflow: Any) -> None:
    """Make all changes for a run that is about to start.

    Args:
        workflow: Snakemake's workflow, with its scheduler.
    """
    limit_scheduler_timers(workflow.scheduler)
    mend_slurm_executor(workflow)


def limit_gpu_jobs(workflow: Any, n: int) -> None:
    """Let at most `n` jobs with a GPU run on this machine at a time, unless `--resources` sets a
    limit of `gpu`. A cluster gives each job a GPU of its own.

    Snakemake reads limits before it knows whether jobs run here or on a cluster.
    """
    scheduler = workflow.scheduler
    if n and workflow.local_exec and "gpu" not in scheduler.global_resources:
        scheduler.global_resources["gpu"] = scheduler.resources["gpu"] = n


def progress_display(workflow: Any) -> Any:
    """Return the `rich.progress.Progress` of snakemake-logger-plugin-rich; None if the run does not
    use that logger.
    """
    handlers = workflow.logger_manager.get_log_handlers()
    return next((h.progress for h in handlers if hasattr(h, "progress")), None)


def planned_outputs(workflow: Any) -> list[str]:
    """Return the outputs of all jobs that a run is about to make."""
    return [str(path) for job in workflow.dag.needrun_jobs() for path in job.output]


def is_module(workflow: Any) -> bool:
    """Return whether another workflow uses this one as a module."""
    return not workflow.modifier.is_main_snakefile()


def module_prefix(workflow: Any) -> str:
    """Return the prefix that another workflow, which uses this one as a module, puts before all
    paths; empty if there is none.
    """
    return workflow.modifier.path_modifier.prefix or ""


def lacks_package(workflow: Any, checkout: Path) -> bool:
    """Return whether the scripts of a checkout's rules need its folder in PYTHONPATH: always, for
    environments that Snakemake makes; in a module, else, only if this Python does not import the
    checkout's package by itself, so that the other workflow's variables stay as they are.
    """
    if not is_module(workflow) or workflow.deployment_settings.deployment_method:
        return True
    command = [sys.executable, "-P", "-c", "import replication; print(replication.__file__)"]
    imported = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    return Path(imported).resolve().parent != checkout / "replication"


def call_at_start(workflow: Any, function: Callable[[], None]) -> None:
    """Call a function when a run starts, also in a module, whose `onstart` Snakemake ignores, and
    beside an `onstart` of the other workflow that stands before or after the module.
    """
    register = workflow.onstart

    def extend() -> None:
        previous = workflow._onstart

        def start(log: Any) -> None:
            previous(log)
            function()

        workflow._onstart = start

    def onstart(other: Callable[[Any], None]) -> None:
        register(other)
        if workflow._onstart is other:  # no `onstart` of another module
            extend()

    workflow.onstart = onstart
    extend()


def extend_dag(
    workflow: Any, results_to_make: Callable[[], list[str]], note_run: Callable[[], None]
) -> None:
    """Let records, rather than what Snakemake keeps in `.snakemake`, say what is made again; and
    note each run, also one that has nothing to do, for which Snakemake calls no `onstart`.

    Args:
        workflow: Snakemake's workflow.
        results_to_make: returns outputs of the jobs that are run whatever Snakemake knows of them.
        note_run: called under Snakemake's lock, unless the run is a dry one.
    """
    if not workflow.is_main_process:
        return
    build = workflow._build_dag

    def build_dag() -> None:
        workflow.dag.forcefiles.update(results_to_make())
        build()
        if workflow.executor_plugin is None or workflow.dryrun or workflow.touch:
            return
        postprocess = workflow.dag.postprocess

        async def note_and_postprocess(*args: Any, **kwargs: Any) -> Any:
            workflow.dag.postprocess = postprocess
            note_run()
            return await postprocess(*args, **kwargs)

        workflow.dag.postprocess = note_and_postprocess

    workflow._build_dag = build_dag


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


def mend_slurm_executor(workflow: Any) -> None:
    """Mend how the SLURM executor learns that jobs have ended, and cancels them, if a run submits
    jobs by the version with these faults (`docs/upstream/slurm-job-states.patch`). Of another
    version a warning says that it is used as it is.
    """
    executor: Any = sys.modules.get(SLURM_EXECUTOR)
    if type(workflow.scheduler._executor).__module__ != SLURM_EXECUTOR or executor is None:
        return
    if (installed := version(SLURM_EXECUTOR)) != FAULTY_VERSION:
        logging.getLogger("snakemake.logging").warning(
            f"{SLURM_EXECUTOR} {installed} is not {FAULTY_VERSION}, with which this workflow was "
            "tested: if a run waits for a job that was cancelled or preempted, stop it and its "
            "jobs (scancel), and start it again"
        )
        return
    settings = workflow.executor_settings
    executor.query_job_status = with_known_states(executor.query_job_status, settings)
    atexit.register(cancel_submitted_jobs, workflow.scheduler)


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
