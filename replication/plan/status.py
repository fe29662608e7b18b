"""State of a study, from its records, ledger, locks and logs: what is done, running, waiting,
failed or stale, and how long the rest will take.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from isotropy.files import RECORD_SUFFIX, RESULTS
from replication.provenance.ledger import last_jobs
from replication.resources import LOCK, is_locked

if TYPE_CHECKING:  # which would take longer to import than all else
    from replication.plan.costs import CostModel
    from replication.provenance.code import Codebase

State = Literal["done", "running", "waiting", "failed", "stale"]
STATES: tuple[State, ...] = get_args(State)
"""States of a result:

- done: it has a record, and its spec and code are those of the checkout;
- running: a process holds its lock;
- failed: its last job ended with an error;
- stale: it was made from another spec or by other code, and will be made again;
- waiting: none of these; so is a result whose job was killed.
"""

TAIL_BYTES = 2**16
RECENT_SECONDS = 24 * 3600.0
PRIOR_SECONDS = 60.0
"""Time of jobs that the estimates are worth, beside what was recorded."""


class Expected(NamedTuple):
    """What a plan says of one result."""

    stage: str
    paper: str
    """Key of its paper, or `shared`."""
    spec: str
    """Digest of its spec, as in records."""
    seconds: float
    """Estimated time of its job, on one core unless it has a GPU."""
    gpu: bool


def expected_results(costs: CostModel) -> dict[str, Expected]:
    """Return what a plan expects of each result, inputs before what reads them."""
    from replication.papers.registry import KEYS
    from replication.plan.costs import stage_of
    from replication.provenance.record import spec_digest

    results = {}
    for stem in costs.plan.stems():
        spec = costs.plan.spec(stem)
        cost = costs.cost(stem, spec)
        paper = next((part for part in stem.split("/") if part in KEYS), "shared")
        results[stem] = Expected(stage_of(stem), paper, spec_digest(spec), cost.seconds, cost.gpu)
    return results


class ResultState(NamedTuple):
    """One result of a plan."""

    name: str
    state: State
    expected: Expected
    seconds: float | None = None
    """Time that its job took, unless for another spec, or has taken until now."""
    core_seconds: float | None = None
    """The same, on one core; that of the job where it had a GPU."""
    ended: float | None = None
    """When it was done, in seconds since the epoch."""
    message: str = ""
    """The error of a failed job."""


class Group(NamedTuple):
    """Results of a stage, of a paper, or all."""

    counts: dict[State, int]
    seconds_left: float
    """Time until the rest is done, at the present number of jobs at a time."""
    work: float
    """Share of the work that is done, between 0 and 1."""


def survey(root: Path, expected: Mapping[str, Expected], codebase: Codebase) -> list[ResultState]:
    """Find the state of each result of a plan.

    Args:
        root: folder of the run.
        expected: what the plan expects.
        codebase: the code with which records are compared.

    Raises:
        IsotropyError: the ledger is damaged.
    """
    files = _Files(root)
    entries = last_jobs(root / RESULTS)
    results = [_result(name, result, files, entries, codebase) for name, result in expected.items()]
    # Shards are no longer needed once they are merged
    merged = {r.name for r in results if r.state == "done" and "/tokens/" in r.name}
    return [
        r._replace(state="done")
        if "/shards/" in r.name
        and r.name.replace("/shards/", "/tokens/").rpartition("/")[0] in merged
        else r
        for r in results
    ]


class _Files:
    """Names of records, locks and logs below the results of a run, by the stem of the result."""

    def __init__(self, root: Path) -> None:
        self.records: set[str] = set()
        self.locks: dict[str, Path] = {}
        logs: dict[str, str] = {}
        top = str(root / RESULTS)
        for folder, folders, names in os.walk(top):
            prefix = folder[len(top) + 1 :]
            prefix += "/" if prefix else ""
            for name in [f for f in folders if f.startswith(".")]:
                folders.remove(name)
                if name.endswith(".work"):
                    stem = prefix + name[1:].removesuffix(".work")
                    self.locks[stem] = Path(folder, name, LOCK)
            for name in names:
                if name.endswith(RECORD_SUFFIX):
                    self.records.add(prefix + name.removesuffix(RECORD_SUFFIX))
                elif prefix.startswith("logs/") and name.endswith(".log"):
                    logs[prefix[len("logs/") :] + name[: -len(".log")]] = f"{folder}/{name}"
        unfinished = [Path(path) for stem, path in logs.items() if stem not in self.records]
        self.errors = dict(filter(None, map(_last_error, unfinished)))


def _last_error(log: Path) -> tuple[str, str] | None:
    """Return the result that a job could not make and its error, if a log ends with one."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = stream.read().decode("utf8", "replace").splitlines()
    except OSError:
        return None
    for line in reversed(lines):  # a library may print more when the process ends
        _, _, text = line.partition(" ")  # after the time
        stem, _, message = text.partition(": ")
        if message.startswith("error: "):
            return stem, message.removeprefix("error: ")
        if message.startswith(("done in ", "started by ")):
            return None
    return None


def _result(
    name: str,
    expected: Expected,
    files: _Files,
    entries: Mapping[str, Mapping[str, Any]],
    codebase: Codebase,
) -> ResultState:
    lock = files.locks.get(name)
    if lock is not None and is_locked(lock):
        with suppress(OSError):  # done since
            passed = time.time() - lock.stat().st_mtime
            return ResultState(name, "running", expected, max(0.0, passed))
    if name not in files.records:
        if name in files.errors:
            return ResultState(name, "failed", expected, message=files.errors[name])
        return ResultState(name, "waiting", expected)
    entry = entries.get(f"{RESULTS}/{name}{RECORD_SUFFIX}")
    if entry is None or "rule" not in entry or entry["spec"] != expected.spec:
        return ResultState(name, "stale", expected)
    seconds, cpu = entry["seconds"], entry["cpu_seconds"] or 0.0
    core_seconds = seconds if expected.gpu else max(seconds, cpu)
    ended = datetime.fromisoformat(entry["time"]).timestamp()
    state: State = "done" if codebase.is_current(entry, expected.spec) else "stale"
    return ResultState(name, state, expected, seconds, core_seconds, ended)


def measured_scale(
    results: Iterable[ResultState], *, per_core: bool = True
) -> dict[tuple[str, bool], float]:
    """Recorded divided by estimated time of finished jobs, by stage (and `all`) and by whether they
    had a GPU; with few jobs closer to that of all stages, and that closer to 1.

    Args:
        results: results of a plan that was made without a scale.
        per_core: whether time is that on one core, else that of the clock.
    """
    sums: dict[tuple[str, bool], list[float]] = {}
    for result in results:
        recorded = result.core_seconds if per_core else result.seconds
        if result.ended is not None and recorded is not None:
            for stage in (result.expected.stage, "all"):
                pair = sums.setdefault((stage, result.expected.gpu), [0.0, 0.0])
                pair[0] += recorded
                pair[1] += result.expected.seconds
    scale: dict[tuple[str, bool], float] = {}
    for stage, gpu in sorted(sums, key=lambda key: key[0] != "all"):
        recorded, estimated = sums[stage, gpu]
        usual = scale.get(("all", gpu), 1.0)
        # One short job says little of a stage
        factor = (recorded + PRIOR_SECONDS * usual) / (estimated + PRIOR_SECONDS)
        scale[stage, gpu] = factor
    return scale


class Forecast:
    """How long the results of a plan take, by the estimates and what finished jobs took.

    Attributes:
        at_a_time: number of jobs that run at a time, from the records of the last day.
    """

    def __init__(self, results: list[ResultState]) -> None:
        self._scale = measured_scale(results, per_core=False)
        self.at_a_time = _jobs_at_a_time(results)

    def seconds(self, result: ResultState) -> float:
        """Time that the job of a result is expected to take."""
        stage, gpu = result.expected.stage, result.expected.gpu
        scale = self._scale.get((stage, gpu), self._scale.get(("all", gpu), 1.0))
        return result.expected.seconds * scale

    def seconds_left(self, result: ResultState) -> float:
        """Time that the job of a result still needs."""
        if result.state == "done":
            return 0.0
        passed = result.seconds or 0.0 if result.state == "running" else 0.0
        return max(self.seconds(result) - passed, 0.0)

    def group(self, results: Iterable[ResultState]) -> Group:
        """Counts, time left and share of the work that is done."""
        counts = dict.fromkeys(STATES, 0)
        whole = left = longest = 0.0
        for result in results:
            counts[result.state] += 1
            whole += self.seconds(result)
            seconds = self.seconds_left(result)
            left, longest = left + seconds, max(longest, seconds)
        return Group(
            counts, max(left / self.at_a_time, longest), 1 - left / whole if whole else 1.0
        )


def _jobs_at_a_time(results: list[ResultState]) -> float:
    """Return the number of jobs that ran at a time on the last day of the records: their time
    together, divided by the time in which at least one ran. Without records: the number that runs.
    """
    done = [(r.ended, r.seconds) for r in results if r.ended is not None and r.seconds is not None]
    last = max((ended for ended, _ in done), default=0.0)
    spans = sorted((e - s, e) for e, s in done if e > last - RECENT_SECONDS)
    together = covered = until = 0.0
    for start, end in spans:
        together += end - start
        covered += max(0.0, end - max(start, until))
        until = max(until, end)
    running = sum(r.state == "running" for r in results)
    return max(1.0, together / covered if covered else running)


def format_seconds(seconds: float) -> str:
    """Format a time in the unit that fits: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"
