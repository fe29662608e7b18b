"""The part of a module that one of its functions reaches, and its digest.

Plain Python, without the rest of the project: the checker of bundles uses it, too.

A slice has the statements at the top of the module that define the function, that define a name
which one of them uses, and those that do more than define a name: calls, loops, decorated
functions. An assignment that calls something counts, too, where the call may change a variable of
the slice. Imports count one by one. The whole module counts where names are not certain: star
imports, `global`, `__getattr__`, `globals()`, or a name that is not found.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterable, Iterator
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import NamedTuple

from isotropy.provenance.syntax import Import, Source, digest_of, imports_in, mentions

READS_NAMESPACE = {"globals", "locals", "vars", "eval", "exec", "__import__", "__builtins__"}
"""Names with which code reaches others that its text does not show."""
BINDS_UNSEEN = {"__getattr__", "__init_subclass__"}
"""Functions by which a module or class gets names, or learns of others."""
KNOWN_NAMES = {
    *dir(builtins),
    *("__name__", "__file__", "__doc__", "__package__", "__spec__", "__path__", "__class__"),
    *("__module__", "__qualname__", "__annotations__"),
}
SEPARATOR = ":"
"""Between the file and the function in the name of a slice."""


class Slice(NamedTuple):
    """What a function of a module reaches: its digest, and what it imports."""

    digest: str
    imports: frozenset[Import]
    whole: bool
    """Whether the whole module counts, since what the function reaches is not certain."""


class Slicer:
    """A module, taken apart into its statements.

    Args:
        source: the module.

    Attributes:
        names: names that it defines.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._statements = [_Statement(node) for node in _single(source.tree)]
        self._defining: dict[str, list[int]] = {}
        for i, statement in enumerate(self._statements):
            for name in statement.binds:
                self._defining.setdefault(name, []).append(i)
        self.names = frozenset(self._defining)

    def slice(self, function: str) -> Slice:
        """The part of the module that a function reaches.

        Raises:
            LookupError: the module defines no such name.
        """
        if function not in self.names:
            raise LookupError(function)
        reached = None if self._is_dynamic else self._reached(function)
        if reached is None:
            return Slice(self._source.digest, self._source.imports, True)
        imports = frozenset(found for node in reached for found in imports_in(node))
        return Slice(digest_of(reached), imports, False)

    @cached_property
    def _is_dynamic(self) -> bool:
        """Whether names of the module may be bound in ways that its top does not show."""
        return any(
            isinstance(node, ast.Global)
            or (isinstance(node, ast.ImportFrom) and any(a.name == "*" for a in node.names))
            or (isinstance(node, ast.FunctionDef) and node.name in BINDS_UNSEEN)
            for node in ast.walk(self._source.tree)
        )

    @cached_property
    def _certain(self) -> frozenset[str]:
        """Names that are known: the module's own, those of type checkers, Python's."""
        unseen = {name for node in self._source.unseen for name in _bound(node)}
        return frozenset(self.names | unseen | KNOWN_NAMES)

    @cached_property
    def _always(self) -> set[int]:
        """Statements that count for every function."""
        used = {name for statement in self._statements for name in statement.uses}
        return {
            i
            for i, statement in enumerate(self._statements)
            # An import of which nothing is used is there for what it does.
            if statement.acts or (statement.is_import and not statement.binds & used)
        }

    def _reached(self, function: str) -> list[ast.stmt] | None:
        """Statements that count for a function, in their order; None where that is not certain."""
        found = self._following({*self._always, *self._defining[function]})
        while more := [i for i in range(len(self._statements)) if self._may_change(i, found)]:
            found = self._following({*found, *more})
        chosen = [self._statements[i] for i in sorted(found)]
        if any(statement.is_dynamic or statement.needs - self._certain for statement in chosen):
            return None
        return [statement.node for statement in chosen]

    def _following(self, start: set[int]) -> set[int]:
        """Statements, and all that define what they use."""
        found: set[int] = set()
        waiting = list(start)
        while waiting:
            i = waiting.pop()
            if i not in found:
                found.add(i)
                for name in self._statements[i].uses:
                    waiting += self._defining.get(name, [])
        return found

    def _may_change(self, i: int, found: set[int]) -> bool:
        """Whether a statement that is not among those found may change a variable of theirs, as
        `RANKS = fill(TABLE)` may.
        """
        if i in found or not self._statements[i].calls:
            return False
        variables = {name for j in found for name in self._statements[j].variables}
        return any(self._statements[j].touches & variables for j in self._following({i}))


class _Statement:
    """A statement at the top of a module.

    Attributes:
        binds: names that it defines for the module.
        uses: names that stand in it.
        needs: names that it reads and does not define itself.
        acts: whether it does more than define names.
        is_dynamic: whether it reaches names that it does not show.
    """

    def __init__(self, node: ast.stmt) -> None:
        self.node = node
        nodes = list(ast.walk(node))
        loaded = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
        self.is_import = isinstance(node, ast.Import | ast.ImportFrom)
        self.binds = frozenset(_bound(node))
        self.uses = _names(node) | {name for n in nodes for name in _quoted_names(n)}
        self.needs = loaded - _own_names(nodes)
        self.acts = _acts(node)
        self.is_dynamic = any(
            mentions(n, READS_NAMESPACE)
            or (isinstance(n, ast.Attribute) and n.attr == "modules" and _names(n.value) == {"sys"})
            for n in nodes
        )

    @cached_property
    def calls(self) -> bool:
        """Whether it calls something when the module is imported."""
        return any(isinstance(n, ast.Call) for part in _run(self.node) for n in ast.walk(part))

    @cached_property
    def variables(self) -> frozenset[str]:
        """Names that it gives to values which can be changed."""
        if isinstance(self.node, ast.Assign | ast.AnnAssign) and not _is_fixed(self.node.value):
            return self.binds
        return frozenset()

    @cached_property
    def touches(self) -> frozenset[str]:
        """Names whose values it may change: given to a call, asked for a method, assigned into."""
        found: set[str] = set()
        for node in ast.walk(self.node):
            if isinstance(node, ast.Call):
                given = [*node.args, *(k.value for k in node.keywords)]
                found |= {n.id for n in given if isinstance(n, ast.Name)}
                found |= _names(node.func.value) if isinstance(node.func, ast.Attribute) else set()
            elif isinstance(node, ast.Attribute | ast.Subscript):
                found |= set() if isinstance(node.ctx, ast.Load) else _names(node.value)
            elif isinstance(node, ast.AugAssign):
                found |= _names(node.target)
        return frozenset(found)


def code_digest(name: str, data: bytes) -> str | None:
    """Digest of a file, or of a slice, as records name it: `path` or `path:function`.

    Args:
        name: the name; a file that is not Python counts by its bytes.
        data: the bytes of the file.

    Returns:
        The digest; None: the file is no Python, or defines no such function.
    """
    path, _, function = name.partition(SEPARATOR)
    if PurePosixPath(path).suffix != ".py":
        return hashlib.sha256(data).hexdigest()
    try:
        return _slicer(data).slice(function).digest if function else Source(data).digest
    except (SyntaxError, ValueError, LookupError, RecursionError):
        return None


@lru_cache(maxsize=64)
def _slicer(data: bytes) -> Slicer:
    """A module taken apart once: records name many functions of the same few."""
    return Slicer(Source(data))


def _single(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements at the top, with one for each name that is imported."""
    for node in tree.body:
        if isinstance(node, ast.Import):
            yield from (ast.Import([alias]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (ast.ImportFrom(node.module, [a], node.level) for a in node.names)
        else:
            yield node


def _acts(node: ast.stmt) -> bool:
    """Whether a statement does more than define names."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return bool(node.decorator_list)  # which may enter it somewhere
    if isinstance(node, ast.ClassDef):
        inner = (n for n in node.body if not isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))
        return bool(node.decorator_list or node.keywords) or any(map(_acts, inner))
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    if isinstance(node, ast.Assign):
        return not all(map(_is_plain, node.targets))
    if isinstance(node, ast.AnnAssign):
        return not _is_plain(node.target)
    return not isinstance(node, ast.Import) and type(node).__name__ != "TypeAlias"


def _is_plain(target: ast.expr) -> bool:
    """Whether a target of an assignment is a name, or several."""
    if isinstance(target, ast.Tuple | ast.List):
        return all(map(_is_plain, target.elts))
    return isinstance(target.value if isinstance(target, ast.Starred) else target, ast.Name)


def _is_fixed(value: ast.expr | None) -> bool:
    """Whether a value is a constant that nothing can change."""
    if isinstance(value, ast.Tuple):
        return all(map(_is_fixed, value.elts))
    return value is None or isinstance(value, ast.Constant | ast.JoinedStr | ast.UnaryOp)


def _run(node: ast.stmt) -> Iterator[ast.AST]:
    """Parts of a definition that run when the module is imported."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        yield from (d for d in [*node.args.defaults, *node.args.kw_defaults] if d is not None)
    elif isinstance(node, ast.ClassDef):
        yield from node.bases
        for inner in node.body:
            yield from _run(inner)
    else:
        yield node


def _bound(node: ast.stmt) -> Iterable[str]:
    """Names that a statement at the top defines for the module."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        inner = (n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        return {name for target in (*targets, *inner) for name in _names(target)}
    return _own_names(ast.walk(node))


def _own_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Names that are bound somewhere in a statement: variables, arguments, imports, functions."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.alias):
            found.add(node.asname or node.name.split(".")[0])
        else:  # definitions, handlers of exceptions, patterns, parameters of types
            named = (getattr(node, field, None) for field in ("name", "rest"))
            found |= {name for name in named if isinstance(name, str)}
    return found


def _quoted_names(node: ast.AST) -> Iterator[str]:
    """Names in annotations and names of types that are written as strings."""
    places: list[ast.AST | None] = []
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        places = [node.returns]
    elif isinstance(node, ast.arg | ast.AnnAssign):
        places = [node.annotation]
    elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Subscript | ast.BinOp):
        places = [node.value]  # another name for a type
    elif isinstance(node, ast.Call) and _names(node.func) & {"cast", "TypeVar", "ForwardRef"}:
        places = [*node.args, *(k.value for k in node.keywords)]
    for place in filter(None, places):
        for inner in ast.walk(place):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield from _names_in_text(inner.value)


def _names_in_text(text: str) -> set[str]:
    try:
        return _names(ast.parse(text.strip(), mode="eval"))
    except (SyntaxError, ValueError):
        return set()


def _names(node: ast.AST) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
