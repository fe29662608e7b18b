"""Code identity: which code stands behind a job, and a digest of it.

Snakemake sees only a script's own time stamp. The digest made here, passed to each rule as a
parameter, covers the rule's own text, its script, and every project module that can change the
bytes of its outputs: those that the script imports, directly or not, and the entries, which are
modules or functions that it loads by name. Comments, docstrings and layout do not count
(`isotropy.provenance.syntax`). The machinery is digested apart (`isotropy.provenance.machinery`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from isotropy.errors import IsotropyError, suggest
from isotropy.files import sha256_file
from isotropy.provenance.environment import PYPI_NAME, normalized_name
from isotropy.provenance.machinery import COUNTED_WITH_EVERY_JOB, MACHINERY
from isotropy.provenance.ruletext import rule_digest, rule_text
from isotropy.provenance.slices import SEPARATOR, Slicer
from isotropy.provenance.syntax import Import, Source
from isotropy.spec import digest

Stamp = tuple[int, ...]

PACKAGE = "isotropy"
TEMPLATES = (".html", ".css", ".js", ".yaml", ".csv")
"""Suffixes of files that are part of the module beside which they lie, and whose names begin with
its name and a point."""


class CodeIdentity(NamedTuple):
    """The code behind a job."""

    files: dict[str, str]
    """Project file, or `file:function` where only that function's part counts -> digest."""
    sha256: dict[str, str]
    """The same files -> SHA-256 of their bytes."""
    machinery: dict[str, str]
    """Files that cannot change what is made -> SHA-256 of their bytes."""
    rule: str
    """Digest of the rule's text."""
    entries: list[str]
    """Modules, and functions as `module:function`, that the script loads by name."""

    def digest(self) -> str:
        """What a change makes the job run again for."""
        return digest([self.files, self.rule])

    def param(self) -> str:
        """The parameter by which a rule carries its code: the digest, then the entries."""
        return " ".join([self.digest(), *self.entries])


def code_identity(root: Path, rule: str, entries: Iterable[str] = ()) -> CodeIdentity:
    """Find the code behind a rule, and digest it.

    Args:
        root: the project's folder, which holds `rules/` and the package.
        rule: name of a rule in `rules/*.smk`; its `script:` is where the search for imports starts.
        entries: what the script loads by name (`load`): dotted names of modules, of which all
            counts, or `module:function`, of which what the function reaches counts. Modules that
            are imported count as a whole.

    Raises:
        LookupError: no such rule, or the rule has no script.
        IsotropyError: an entry names no module or function, or a file is no Python.
    """
    entries = list(entries)
    found = _find(root, rule, entries)
    used = {_relative(root, file) for file in [*found.files, *found.parts]}
    others = {_relative(root, f) for f in _closure(root, [*found.files, *found.start], set())}
    return CodeIdentity(
        files=found.digests(root),
        sha256={name: sha256_file(root / name) for name in sorted(used)},
        machinery={name: sha256_file(root / name) for name in sorted(others - used)},
        rule=found.rule,
        entries=entries,
    )


def code_param(root: Path, rule: str, *entries: str) -> str:
    """The parameter by which a rule carries its code, as `CodeIdentity.param` has it, for a plan of
    thousands of jobs: the machinery is not read.
    """
    found = _find(root, rule, list(entries))
    return " ".join([digest([found.digests(root), found.rule]), *entries])


def read_code(root: Path) -> Iterator[None]:
    """Read the modules of a project, one by one: what `code_identity` finds is then known, but for
    files that change later.
    """
    for file in sorted((root / PACKAGE).rglob("*.py")):
        with suppress(IsotropyError, OSError):  # a job that needs it will say so
            stamp = _stamp(file)
            _imports_of(root, file, stamp)
            _digest(file, stamp)
        yield


class _Found(NamedTuple):
    """What counts for a rule."""

    files: set[Path]
    """Those of which all counts."""
    parts: dict[Path, dict[str, str]]
    """Of other files: functions of which what they reach counts -> digest."""
    rule: str
    start: list[Path]
    """Where the search began."""

    def digests(self, root: Path) -> dict[str, str]:
        """Project file, or `file:function` -> digest."""
        found = {_relative(root, f): _digest(f, _stamp(f)) for f in self.files}
        for file, functions in self.parts.items():
            name = _relative(root, file)
            found |= {f"{name}{SEPARATOR}{f}": part for f, part in functions.items()}
        return dict(sorted(found.items()))


def _find(root: Path, rule: str, entries: list[str]) -> _Found:
    """Files and parts of files that count for a rule and what it loads by name."""
    text, script = _rule(root, rule)
    start = [script, *_files(root, tuple(COUNTED_WITH_EVERY_JOB))]
    parts: dict[Path, dict[str, str]] = {}
    for entry in entries:
        file, function = _entry(root, entry)
        start += [p for p in _on_the_way(root, entry.partition(SEPARATOR)[0]) if p != file]
        part = _slice(file, function, _stamp(file)) if function else None
        if part is None or part.whole:
            start.append(file)
        else:
            parts.setdefault(file, {})[function] = part.digest
            start += _imported(root, file, part.imports)
    counted = _closure(root, start, set(_files(root, tuple(MACHINERY))))
    parts = {file: functions for file, functions in parts.items() if file not in counted}
    return _Found(counted, parts, rule_digest(text), start)


def load(name: str, entries: Iterable[str]) -> Any:
    """Import what a rule's code names, so that what runs is what counts.

    Args:
        name: last part of a module's name, such as `protocol`.
        entries: what the rule's code names, as `module` or `module:function`.

    Returns:
        The module, or the function.

    Raises:
        IsotropyError: not exactly one of the entries is of a module with that name.
    """
    parts = [entry.partition(SEPARATOR) for entry in entries]
    found = [part for part in parts if part[0].rpartition(".")[2] == name]
    if len(found) != 1:
        known = ", ".join("".join(part) for part in parts) or "none"
        raise IsotropyError(
            f"expected one entry of a module {name} in the rule's code, got {known}"
        )
    module, _, function = found[0]
    loaded = import_module(module)
    return getattr(loaded, function) if function else loaded


def temporary_outputs(root: Path, rule: str) -> list[str]:
    """Names of the outputs that a rule declares temporary."""
    return re.findall(r"^\s+(\w+)=temp\(", _rule(root, rule)[0], re.M)


def conda_packages(root: Path, rule: str) -> list[str]:
    """Distributions that the conda environment of a rule declares, under their names on PyPI; none
    without such a rule.
    """
    try:
        declared = re.search(r'^\s+"\.\./(envs/\w+\.yaml)"', _rule(root, rule)[0], re.M)
    except LookupError:
        return []
    file = root / declared[1] if declared else None
    text = file.read_text("utf8") if file and file.is_file() else ""
    names = re.findall(r"^\s+- ([A-Za-z0-9_.-]+)=", text, re.M)
    return [PYPI_NAME.get(n, n) for n in map(normalized_name, names) if n not in ("python", "pip")]


def script_of(root: Path, rule: str) -> Path:
    """The script of a rule. Raises LookupError: no such rule."""
    return _rule(root, rule)[1]


def rule_sha256(root: Path, rule: str) -> str:
    """Digest of a rule's text, as in its code identity. Raises LookupError: no such rule."""
    return rule_digest(_rule(root, rule)[0])


def _rule(root: Path, rule: str) -> tuple[str, Path]:
    """A rule's text, and the path of its script."""
    for path in sorted((root / "rules").glob("*.smk")):
        text = rule_text(_text(path, _stamp(path)), rule)
        if text is not None:
            script = re.search(r"^\s+script:\s*\"([^\"]+)\"", text, re.M)
            if script is None:
                raise LookupError(f"rule {rule} has no script")
            return text, (path.parent / script[1]).resolve()
    raise LookupError(f"no rule {rule} in {root / 'rules'}")


def _entry(root: Path, entry: str) -> tuple[Path, str]:
    """The file of an entry, and the function that it names; empty: the whole module."""
    module, _, function = entry.partition(SEPARATOR)
    file = _module_file(root, module) if module.split(".")[0] == PACKAGE else None
    if file is None:
        raise IsotropyError(f"expected a module of {PACKAGE}, got {module!r} in {entry!r}")
    if module in MACHINERY:
        raise IsotropyError(f"expected a module that counts, got {entry!r}: it is machinery")
    names = _slicer(file, _stamp(file)).names if function else frozenset()
    if function and function not in names:
        raise IsotropyError(
            f"expected a function of {module}, got {function!r}: {suggest(function, names)}"
        )
    return file, function


def _module_file(root: Path, module: str) -> Path | None:
    """The file of a dotted module name of the package, or None if the name is not a module."""
    base = root.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _files(root: Path, modules: tuple[str, ...]) -> tuple[Path, ...]:
    """Files of those modules that there are."""
    return tuple(f for module in modules if (f := _module_file(root, module)) is not None)


def _on_the_way(root: Path, module: str) -> Iterator[Path]:
    """The file of a module, and those of the packages in which it is."""
    parts = module.split(".")
    if parts[0] == PACKAGE:
        for i in range(1, len(parts) + 1):
            if (file := _module_file(root, ".".join(parts[:i]))) is not None:
                yield file


def _imported(root: Path, file: Path, imports: Iterable[Import]) -> list[Path]:
    """Project files that imports of a file name, the packages' own `__init__.py` on the way
    included.
    """
    package = file.relative_to(root).parent.parts if file.is_relative_to(root) else ()
    found: set[Path] = set()
    for module, name, level in imports:
        above = package[: len(package) - level + 1] if level else ()
        base = ".".join([*above, *filter(None, [module])])
        for dotted in (base, f"{base}.{name}") if name else (base,):
            found.update(_on_the_way(root, dotted))
    return sorted(found)


def _closure(root: Path, start: Iterable[Path], apart: set[Path]) -> set[Path]:
    """Files, all that they import, and templates beside them; without those apart and what only
    they import.
    """
    seen: set[Path] = set()
    waiting = list(start)
    while waiting:
        file = waiting.pop()
        if file in seen or file in apart:
            continue
        seen.add(file)
        if file.suffix == ".py":
            seen.update(_templates(file, _stamp(file.parent)))
            waiting += _imports_of(root, file, _stamp(file))
    return seen


def _stamp(file: Path) -> Stamp:
    """What changes with a file; also where another one takes its place with its time and size."""
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _relative(root: Path, file: Path) -> str:
    return file.relative_to(root).as_posix()


@cache
def _text(file: Path, _stamp: Stamp) -> str:
    return file.read_text("utf8")


@cache
def _source(file: Path, _stamp: Stamp) -> Source:
    try:
        return Source(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise IsotropyError(f"{file} is no Python: {error}") from error


@cache
def _slicer(file: Path, stamp: Stamp) -> Slicer:
    return Slicer(_source(file, stamp))


@cache
def _slice(file: Path, function: str, stamp: Stamp) -> Any:
    return _slicer(file, stamp).slice(function)


@cache
def _imports_of(root: Path, file: Path, stamp: Stamp) -> list[Path]:
    return _imported(root, file, _source(file, stamp).imports)


@cache
def _templates(file: Path, _stamp_of_folder: Stamp) -> list[Path]:
    return [p for p in file.parent.glob(f"{file.stem}.*") if p.suffix in TEMPLATES]


@cache
def _digest(file: Path, stamp: Stamp) -> str:
    return _source(file, stamp).digest if file.suffix == ".py" else sha256_file(file)
