"""Trace: the recorded lineage of a result, of a cell of a table, or of a claim, down to the bytes
of the sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.markup import escape as escape_markup
from rich.text import Text
from rich.tree import Tree

from isotropy.errors import IsotropyError
from isotropy.printable import escape_for_terminal
from replication.provenance.address import resolve_address
from replication.provenance.audit import require_intact
from replication.provenance.graph import RecordGraph


def trace(root: Path, address: str) -> dict[str, Any]:
    """Return the lineage of a result: its job and, recursively, the jobs of its inputs.

    Args:
        root: the folder of the run.
        address: path of a result, relative to `root`; of a cell, `TABLE#COLUMN=VALUE,…,COLUMN`; or
            a claim's id. See `replication.provenance.address.resolve_address`.

    Returns:
        A node with path, sha256, record, rule, determinism, status (original or stand-in), seeds,
        spec, code (file -> digest), infrastructure (file -> sha256); sources of a fetched source
        (content, origin, licence); and inputs, a list of such nodes, where a job that occurs a
        second time has only path, sha256 and record. The node of a cell also has the rows as
        `cells`, and leaves out inputs that belong to other rows: those of jobs whose spec has
        another setup, seed or data set.

    Raises:
        IsotropyError: no record lists the file or one of its inputs, or there is no such cell or
            claim.
        NotIntact: what would be shown is not what was written.
    """
    resolved = resolve_address(root, address)
    require_intact(root, [Path(resolved.path)])
    node = _node(RecordGraph(root), resolved.path, resolved.keys, set())
    return {**node, "cells": resolved.cells} if resolved.cells else node


def tree(node: dict[str, Any], parent: Tree | None = None) -> Tree:
    """Render a lineage as a tree for the terminal."""
    label = f"[bold]{escape(node['path'])}[/] [dim]{node['sha256'][:12]}[/]"
    for cell in node.get("cells", []):
        values = ", ".join(f"{name} = {value}" for name, value in cell.items())
        label += f"\n[cyan]{escape(values)}[/]"
    if "rule" not in node:
        label += " [dim](by a job above)[/]"
        return _add(label, parent)
    seeds = "".join(f", {name} seed {seed}" for name, seed in node["seeds"].items())
    label += f"\n{escape(node['rule'])}, {node['status']}, {node['determinism']}{escape(seeds)}"
    label += f", {len(node['code'])} code files, {len(node['infrastructure'])} of infrastructure"
    for source in node["sources"]:
        label += f"\n[green]{escape(source['content'])}[/]\n{escape(source['origin'])}"
        label += f"\nlicence: {escape(source['licence'])}"
    branch = _add(label, parent)
    for child in node["inputs"]:
        tree(child, branch)
    return branch


def _add(label: str, parent: Tree | None) -> Tree:
    text = Text.from_markup(label, emoji=False)
    return Tree(text) if parent is None else parent.add(text)


def escape(text: str) -> str:
    """Escape markup and control characters of a text from a record, for rich."""
    return escape_markup(escape_for_terminal(text))


def _title(content: Any) -> Any:
    return content.get("title") if isinstance(content, dict) else content


def _node(graph: RecordGraph, path: str, keys: dict[str, Any], seen: set[str]) -> dict[str, Any]:
    name = graph.producer(path)
    record = graph.record_of(path)
    sha256 = None if name is None else graph.written(name).get(path)
    if record is None or name is None or sha256 is None:
        for reason in graph.other_format.values():
            raise IsotropyError(reason)
        raise IsotropyError(
            f"no record lists {path}: name a file below results/, as the run wrote it; "
            "isotropy audit verify says more"
        )
    node: dict[str, Any] = {"path": path, "sha256": sha256, "record": name}
    if name in seen:
        return node
    seen.add(name)
    fetched = [] if record.inputs else record.lineage.sources
    return {
        **node,
        "id": record.id,
        "rule": record.rule,
        "determinism": record.determinism,
        "status": record.lineage.status,
        "seeds": record.seeds,
        "spec": record.spec,
        "code": record.code.files,
        "infrastructure": record.code.infrastructure,
        "sources": [
            {
                "id": s.get("id"),
                "content": str(_title(s.get("content"))),
                "origin": str(s.get("origin")),
                "licence": str(s.get("licence")),
            }
            for s in fetched
        ],
        "inputs": [_node(graph, path, keys, seen) for path in graph.inputs(record, keys)],
    }
