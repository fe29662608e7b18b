"""A job: one run of a rule's script, from its spec to its record. Only this module uses the
`snakemake` object of a script.

    with Job(snakemake, EmbedSpec) as job:
        rows = read(job.input["texts"])
        with job.write("vectors") as path:
            save(path, embed(job.spec, rows))

On entry it limits threads and starts the log. On exit it checks that every declared output exists,
digests inputs and outputs, and writes the record. For an `IsotropyError` only the message is
printed; any error removes the outputs. A rule that makes several results, each with its own record,
iterates over them:

    for job in jobs(snakemake, TableSpec):
        with job:
            ...

This module is infrastructure (`replication.provenance.code`): no value that it computes
itself may reach an output.
"""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, perf_counter, process_time, sleep
from types import SimpleNamespace, TracebackType
from typing import Any, Generic, Self, TextIO, TypeVar

from isotropy.errors import IsotropyError
from isotropy.files import (
    RECORD_SUFFIX,
    RESULTS,
    apply_umask,
    atomic,
    record_path,
    remove,
    write_json,
)
from isotropy.printable import escape_for_terminal
from isotropy.scrub import scrub
from replication.provenance.code import PROJECT, Codebase, load
from replication.provenance.environment import describe_environment, peak_memory_bytes
from replication.provenance.graph import stem_of
from replication.provenance.identity import MARK, File, describe_files, record_id
from replication.provenance.ledger import append_job
from replication.provenance.lineage import Lineage
from replication.provenance.record import Determinism, Environment, Record, producers
from replication.resources import LOCK, POLL_SECONDS, lock_file
from replication.spec import Spec, canonical_json, digest
from replication.threads import limit_threads

log = logging.getLogger("replication")

CODEBASE = Codebase(PROJECT)
LOCK_SECONDS = 1.0
"""Time to wait for a lock: `isotropy status` may hold it for a moment, to see if it is free."""
LOGS = f"{RESULTS}/logs/"
JOB_OUTPUT = "ISOTROPY_JOB_OUTPUT"
"""Environment variable; `log`: what a job prints goes to its log only, not to the terminal."""

SpecT = TypeVar("SpecT", bound=Spec)

_started_logs: set[Path] = set()
_recorded_cpu_seconds = [0.0]


class NamedPaths(list[Any]):
    """A list of paths that also have names, like `snakemake.input`."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values.values())
        self._values = dict(values)

    def items(self) -> list[tuple[str, Any]]:
        """Return pairs of names and values."""
        return list(self._values.items())

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["_values"][name]
        except KeyError:
            raise AttributeError(name) from None


class _OneLineFormatter(logging.Formatter):
    """Format a message as one line that names the job's result, with control characters in titles
    and file names escaped.
    """

    def __init__(self, result: str) -> None:
        super().__init__("%(asctime)s %(result)s: %(message)s", "%H:%M:%S")
        self._result = result

    def format(self, record: logging.LogRecord) -> str:
        record.result = self._result
        return escape_for_terminal(super().format(record))


class Job(AbstractContextManager["Job[SpecT]"], Generic[SpecT]):
    """One run of a rule's script.

    Attributes:
        spec: the parsed spec.
        input, output: paths by name, without the record; `inputs(name)` returns inputs of several
            paths.
        lineage: combined lineage of the inputs; a job may add to it.
        id: id of the result (`replication.provenance.identity.record_id`).
        mark: the id in the form that is embedded in outputs.
        determinism: agreement to expect from a rerun; `bitwise` unless the job sets another.
        measurements: facts about this run (times, rates), for the record.
        seeds: seeds by name, for the record.
        shortcut_records: records of the inputs named in `shortcut_inputs`. These save work and do
            not define the result: they are checked against their records, but are not part of the
            result's identity or record. The job must check that they fit.
        work: a folder that survives if the job is killed, for the next job with the same spec, code
            and inputs; removed on success.
    """

    def __init__(
        self, snakemake: Any, spec: type[SpecT], shortcut_inputs: tuple[str, ...] = ()
    ) -> None:
        self._snakemake = snakemake = as_in_own_workflow(snakemake)
        places = getattr(snakemake.resources, "places", "{}")
        self.spec: SpecT = spec.parse(snakemake.params.spec, places)
        # A named input is one path or a list of paths.
        self._recorded_spec = self.spec.recorded()
        self._wildcards = {str(k): str(v) for k, v in snakemake.wildcards.items()}
        inputs_by_name = {
            n: [p] if isinstance(p, str) else list(p) for n, p in snakemake.input.items()
        }
        self._named = {n: paths for n, paths in inputs_by_name.items() if n not in shortcut_inputs}
        self._shortcuts = {n: paths for n, paths in inputs_by_name.items() if n in shortcut_inputs}
        self.input = {
            name: Path(paths[0]) for name, paths in self._named.items() if len(paths) == 1
        }
        self.output = {
            name: Path(path) for name, path in snakemake.output.items() if name != "record"
        }
        self.record = Path(snakemake.output.record)
        self._result = stem_of(self.record.as_posix())
        self.threads = int(snakemake.threads)
        self.lineage = Lineage()
        self.determinism: Determinism = "bitwise"
        self._lock: TextIO | None = None
        self.measurements: dict[str, Any] = {}
        self.seeds: dict[str, int] = {}
        self._keeps_work = False

    def __enter__(self) -> Self:
        self._started, self._clock = datetime.now(UTC), perf_counter()
        self._start_log()
        try:
            self._check()
            self._limits = limit_threads(self.threads)
            inputs = [path for name in self._named for path in self.inputs(name)]
            self._inputs = describe_files(inputs)
            self._producers = producers(inputs, self._inputs)
            shortcuts = [Path(path) for paths in self._shortcuts.values() for path in paths]
            self.shortcut_records = list(producers(shortcuts, describe_files(shortcuts)).values())
            self.lineage = Lineage.of(record.lineage for record in self._producers.values())
            self.id = record_id(
                self._snakemake.rule,
                self._wildcards,
                self._recorded_spec,
                self._inputs,
                self._producers.values(),
            )
            self.mark = MARK + self.id
            input_files = [f.model_dump() for f in self._inputs]
            identity = digest([self.spec.model_dump(mode="json"), self.code.digest(), input_files])
            stem = self.record.name.removesuffix(RECORD_SUFFIX)
            self.work = self.record.with_name(f".{stem}.work") / identity[:16]
            self._lock = self._take_lock()
        except BaseException as error:
            self._fail(error)
            raise
        return self

    def inputs(self, name: str) -> list[Path]:
        """Return all paths of a named input, in the order of the rule; empty if there are none."""
        return [Path(path) for path in (self._named | self._shortcuts).get(name, [])]

    def load(self, name: str) -> Any:
        """Import the module listed in the rule's `code` parameter whose last part is `name`.

        Raises:
            IsotropyError: not exactly one of the modules has that name.
        """
        return load(name, self._modules)

    @contextmanager
    def write(self, name: str) -> Iterator[Path]:
        """Yield a temporary path for the output `name`, which is moved into place if the block ends
        without an error.
        """
        with atomic(self.output[name]) as temporary:
            yield temporary

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._write_record()
                if self._keeps_work:
                    self._unlock()
                else:
                    self._clear_up()
                return
            except Exception as failure:
                error = failure
        self._fail(error)
        if isinstance(error, Exception):  # its traceback has already been logged and printed
            raise SystemExit(1) from None
        raise error

    def _check(self) -> None:
        """Check that outputs share the record's stem, and that the code has not changed since the
        workflow started.
        """
        for path in self.output.values():
            if record_path(path) != self.record:
                raise IsotropyError(
                    f"{path} and {self.record} do not share a stem: the record would not be found"
                )
        expected, *self._modules = self._snakemake.params.code.split()
        self.code = CODEBASE.code(self._snakemake.rule, *self._modules)
        if self.code.digest() != expected:
            raise IsotropyError(
                "the project's code changed while the workflow was running: start it again"
            )

    def _take_lock(self) -> TextIO:
        """Lock the job against other processes, such as one that outlived a killed run.

        Raises:
            IsotropyError: another process has the lock, or the lock file cannot be written.
        """
        try:
            self.work.parent.mkdir(parents=True, exist_ok=True)
            lock = (self.work.parent / LOCK).open("w")
        except OSError as error:
            raise IsotropyError(
                f"{error}: if a killed job of another user has left {self.work.parent}, remove it"
            ) from error
        end = monotonic() + LOCK_SECONDS
        while True:
            try:
                lock_file(lock, wait=False)
            except BlockingIOError:
                if monotonic() < end:
                    sleep(POLL_SECONDS)
                    continue
                raise IsotropyError(
                    "another process is still making "
                    f"{self.record.name.removesuffix(RECORD_SUFFIX)}, perhaps one of a killed run: "
                    "wait for it or stop it, then start again"
                ) from None
            return lock

    def _clear_up(self) -> None:
        """Remove the work folder. A finished job does not fail if files in use cannot be removed,
        as on NFS.
        """
        for path in self.work.parent.iterdir():
            if path.name != LOCK:  # the lock is kept until the rest of the folder is removed
                shutil.rmtree(path, ignore_errors=True)
        self._unlock()
        with suppress(OSError):
            (self.work.parent / LOCK).unlink()
            self.work.parent.rmdir()

    def _unlock(self) -> None:
        assert self._lock is not None
        self._lock.close()

    def _start_log(self) -> None:
        path = Path(self._snakemake.log[0])
        path.parent.mkdir(parents=True, exist_ok=True)
        formatter = _OneLineFormatter(self._result)
        mode = "a" if path in _started_logs else "w"  # the results of one rule run share a log
        _started_logs.add(path)
        log_file = logging.FileHandler(path, mode=mode, encoding="utf8")
        handlers: list[logging.Handler] = [log_file]
        if os.environ.get(JOB_OUTPUT) == "log":
            assert log_file.stream is not None
            for stream in (sys.stdout, sys.stderr):
                stream.flush()
                os.dup2(log_file.stream.fileno(), stream.fileno())
        else:
            handlers.append(logging.StreamHandler())
        for handler in handlers:
            handler.setFormatter(formatter)
        for package in ("isotropy", "replication"):
            logging.getLogger(package).handlers = handlers
            logging.getLogger(package).setLevel(logging.INFO)
        log.info("started by rule %s", self._snakemake.rule)

    def _write_record(self) -> None:
        missing = [str(p) for p in self.output.values() if not p.exists()]
        if missing:
            raise IsotropyError(f"the job ended without writing {', '.join(missing)}")
        apply_umask(self.output.values())
        outputs: list[File] = describe_files(list(self.output.values()))
        temporary = CODEBASE.temporary_outputs(self._snakemake.rule)
        record = Record(
            id=self.id,
            rule=self._snakemake.rule,
            wildcards=self._wildcards,
            spec=self._recorded_spec,
            code=self.code,
            inputs=self._inputs,
            input_records={path: record.identity() for path, record in self._producers.items()},
            outputs=outputs,
            input_names=self._named,
            output_names={name: path.as_posix() for name, path in self.output.items()},
            temporary=[self.output[name].as_posix() for name in temporary],
            lineage=self.lineage.recorded(),
            determinism=self.determinism,
            seeds=self.seeds,
            measurements=scrub(self.measurements),
            environment=Environment(**describe_environment(self.threads)),
            started=self._started.isoformat(timespec="seconds"),
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            seconds=round(perf_counter() - self._clock, 3),
            cpu_seconds=round(_cpu_seconds(), 3),
            peak_memory_bytes=peak_memory_bytes(),
            exit="completed",
        )
        write_json(self.record, record.model_dump(mode="json"))
        append_job(RESULTS, self.record, record.summary())
        log.info("done in %.1f s", record.seconds)

    def _fail(self, error: BaseException) -> None:
        """Remove outputs, and log the error: only the message for errors that a user can act on."""
        if self._lock is not None:  # without the lock, existing files belong to another process
            for path in (*self.output.values(), self.record):
                remove(path)
            self._lock.close()
            if not self.work.exists():  # no work that a later job could continue
                remove(self.work.parent)
        if type(error).__name__ == "OutOfMemoryError":  # torch's, which may not be loaded
            error = IsotropyError(
                f"the GPU has no memory left: set a smaller batch_size (compute.token_budget for "
                f"embeddings), or fewer compute.jobs_per_gpu ({str(error).splitlines()[0]})"
            )
        if any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
            error = IsotropyError(
                f"{error}: free some space and run the command again, or choose another folder "
                "with --directory"
            )
        if isinstance(error, IsotropyError):
            log.error("error: %s", error)
            raise SystemExit(1) from None
        for line in "".join(traceback.format_exception(error)).splitlines():
            log.error("%s", line)
        log.error("error: %s: %s", type(error).__name__, error)


def jobs(snakemake: Any, spec: type[SpecT]) -> Iterator[Job[SpecT]]:
    """Yield a job for each result of a rule that makes several, in order.

    The rule's parameter `spec` is a JSON list with the stem, the spec and the named inputs of each
    result; its named outputs are lists, from which those of a result are selected by stem. If the
    parameter is the spec of a single result (as from `isotropy audit rerun`), only that one is
    made.

    If a later result fails, Snakemake removes the earlier ones. Their work folders are kept until
    all are made, so that the next job need not begin them anew.

    Args:
        snakemake: the object that Snakemake gives to the script.
        spec: the model of each result's spec.
    """
    snakemake = as_in_own_workflow(snakemake)
    results = json.loads(snakemake.params.spec)
    if isinstance(results, dict):
        yield Job(snakemake, spec)
        return
    outputs = {
        name: [paths] if isinstance(paths, str) else list(paths)
        for name, paths in snakemake.output.items()
    }
    finished: list[Job[SpecT]] = []
    for result in results:
        record = RESULTS / f"{result['stem']}{RECORD_SUFFIX}"
        result_outputs = {
            name: path
            for name, paths in outputs.items()
            for path in paths
            if record_path(Path(path)) == record or Path(path) == record
        }
        job = Job(_as_single_job(snakemake, result, result_outputs), spec)
        job._keeps_work = True
        yield job
        finished.append(job)
    for job in finished:
        job._clear_up()


def _as_single_job(
    snakemake: Any, result: Mapping[str, Any], outputs: Mapping[str, str]
) -> SimpleNamespace:
    """Return the object that Snakemake would give to a script that makes one result only."""
    return SimpleNamespace(
        rule=snakemake.rule,
        params=SimpleNamespace(spec=canonical_json(result["spec"]), code=snakemake.params.code),
        input=NamedPaths(result["inputs"]),
        output=NamedPaths(outputs),
        wildcards=NamedPaths({}),
        log=snakemake.log,
        threads=snakemake.threads,
        resources=snakemake.resources,
    )


def as_in_own_workflow(snakemake: Any) -> Any:
    """Return the object that Snakemake would give to the script if no other workflow used this one
    as a module, and enter the folder above `results/`. A module's rules may have other names, and
    its paths a prefix.

    Args:
        snakemake: the object that Snakemake gives to the script.
    """
    log = str(snakemake.log[0])
    prefix = log[: log.find(LOGS)] if LOGS in log else ""

    def strip(paths: Any) -> Any:
        return (
            paths.removeprefix(prefix)
            if isinstance(paths, str)
            else [strip(str(path)) for path in paths]
        )

    if prefix:
        os.chdir(prefix)
    return SimpleNamespace(
        rule=CODEBASE.name_of_rule(snakemake.rule),
        params=snakemake.params,
        input=NamedPaths({name: strip(paths) for name, paths in snakemake.input.items()}),
        output=NamedPaths({name: strip(paths) for name, paths in snakemake.output.items()}),
        wildcards=snakemake.wildcards,
        log=[log.removeprefix(prefix)],
        threads=snakemake.threads,
        resources=snakemake.resources,
    )


def _cpu_seconds() -> float:
    """Return the CPU time of this process in seconds since the last call."""
    seconds = process_time()
    since, _recorded_cpu_seconds[0] = seconds - _recorded_cpu_seconds[0], seconds
    return since
