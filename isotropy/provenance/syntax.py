"""Digests of code by what it says: comments, docstrings and layout do not count.

Plain Python, without the rest of the project: the checker of bundles uses it, too. A digest is the
same on every Python from 3.11 on. It is taken from the syntax tree, written out by type and
non-empty fields, without

- positions, comments, blank lines and the way in which strings are quoted or joined;
- bare strings, which are docstrings of modules, classes, functions and attributes, and `pass`;
- what stands below `if TYPE_CHECKING:`, which never runs.

Strings that are assigned, passed, returned or stand in a tuple are data and count. So do the names
of variables, annotations, defaults, and the order of statements. A module that mentions `__doc__`
keeps its docstrings.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

SKIPPED = {"ctx", "kind", "type_comment", "type_ignores"}
"""Fields of the tree that say nothing: derived from the place, or from comments."""
READS_DOCSTRINGS = {"__doc__", "getdoc"}

_fields: dict[type, list[tuple[str, str]]] = {}


class Import(NamedTuple):
    """An import of one name: `import module` where `name` is None, `from module import name`."""

    module: str
    name: str | None
    level: int
    """Leading dots."""


class Source:
    """A module's text, parsed once.

    Args:
        data: the bytes of the file.

    Attributes:
        tree: its syntax tree without what does not count.
        unseen: statements at the top that only type checkers see.

    Raises:
        SyntaxError, ValueError: it is no Python.
    """

    def __init__(self, data: bytes) -> None:
        self.tree = ast.parse(data)
        # Looked for only where the word is: most modules have none, and walking takes its time.
        keeps = any(word.encode() in data for word in READS_DOCSTRINGS) and any(
            mentions(node, READS_DOCSTRINGS) for node in ast.walk(self.tree)
        )
        self.unseen = [
            inner
            for node in self.tree.body
            if isinstance(node, ast.If) and _is_type_checking(node.test)
            for inner in node.body
        ]
        _strip(self.tree, keep_docstrings=keeps)

    @cached_property
    def digest(self) -> str:
        """Digest of the whole module."""
        return digest_of(self.tree.body)

    @cached_property
    def imports(self) -> frozenset[Import]:
        """All that the module imports, at the top or in functions."""
        return frozenset(imports_in(self.tree))


def digest_of(nodes: Iterable[ast.AST]) -> str:
    """Digest of statements in their order."""
    return sha256_of(_written(node) for node in nodes)


def sha256_of(parts: Iterable[str]) -> str:
    """SHA-256 of texts, one after the other."""
    return hashlib.sha256("\0".join(parts).encode("utf8", "surrogatepass")).hexdigest()


def _written(value: object) -> str:
    """A node, a list or a value as text that is the same on every Python."""
    kind = type(value)
    if kind is list:
        return f"[{','.join([_written(item) for item in value])}]"  # type: ignore[attr-defined]
    if isinstance(value, ast.Constant):
        return _constant(value.value)
    if isinstance(value, ast.JoinedStr):
        return _joined(value)
    if not isinstance(value, ast.AST):
        return _constant(value)
    if kind not in _fields:
        _fields[kind] = [(name, f" {name}=") for name in value._fields if name not in SKIPPED]
    parts = [kind.__name__]
    for name, label in _fields[kind]:
        item = getattr(value, name, None)
        if item is not None and item != []:
            parts.append(label)
            parts.append(_written(item))
    return f"({''.join(parts)})"


def _constant(value: object) -> str:
    # Not repr: which letters it shows as they are depends on the version's Unicode tables.
    text = hex(value) if type(value) is int else ascii(value)
    return f"{type(value).__name__}:{text}"


def _joined(node: ast.JoinedStr) -> str:
    """A string with fields: its pieces of text joined, which versions cut in different places."""
    parts: list[str] = []
    text = ""
    for value in node.values:
        if isinstance(value, ast.Constant):
            text += str(value.value)
            continue
        field = [_constant(text)] if text else []
        text = ""
        if isinstance(value, ast.FormattedValue):
            spec = value.format_spec
            shape = _joined(spec) if isinstance(spec, ast.JoinedStr) and spec.values else ""
            parts += [*field, f"{{{_written(value.value)}!{value.conversion}:{shape}}}"]
        else:
            parts += [*field, _written(value)]
    return f"(JoinedStr {' '.join([*parts, *([_constant(text)] if text else [])])})"


def imports_in(node: ast.AST) -> Iterator[Import]:
    """Imports in a module or a statement, and in what stands below it."""
    if isinstance(node, ast.Import):
        yield from (Import(alias.name, None, 0) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield from (Import(node.module or "", a.name, node.level) for a in node.names)
    for _, block in _blocks(node):
        for inner in block:
            yield from imports_in(inner)


def mentions(node: ast.AST, words: set[str]) -> bool:
    """Whether a node is one of some names: a variable, an attribute, or a string."""
    if isinstance(node, ast.Name):
        return node.id in words
    if isinstance(node, ast.Attribute):
        return node.attr in words
    if isinstance(node, ast.alias):
        return node.name in words
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in words


def _blocks(node: ast.AST) -> Iterator[tuple[str, list[ast.AST]]]:
    """Lists of statements, handlers and cases below a node, with the names of their fields."""
    for name in ("body", "orelse", "handlers", "finalbody", "cases"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            yield name, block


def _strip(node: ast.AST, *, keep_docstrings: bool) -> None:
    """Take what does not count out of a tree."""
    for name, block in _blocks(node):
        kept = list(_counting(block, keep_docstrings))
        setattr(node, name, kept)
        for inner in kept:
            _strip(inner, keep_docstrings=keep_docstrings)


def _counting(block: Sequence[ast.AST], keep_docstrings: bool) -> Iterator[ast.AST]:
    for node in block:
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            yield from _counting(node.orelse, keep_docstrings)
        elif not (isinstance(node, ast.Pass) or (_is_bare_string(node) and not keep_docstrings)):
            yield node


def _is_bare_string(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_type_checking(test: ast.expr) -> bool:
    return (isinstance(test, ast.Name) and test.id == "TYPE_CHECKING") or (
        isinstance(test, ast.Attribute) and test.attr == "TYPE_CHECKING"
    )
