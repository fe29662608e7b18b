"""Diff: where two runs first part on each path from the sources to the results, and why."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS
from isotropy.provenance.chain import Chain, stem_of
from isotropy.provenance.compare import changed_names, differences, shown
from isotropy.provenance.record import Record

HARDWARE = ("cpu", "cpu_count", "gpu", "threads", "platform")
LONGEST_LIST = 6


class Divergence(NamedTuple):
    """A job whose inputs are the same in both runs and whose outputs are not, or that only one run has."""

    name: str
    """Stem of its results below `results/`."""
    causes: list[str]
    """Each begins with source, spec, code, environment, hardware, nondeterminism, or only in."""


class Comparison(NamedTuple):
    """Two runs, compared."""

    first: list[Divergence]
    n_same: int
    n_following: int
    """Jobs that differ because of one above."""


def diff(a: Path, b: Path) -> Comparison:
    """Compare two runs.

    Args:
        a: the folder of a run, or a bundle (`.zip`).
        b: another.

    Raises:
        IsotropyError: one of them holds no records.
    """
    with _opened(a) as folder_a, _opened(b) as folder_b:
        before, after = _records(folder_a, a), _records(folder_b, b)
    differing = {n for n in before.keys() & after.keys() if _outputs(before[n]) != _outputs(after[n])}
    alone = before.keys() ^ after.keys()
    first = [n for n in sorted(differing) if not _stands_on(before[n], after[n]) & (differing | alone)]
    found = [Divergence(stem_of(n), _causes(before[n], after[n])) for n in first]
    lonely, n_below = _only_in_one(before, after)
    n_following = len(differing) - len(first) + n_below
    return Comparison(found + lonely, len(before.keys() & after.keys()) - len(differing), n_following)


@contextmanager
def _opened(run: Path) -> Iterator[Path]:
    """The folder of a run; the records of a bundle are unpacked for a while."""
    if run.is_dir():
        yield run
        return
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(run) as archive:
                for name in archive.namelist():
                    if name.endswith(RECORD_SUFFIX):
                        archive.extract(name, folder)  # which keeps it below the folder, whatever the name says
        except (OSError, zipfile.BadZipFile) as error:
            raise IsotropyError(f"{run} is neither the folder of a run nor a bundle: {error}") from error
        yield Path(folder)


def _records(folder: Path, run: Path) -> dict[str, Record]:
    chain = Chain(folder)
    found = {name: record for name in chain.names() if (record := chain.record(name)) is not None}
    if not found:
        raise IsotropyError(f"{run} has no records below {RESULTS}: name the folder of a run, or a bundle")
    return found


def _outputs(record: Record) -> dict[str, str]:
    return {f.path: f.sha256 for f in record.outputs}


def _stands_on(before: Record, after: Record) -> set[str]:
    return {*before.input_records, *after.input_records}


def _causes(before: Record, after: Record) -> list[str]:
    """Why the same inputs gave other outputs."""
    causes = []
    if before.lineage.sources and not before.inputs:
        told = differences(before.lineage.model_dump(mode="json")["sources"], after.lineage.model_dump(mode="json")["sources"])
        changed = [Path(p).name for p in changed_names(_outputs(before), _outputs(after))]
        what = [f"{field} {shown(x)} → {shown(y)}" for field, x, y in told]
        causes.append("source: " + _listed([*what, f"other bytes in {_listed(changed)}"]))
    if fields := [f"{field} {shown(x)} → {shown(y)}" for field, x, y in differences(before.spec, after.spec)]:
        causes.append("spec: " + _listed(fields))
    files = changed_names(before.code["files"], after.code["files"])
    if before.code["rule"] != after.code["rule"]:
        files.append(f"the text of rule {before.rule}")
    if files:
        causes.append("code: " + _listed(files))
    x, y = before.environment, after.environment
    versions = [f"{p} {x['packages'].get(p)} → {y['packages'].get(p)}" for p in changed_names(x["packages"], y["packages"])]
    if x["python"] != y["python"]:
        versions.insert(0, f"python {x['python']} → {y['python']}")
    if versions:
        causes.append("environment: " + _listed(versions))
    if hardware := [f"{k} {shown(x[k])} → {shown(y[k])}" for k in HARDWARE if x[k] != y[k]]:
        causes.append("hardware: " + _listed(hardware))
    return causes or [f"nondeterminism: nothing recorded differs, and the job is called {before.determinism}"]


def _only_in_one(before: dict[str, Record], after: dict[str, Record]) -> tuple[list[Divergence], int]:
    """Jobs that one run lacks: with the job of the other run that comes nearest; and how many follow from others of them."""
    found, following = [], 0
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    for side, names, own, other in (("first", gone, before, {n: after[n] for n in new}), ("second", new, after, before)):
        for name in sorted(names):
            if set(own[name].input_records) & names:
                following += 1
                continue
            cause = f"only in the {side} run"
            nearest = min(
                ((len(list(differences(r.spec, own[name].spec))), n) for n, r in other.items()
                 if n in gone | new and r.rule == own[name].rule),
                default=None,
            )  # fmt: skip
            if nearest is None:
                found.append(Divergence(stem_of(name), [cause]))
            elif side == "first":  # a pair is told once
                told = [f"{f} {shown(x)} → {shown(y)}" for f, x, y in differences(own[name].spec, other[nearest[1]].spec)]
                found.append(
                    Divergence(stem_of(name), [f"spec: {_listed(told)} ({cause}; the other has {stem_of(nearest[1])})"])
                )
    return found, following


def _listed(items: list[str]) -> str:
    rest = len(items) - LONGEST_LIST
    return ", ".join(items[:LONGEST_LIST]) + (f" and {rest} more" if rest > 0 else "")
