"""Diff: where two runs first part on each path from the sources to the results, and why."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError
from isotropy.files import RECORD_SUFFIX, RESULTS
from isotropy.provenance.chain import Chain, stem_of
from isotropy.provenance.compare import changed_names, differences, shown, spec_differences
from isotropy.provenance.identity import File, digests
from isotropy.provenance.record import Environment, Record
from isotropy.provenance.verify_bundle import NO_ZIP, require_sizes

HARDWARE = ("cpu", "cpu_count", "gpu", "threads", "platform")
LONGEST_LIST = 6


class Divergence(NamedTuple):
    """A job whose inputs are the same in both runs and whose outputs are not, or that only one run
    has.
    """

    name: str
    """Stem of its results below `results/`."""
    causes: list[str]
    """Each begins with source, spec, inputs, code, infrastructure, environment, hardware,
    nondeterminism, or only in."""


class Comparison(NamedTuple):
    """Two runs, compared."""

    first: list[Divergence]
    n_same: int
    n_following: int
    """Jobs that differ because of one above."""


def diff(a: Path, b: Path) -> Comparison:
    """Compare two runs.

    What is compared is what the records say; `verify` says whether the files are still that.

    Args:
        a: the folder of a run, or a bundle (`.zip`).
        b: another.

    Raises:
        IsotropyError: one of them holds no records.
    """
    with _opened(a) as folder_a, _opened(b) as folder_b:
        before, after = _records(folder_a, a), _records(folder_b, b)
    differing = {
        n
        for n in before.keys() & after.keys()
        if digests(before[n].outputs) != digests(after[n].outputs)
    }
    alone = before.keys() ^ after.keys()
    first = [
        n for n in sorted(differing) if not _stands_on(before[n], after[n]) & (differing | alone)
    ]
    found = [Divergence(stem_of(n), _causes(before[n], after[n])) for n in first]
    lonely, n_below = _only_in_one(before, after)
    n_following = len(differing) - len(first) + n_below
    return Comparison(
        found + lonely, len(before.keys() & after.keys()) - len(differing), n_following
    )


@contextmanager
def _opened(run: Path) -> Iterator[Path]:
    """The folder of a run; the records of a bundle are unpacked for a while."""
    if run.is_dir():
        yield run
        return
    if not run.is_file():
        raise IsotropyError(f"{run} is neither the folder of a run nor a bundle")
    with tempfile.TemporaryDirectory() as folder:
        try:
            with zipfile.ZipFile(run) as archive:
                records = [i for i in archive.infolist() if i.filename.endswith(RECORD_SUFFIX)]
                require_sizes({i.filename: i.file_size for i in records})
                for member in records:
                    # Which keeps it below the folder, whatever the name says
                    archive.extract(member, folder)
        except (OSError, ValueError, *NO_ZIP) as error:
            raise IsotropyError(
                f"{run} is neither the folder of a run nor a bundle: {error}"
            ) from error
        yield Path(folder)


def _records(folder: Path, run: Path) -> dict[str, Record]:
    chain = Chain(folder)
    found = {name: record for name in chain.names() if (record := chain.record(name)) is not None}
    for reason in (*chain.other_format.values(), *chain.unreadable.values()):
        raise IsotropyError(reason)
    if not found:
        raise IsotropyError(
            f"{run} has no records below {RESULTS}: name the folder of a run, or a bundle"
        )
    return found


def _stands_on(before: Record, after: Record) -> set[str]:
    return {*before.input_records, *after.input_records}


def _causes(before: Record, after: Record) -> list[str]:
    """Why the same inputs gave other outputs."""
    found = {
        "source": _sources(before, after),
        "spec": [
            f"{f} {shown(x)} → {shown(y)}" for f, x, y in spec_differences(before.spec, after.spec)
        ],
        "inputs": _inputs(before, after),
        "code": _code(before, after),
        "infrastructure": changed_names(before.code.infrastructure, after.code.infrastructure),
        "environment": _versions(before.environment, after.environment),
        "hardware": _hardware(before.environment, after.environment),
    }
    causes = [f"{kind}: {_listed(items)}" for kind, items in found.items() if items]
    return causes or [
        f"nondeterminism: nothing recorded differs, and the job is called {before.determinism}"
    ]


def _fields(before: Any, after: Any) -> list[str]:
    return [f"{field} {shown(x)} → {shown(y)}" for field, x, y in differences(before, after)]


def _sources(before: Record, after: Record) -> list[str]:
    """What differs in what was fetched; nothing where the job fetches nothing."""
    sources = _fields(before.lineage.sources, after.lineage.sources)
    if not sources or before.inputs:
        return []
    changed = changed_names(digests(before.outputs), digests(after.outputs))
    return [*sources, f"other bytes in {_listed([Path(p).name for p in changed])}"]


def _inputs(before: Record, after: Record) -> list[str]:
    names = changed_names(_paths(before.inputs), _paths(after.inputs))
    return [f"only one of the runs reads {_listed(names)}"] if names else []


def _code(before: Record, after: Record) -> list[str]:
    """Files that differ, and the rule if its text does."""
    files = changed_names(before.code.files, after.code.files)
    rule = [f"the text of rule {before.rule}"] if before.code.rule != after.code.rule else []
    return files + rule


def _versions(before: Environment, after: Environment) -> list[str]:
    """Packages, Python and kind of environment that differ."""
    x, y = before.packages, after.packages
    own = ((k, getattr(before, k), getattr(after, k)) for k in ("python", "prefix"))
    return [
        *(f"{p} {x.get(p)} → {y.get(p)}" for p in changed_names(x, y)),
        *(f"{k} {old} → {new}" for k, old, new in own if old != new),
    ]


def _hardware(before: Environment, after: Environment) -> list[str]:
    x, y = (e.model_dump() for e in (before, after))
    return [f"{k} {shown(x.get(k))} → {shown(y.get(k))}" for k in HARDWARE if x.get(k) != y.get(k)]


def _only_in_one(
    before: dict[str, Record], after: dict[str, Record]
) -> tuple[list[Divergence], int]:
    """Jobs that one run lacks, each paired with the job of the other run that comes nearest; how
    many follow from others.
    """
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    first = sorted(n for n in gone if not before[n].input_records.keys() & gone)
    second = sorted(n for n in new if not after[n].input_records.keys() & new)
    found, free = [], list(second)
    for name in first:
        alike = [n for n in free if after[n].rule == before[name].rule]
        apart = {n: spec_differences(before[name].spec, after[n].spec) for n in alike}
        if not apart:
            found.append(Divergence(stem_of(name), ["only in the first run"]))
            continue
        nearest = min(apart, key=lambda n: (len(apart[n]), n))
        free.remove(nearest)
        fields = [f"{f} {shown(x)} → {shown(y)}" for f, x, y in apart[nearest]]
        cause = f"spec: {_listed(fields)} (only in the first run; the other has {stem_of(nearest)})"
        found.append(Divergence(stem_of(name), [cause]))
    found += [Divergence(stem_of(name), ["only in the second run"]) for name in free]
    return found, len(gone) - len(first) + len(new) - len(second)


def _paths(files: list[File]) -> dict[str, bool]:
    return {f.path: True for f in files}


def _listed(items: list[str]) -> str:
    rest = len(items) - LONGEST_LIST
    return ", ".join(items[:LONGEST_LIST]) + (f" and {rest} more" if rest > 0 else "")
