"""Rerun: do a job again in a folder of its own, and judge what comes by what its record
promises.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file, write_json
from isotropy.provenance.array_difference import agree, largest_deviation
from isotropy.provenance.chain import Chain, stem_of
from isotropy.provenance.checkout import ExpectedResults
from isotropy.provenance.code import code_param, script_of
from isotropy.provenance.compare import changed_names
from isotropy.provenance.identity import digests
from isotropy.provenance.record import Record, read_record
from isotropy.spec import canonical_json

CLASS = {"tolerance": "within tolerance", "statistical": "statistically equal"}


class Outcome(NamedTuple):
    """What came of doing a job again."""

    name: str
    """Stem of its results below `results/`."""
    verdict: str
    """reproduced, changed, or failed."""
    detail: str
    seconds: float = 0.0


def choose(root: Path, paths: list[Path], sample: int | None, seed: int) -> list[str]:
    """Records of the jobs that made the given results (files or folders), or a random sample of
    them; without those that say what happened in one run.

    Raises:
        IsotropyError: no record lists a path, or nothing is left.
    """
    chain = Chain(root)
    found: dict[str, None] = {}
    for path in paths:
        writer = chain.producer(path.as_posix())
        names = [writer] if writer else chain.names(path) if (root / path).is_dir() else []
        if not names:
            raise IsotropyError(f"no record lists {path}: name a result, or a folder of results")
        found |= dict.fromkeys(names)
    once = {n for n in found if (record := chain.record(n)) and record.determinism == "once"}
    if found and once == found.keys():
        raise IsotropyError(
            f"{paths[0]} says what happened in one run: there is nothing to do again"
        )
    names = sorted(found.keys() - once)
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
    """Do jobs again, from the inputs that are there, with the code of a checkout.

    Args:
        root: the folder of the run; it is only read.
        names: records, as `choose` gives them.
        project: the checkout.
        expected: what its configuration asks for: knows where a mirror lies, which records do not
            say.
        jobs: how many at a time.
        scratch: where the folders for the jobs are made; None: the system's place for temporary
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
            own = Path(folder)
            _lay_out(root, record, own)
            made = _execute(root, record, project, expected, own, name)
            return _judge(root, record, made, own)._replace(
                name=stem_of(name), seconds=made.seconds
            )
    except (IsotropyError, LookupError, OSError) as error:
        return Outcome(stem_of(name), "failed", str(error))


def _lay_out(root: Path, record: Record, folder: Path) -> None:
    """Copy the inputs of a job, with their records, into the folder. No links: a job might write to
    what it reads.
    """
    for path in [*(f.path for f in record.inputs), *record.input_records]:
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not (root / path).is_file():
            raise IsotropyError(f"its input {path} is not there")
        shutil.copyfile(root / path, target)
    for read in record.inputs:
        if sha256_file(folder / read.path) != read.sha256:
            raise IsotropyError(
                f"its input {read.path} is not what it read then: isotropy audit verify says more"
            )
    for output in record.outputs:
        if (root / output.path).is_file() and sha256_file(root / output.path) != output.sha256:
            raise IsotropyError(
                f"its output {output.path} is not what it wrote: isotropy audit verify says more"
            )


def in_order(record: Record) -> list[tuple[str, list[str]]]:
    """Names and paths of a job's inputs in the order in which its rule has them, as its list of
    files tells: a result names its data in this order.
    """
    files = [f"{file.path}/" for file in record.inputs]

    def first(named: tuple[str, list[str]]) -> int:
        folders = tuple(f"{path}/" for path in named[1])  # an input is a file, or a folder of files
        return next((n for n, file in enumerate(files) if file.startswith(folders)), len(files))

    return sorted(record.input_names.items(), key=first)


def _execute(
    root: Path,
    record: Record,
    project: Path,
    expected: ExpectedResults | None,
    folder: Path,
    name: str,
) -> Record:
    log = f"results/logs/{stem_of(name)}.log"
    # A rule's input is one path or a list of them; a list of one reads the same.
    job = {
        "script": str(script_of(project, record.rule)),
        "rule": record.rule,
        "wildcards": record.wildcards,
        "spec": canonical_json(_spec(record, stem_of(name), expected, root, folder)),
        "code": code_param(project, record.rule, *record.code.modules),
        "input": in_order(record),
        "output": {**record.output_names, "record": name},
        "log": log,
        "threads": record.environment.threads,
    }
    write_json(folder / "job.json", job)
    path = os.pathsep.join([str(project), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
    }
    command = [sys.executable, "-P", "-m", "isotropy.provenance.execute", "job.json"]
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        said = [
            line
            for line in (done.stderr or done.stdout).strip().splitlines()
            if "For further information" not in line
        ]
        raise IsotropyError(said[-1].strip() if said else f"exit code {done.returncode}")
    return read_record(folder / name)


def _spec(
    record: Record, stem: str, expected: ExpectedResults | None, root: Path, folder: Path
) -> dict[str, Any]:
    """The recorded spec, with what records do not say taken from what is expected: where a mirror
    lies, seen from the folder.
    """
    try:
        now = None if expected is None else expected.spec(stem)
    except LookupError:
        now = None
    kept = {name: getattr(now, name) for name in now.machine_fields} if now is not None else {}
    if isinstance(kept.get("mirror"), str):
        kept["mirror"] = os.path.relpath(root / kept["mirror"], folder)
    return {**record.spec, **kept}


def _judge(root: Path, record: Record, made: Record, folder: Path) -> Outcome:
    before, after = digests(record.outputs), digests(made.outputs)
    changed = [p for p in sorted(before.keys() | after.keys()) if before.get(p) != after.get(p)]
    if not changed:
        return Outcome(
            "", "reproduced", f"bitwise, {len(after)} file{'s' if len(after) != 1 else ''}"
        )
    deviations = [d for p in changed if (d := largest_deviation(root / p, folder / p)) is not None]
    worst = max(deviations, key=lambda d: d.relative, default=None)
    shown = (
        f"; largest deviation {worst.relative:.2g} of the range, in {worst.where}" if worst else ""
    )
    comparable = len(deviations) == len(changed) and all(
        p in before and p in after for p in changed
    )
    if record.determinism != "bitwise" and comparable and agree(record.determinism, deviations):
        return Outcome("", "reproduced", f"{CLASS[record.determinism]}{shown}")
    edited = [f for f, digest in record.code.files.items() if made.code.files.get(f) != digest]
    infrastructure = changed_names(record.code.infrastructure, made.code.infrastructure)
    by = f"; the code is another: {', '.join(edited[:3])}" if edited else ""
    by += f"; so is infrastructure: {', '.join(infrastructure[:3])}" if infrastructure else ""
    packages = changed_names(record.environment.packages, made.environment.packages)
    by += f"; so are packages: {', '.join(packages[:3])}" if packages else ""
    more = f" and {len(changed) - 1} more" if changed[1:] else ""
    return Outcome("", "changed", f"{changed[0]}{more}{shown}{by}")
