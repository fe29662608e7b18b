"""Rerun: run a job again in a folder of its own, and compare its outputs with the record."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import inf, isfinite
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file, write_json
from replication.provenance.array_difference import TOLERANCE, largest_differences
from replication.provenance.checkout import ExpectedResults
from replication.provenance.code import Codebase
from replication.provenance.compare import changed_names
from replication.provenance.environment import locked_versions
from replication.provenance.graph import RecordGraph, stem_of
from replication.provenance.identity import digests
from replication.provenance.record import Record, read_record
from replication.spec import canonical_json


class Outcome(NamedTuple):
    """The outcome of rerunning a job."""

    name: str
    """Stem of the results of the job, below `results/`."""
    verdict: str
    """reproduced, changed, or failed."""
    detail: str
    seconds: float = 0.0


def choose(root: Path, paths: list[Path], sample: int | None, seed: int) -> list[str]:
    """Choose the jobs to rerun: those that made the given results (files or folders), or a random
    sample of them. Jobs with determinism `once` are left out.

    Returns:
        Names of the records of these jobs.

    Raises:
        IsotropyError: no record lists a path, or no job is left.
    """
    graph = RecordGraph(root)
    selected: dict[str, None] = {}
    for path in paths:
        record_name = graph.producer(path.as_posix())
        names = (
            [record_name] if record_name else graph.names(path) if (root / path).is_dir() else []
        )
        if not names:
            raise IsotropyError(f"no record lists {path}: name a result, or a folder of results")
        selected |= dict.fromkeys(names)
    once = {n for n in selected if (record := graph.record(n)) and record.determinism == "once"}
    if selected and once == selected.keys():
        raise IsotropyError(
            f"{paths[0]} describes what happened in one run: there is nothing to rerun"
        )
    names = sorted(selected.keys() - once)
    if sample is not None and sample < len(names):
        names = sorted(np.random.default_rng(seed).choice(names, sample, replace=False).tolist())
    return names


def rerun(
    root: Path,
    names: list[str],
    project: Path,
    expected: ExpectedResults | None = None,
    *,
    jobs: int = 1,
    scratch: Path | None = None,
) -> Iterator[Outcome]:
    """Rerun jobs from their present inputs with the code of a checkout.

    Args:
        root: the folder of the run, which is not modified.
        names: names of records, as `choose` returns them.
        project: the checkout.
        expected: results that its configuration asks for; used for paths on this machine, such as
            that of a mirror, which records do not contain.
        jobs: number of jobs to run in parallel.
        scratch: folder in which the jobs' folders are made; None: the system's folder for temporary
            files.
    """
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(
            lambda name: _rerun(root.resolve(), name, project.resolve(), expected, scratch), names
        )


def _rerun(
    root: Path, name: str, project: Path, expected: ExpectedResults | None, scratch: Path | None
) -> Outcome:
    try:
        record = read_record(root / name)
        with tempfile.TemporaryDirectory(prefix="rerun-", dir=scratch) as folder:
            job_folder = Path(folder)
            _copy_inputs(root, record, job_folder)
            new_record = _execute(root, record, project, expected, job_folder, name)
            return _judge(root, record, new_record, job_folder, project)._replace(
                name=stem_of(name), seconds=new_record.seconds
            )
    except (IsotropyError, LookupError, OSError) as error:
        return Outcome(stem_of(name), "failed", str(error))


def _copy_inputs(root: Path, record: Record, folder: Path) -> None:
    """Copy the inputs of a job, with their records, into the folder. They are not linked, since a
    job might write to its inputs.
    """
    for path in [*(f.path for f in record.inputs), *record.input_records]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (root / path).is_file():
            raise IsotropyError(f"its input {path} does not exist")
        shutil.copyfile(root / path, target)
    copies = [
        (f"input {f.path} has changed since the job read it", folder, f) for f in record.inputs
    ]
    outputs = [f for f in record.outputs if (root / f.path).is_file()]
    copies += [(f"output {f.path} has changed since the job wrote it", root, f) for f in outputs]
    for change, parent, file in copies:
        if sha256_file(parent / file.path) != file.sha256:
            raise IsotropyError(f"its {change}: see isotropy audit verify")


def ordered_inputs(record: Record) -> list[tuple[str, list[str]]]:
    """Return names and paths of a job's inputs in the order of its rule, which follows from the
    list of input files; results name their data in this order.
    """
    files = [f"{file.path}/" for file in record.inputs]

    def position(item: tuple[str, list[str]]) -> int:
        folders = tuple(f"{path}/" for path in item[1])  # an input is a file, or a folder of files
        return next((n for n, file in enumerate(files) if file.startswith(folders)), len(files))

    return sorted(record.input_names.items(), key=position)


def _execute(
    root: Path,
    record: Record,
    project: Path,
    expected: ExpectedResults | None,
    folder: Path,
    name: str,
) -> Record:
    log, codebase = f"results/logs/{stem_of(name)}.log", Codebase(project)
    # An input of a rule is one path or a list of paths; `Job` reads a list of one in the same way.
    job = {
        "script": str(codebase.rule(record.rule)[1]),
        "rule": record.rule,
        "wildcards": record.wildcards,
        "spec": canonical_json(record.spec),
        "places": _places(stem_of(name), expected, root, folder),
        "code": codebase.code(record.rule, *record.code.modules).param(),
        "input": ordered_inputs(record),
        "output": {**record.output_names, "record": name},
        "log": log,
        "threads": record.environment.threads,
    }
    write_json(folder / "job.json", job)
    path = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    command = [sys.executable, "-P", "-m", "replication.provenance.execute", "job.json"]
    process = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **offline, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if process.returncode != 0:
        lines = (process.stderr or process.stdout).strip().splitlines()
        lines = [line for line in lines if "For further information" not in line]
        raise IsotropyError(lines[-1].strip() if lines else f"exit code {process.returncode}")
    return read_record(folder / name)


def _places(stem: str, expected: ExpectedResults | None, root: Path, folder: Path) -> str:
    """Return paths on this machine, which records leave out, from the expected spec, relative to
    the job's folder.
    """
    places: dict[str, Any] = {}
    with suppress(LookupError):
        places = {} if expected is None else json.loads(expected.spec(stem).places())
    if isinstance(places.get("mirror"), str):
        places["mirror"] = os.path.relpath(root / places["mirror"], folder)
    return canonical_json(places)


def _judge(root: Path, record: Record, new_record: Record, folder: Path, project: Path) -> Outcome:
    before, after = digests(record.outputs), digests(new_record.outputs)
    changed = changed_names(before, after)
    if not changed:
        plural = "s" if len(after) != 1 else ""
        return Outcome("", "reproduced", f"bitwise, {len(after)} file{plural}")
    differences = {
        f"{Path(path).name}, {name}": value
        for path in changed
        for name, value in (largest_differences(root / path, folder / path) or {"": inf}).items()
    }
    worst = max(differences, key=lambda name: differences[name])
    worst_text = f"; largest relative deviation {differences[worst]:.2g}, in {worst}"
    agrees = before.keys() == after.keys() and differences[worst] <= TOLERANCE
    if record.determinism == "tolerance" and agrees:
        return Outcome("", "reproduced", f"within tolerance{worst_text}")
    worst_text = worst_text if isfinite(differences[worst]) else ""
    # Packages that no job of the workflow imports, such as those of tests, are no reason
    locked = locked_versions(project)
    packages, new_packages = (
        {name: version for name, version in made.environment.packages.items() if name in locked}
        for made in (record, new_record)
    )
    reasons = ""
    for reason, old, new in (
        ("code differs", record.code.files, new_record.code.files),
        ("infrastructure differs", record.code.infrastructure, new_record.code.infrastructure),
        ("packages differ", packages, new_packages),
    ):
        names = changed_names(old, new)
        reasons += f"; {reason}: {', '.join(names[:3])}" if names else ""
    others = f" and {len(changed) - 1} more" if changed[1:] else ""
    return Outcome("", "changed", f"{changed[0]}{others}{worst_text}{reasons}")
