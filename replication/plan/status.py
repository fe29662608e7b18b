"""State of a study, from its records, ledger, locks and logs: what is done, running, waiting,
failed or stale, and how long the rest will take. The start of a run, `isotropy status`, `plan` and
the audit all ask here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS
from replication.provenance.format import LEDGER, UNREADABLE, identity
from replication.provenance.ledger import last_jobs
from replication.resources import LOCK, is_locked

if TYPE_CHECKING:  # which would take longer to import than all else
    from replication.plan.costs import CostModel
    from replication.provenance.code import Codebase

State = Literal["done", "running", "waiting", "failed", "stale"]
STATES: tuple[State, ...] = get_args(State)
"""States of a result:

- done: it has a record and all its files, and its spec, code and inputs are those of the plan;
- running: a process holds its lock;
- failed: its last job ended with an error;
- stale: it will be made again, since its spec, code or inputs have changed, a file of it is gone,
  or what it reads, or is made together with, will be made again;
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
    reads: frozenset[str] = frozenset()
    """Its input files and folders."""
    needs: frozenset[str] = frozenset()
    """The results that these belong to."""
    job: str = ""
    """Folder of the results that its job makes together; empty if it makes only this one."""


@cache  # the start of a run asks twice, each time seconds for thousands of results
def expected_results(costs: CostModel) -> dict[str, Expected]:
    """Return what a plan expects of each result, inputs before what reads them."""
    from replication.papers.registry import KEYS
    from replication.plan.costs import stage_of
    from replication.plan.plan import stem_of_file
    from replication.provenance.record import spec_digest

    plan, results = costs.plan, {}
    jobs = {stem: folder for folder in plan.batches() for stem in plan.batch(folder)}
    for stem in plan.stems():
        spec = plan.spec(stem)
        cost = costs.cost(stem, spec)
        reads = frozenset(path for paths in plan.inputs(stem).values() for path in paths)
        results[stem] = Expected(
            stage_of(stem),
            next((part for part in stem.split("/") if part in KEYS), "shared"),
            spec_digest(spec),
            cost.seconds,
            cost.gpu,
            reads,
            frozenset(map(stem_of_file, reads)),
            jobs.get(stem, ""),
        )
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
    """The error of a failed job, or why a result is stale."""
    follows: bool = False
    """Whether it is stale only because others are."""


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
        IsotropyError: the ledger is damaged, or missing beside records.
    """
    files, records = _Files(root), _Records(root)
    entries = last_jobs(root / RESULTS)
    if files.records and not entries:
        raise IsotropyError(
            f"{root / RESULTS / LEDGER} names no job, but there are records beside it: restore it "
            f"from a copy, or move {root / RESULTS} away to begin anew"
        )
    results = {
        name: _result(name, result, files, records, entries, codebase)
        for name, result in expected.items()
    }
    _add_consequences(results)
    return [_without_merged_shards(result, results) for result in results.values()]


def has_results(root: Path) -> bool:
    """Return whether a folder has the ledger of a study, or a record."""
    results = root / RESULTS
    return (results / LEDGER).is_file() or any(results.rglob(f"*{RECORD_SUFFIX}"))


def to_be_made(results: Iterable[ResultState]) -> list[str]:
    """Names of the results that must be made, besides what follows from them; none of a study of
    which nothing is made.
    """
    results = list(results)
    if all(r.state == "waiting" for r in results):
        return []
    return [r.name for r in results if r.state not in ("done", "running") and not r.follows]


def _add_consequences(results: dict[str, ResultState]) -> None:
    """Mark results as stale that are made together with, or from, what is made again."""
    jobs = {name: r.expected.job or name for name, r in results.items()}
    again = {jobs[name] for name, r in results.items() if r.state in ("stale", "failed", "waiting")}
    n_before = -1
    while len(again) > n_before:  # results that one job makes may read each other
        n_before = len(again)
        for name, result in results.items():
            causes = [need for need in sorted(result.expected.needs) if jobs.get(need) in again]
            if result.state == "done" and (causes or jobs[name] in again):
                reason = f"{(causes or [jobs[name]])[0]} will be made again"
                results[name] = result._replace(state="stale", message=reason, follows=True)
                again.add(jobs[name])


def _without_merged_shards(result: ResultState, results: Mapping[str, ResultState]) -> ResultState:
    """Count a shard as done if it has been merged: then it is no longer needed."""
    merged = result.name.replace("/shards/", "/tokens/").rpartition("/")[0]
    is_merged = "/shards/" in result.name and results[merged].state == "done"
    return result._replace(state="done") if is_merged else result


class _Facts(NamedTuple):
    """What a record says of its files."""

    sha256: str
    identity: str
    outputs: list[str]
    temporary: tuple[str, ...]
    reads: frozenset[str]
    """Input files and folders."""
    input_records: dict[str, str]
    """Identity of each record of these, by path."""


@cache
def _read_facts(path: str, changed: int, size: int) -> _Facts | None:
    """Read a record, as it is since a change; None if it is none. Not validated, which would take
    ten times as long: the audit does that.
    """
    try:
        content = Path(path).read_bytes()
        record = json.loads(content)
        return _Facts(
            hashlib.sha256(content).hexdigest(),
            identity(record),
            [file["path"] for file in record["outputs"]],
            tuple(record["temporary"]),
            frozenset(path for paths in record["input_names"].values() for path in paths),
            dict(record["input_records"]),
        )
    except (OSError, *UNREADABLE):
        return None


class _Records:
    """Records of a run, read when they are needed."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def facts(self, name: str) -> _Facts | None:
        """Facts of the record with this path; None if there is none, or not a record."""
        path = f"{self.root}/{name}"
        with suppress(OSError):
            stat = os.stat(path)
            return _read_facts(path, stat.st_mtime_ns, stat.st_size)
        return None

    def changes(self, name: str, sha256: str, expected: Expected) -> Iterator[str]:
        """Yield reasons why a result must be made again, though its spec and code are the same.

        Args:
            name: the result.
            sha256: digest of its record in the ledger.
            expected: what the plan says of it.
        """
        record = self.facts(f"{RESULTS}/{name}{RECORD_SUFFIX}")
        if record is None or record.sha256 != sha256:
            yield "its record is not what its job wrote"
            return
        parts = {path for path in record.reads if "/shards/" in path}  # gone once merged
        if changed := sorted((record.reads - parts) ^ expected.reads):
            yield f"it reads other files than before, such as {changed[0]}"
        for path in record.outputs:
            if not os.path.exists(f"{self.root}/{path}") and not path.startswith(record.temporary):
                yield f"{path} is missing"
        for path, known in record.input_records.items():
            facts = self.facts(path)
            if facts is not None and facts.identity != known:
                yield f"what {path} describes has changed"


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
    records: _Records,
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
    if entry is None or "rule" not in entry:
        return ResultState(name, "stale", expected, message="the ledger does not name its record")
    if entry["spec"] != expected.spec:
        return ResultState(name, "stale", expected, message="its spec has changed")
    seconds, cpu = entry["seconds"], entry["cpu_seconds"] or 0.0
    core_seconds = seconds if expected.gpu else max(seconds, cpu)
    ended = datetime.fromisoformat(entry["time"]).timestamp()
    is_current = codebase.is_current(entry, expected.spec)
    reason = (
        next(records.changes(name, entry["sha256"], expected), "")
        if is_current
        else "its code has changed"
    )
    state: State = "stale" if reason else "done"
    return ResultState(name, state, expected, seconds, core_seconds, ended, reason)


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
