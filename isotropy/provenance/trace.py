"""Trace: the lineage of a result, from it down to the source bytes, as records tell it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape
from rich.tree import Tree

from isotropy.errors import IsotropyError
from isotropy.files import record_of
from isotropy.provenance.record import read_record


def trace(root: Path, path: Path) -> dict[str, Any]:
    """The lineage of a file: its job, and in turn those of the job's inputs.

    Args:
        root: the folder of the run.
        path: a result, relative to `root`.

    Returns:
        path, sha256, rule, determinism, status (original or stand-in), seeds, spec, code (file -> sha256), inputs (of the
        same form; a file of a job that was met before has path and sha256 alone); for a fetched source its sources:
        content, origin, licence.

    Raises:
        IsotropyError: no record speaks of the file, or of an input.
    """
    return _node(root, path, set())


def tree(node: dict[str, Any], parent: Tree | None = None) -> Tree:
    """The same for a terminal."""
    label = f"[bold]{escape(node['path'])}[/] [dim]{node['sha256'][:12]}[/]"
    if "rule" not in node:
        label += " [dim](by a job above)[/]"
        return Tree(label) if parent is None else parent.add(label)
    seeds = "".join(f", {name} seed {seed}" for name, seed in node["seeds"].items())
    label += f"\n{escape(node['rule'])}, {node['status']}, {node['determinism']}{escape(seeds)}, {len(node['code'])} code files"
    for source in node["sources"]:
        label += f"\n[green]{escape(source['content'])}[/]\n{escape(source['origin'])}\nlicence: {escape(source['licence'])}"
    branch = Tree(label) if parent is None else parent.add(label)
    for below in node["inputs"]:
        tree(below, branch)
    return branch


def _node(root: Path, path: Path, seen: set[Path]) -> dict[str, Any]:
    told = _record_above(root, path)
    record = read_record(root / told)
    sha256 = next((f.sha256 for f in record.outputs if f.path == path.as_posix()), None)
    if sha256 is None:
        raise IsotropyError(f"no record speaks of {path}: isotropy audit verify {path} says more")
    node: dict[str, Any] = {"path": path.as_posix(), "sha256": sha256}
    if told in seen:
        return node
    seen.add(told)
    fetched = [] if record.inputs else record.lineage.sources
    return {
        **node,
        "rule": record.rule,
        "determinism": record.determinism,
        "status": record.lineage.status,
        "seeds": record.seeds,
        "spec": record.spec,
        "code": record.code["files"],
        "sources": [
            {"id": s.get("id"), "content": str(s.get("content", {}).get("title")), "origin": str(s.get("origin")),
             "licence": str(s.get("licence"))}
            for s in fetched
        ],
        "inputs": [_node(root, Path(read.path), seen) for read in record.inputs],
    }  # fmt: skip


def _record_above(root: Path, path: Path) -> Path:
    """The record of a file, or of the folder that a job wrote whole."""
    for candidate in (path, *path.parents):
        if candidate.name and (root / record_of(candidate)).is_file():
            return record_of(candidate)
    raise IsotropyError(f"no record speaks of {path}: name a file below results/, as the run wrote it")
