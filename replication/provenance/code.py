"""Code identity: the code that a job depends on, and its digest.

Snakemake sees only a script's own time stamp. The digest made here, passed to each rule as a
parameter, covers the rule's own text, its script, the project's modules that the script imports,
directly or not, and the modules that it loads by name (a reader, a paper's tables). Comments,
docstrings and layout do not count (`replication.provenance.syntax`), nor does infrastructure
(`replication.provenance.infrastructure`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from replication.provenance.environment import PYPI_NAME, normalized_name
from replication.provenance.format import name_problem
from replication.provenance.infrastructure import INFRASTRUCTURE
from replication.provenance.syntax import file_digest, rule_digest, rule_text, tree_digest
from replication.spec import digest

Stamp = tuple[int, ...]

PACKAGES = ("isotropy", "replication")
TEMPLATES = (".html", ".css", ".js", ".yaml", ".csv")
"""Suffixes of files that belong to a module: those in the same folder whose names start with the
module's name and a dot."""


def _validate_path(name: str) -> str:
    """Validate a relative path in the checkout."""
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


CodePath = Annotated[str, AfterValidator(_validate_path)]


class Code(BaseModel):
    """The code that a job depends on, as its record has it."""

    model_config = ConfigDict(extra="forbid")

    files: dict[CodePath, str]
    """Path in the project -> digest without comments, docstrings and layout."""
    sha256: dict[CodePath, str]
    """Path of the same files -> SHA-256 of their bytes."""
    infrastructure: dict[CodePath, str]
    """Path of files that cannot change outputs -> SHA-256 of their bytes."""
    rule: str
    """Digest of the rule's text."""
    modules: list[str]
    """Modules that the script loads by name."""

    def digest(self) -> str:
        """Return the digest that reruns the job when it changes."""
        return digest([self.files, self.rule])

    def param(self) -> str:
        """Return the parameter `code` of a rule: the digest, then the modules loaded by name."""
        return " ".join([self.digest(), *self.modules])


def is_checkout(folder: Path) -> bool:
    """Return whether a folder is a checkout, which holds the workflow and the package."""
    return (folder / "rules").is_dir() and (folder / "replication/job.py").is_file()


def project_folder() -> Path:
    """Return the checkout that this package belongs to."""
    return Path(__file__).resolve().parents[2]


def code_identity(root: Path, rule: str, modules: Iterable[str] = ()) -> Code:
    """Find and digest the code that a rule depends on.

    Args:
        root: the project's folder, as `project_folder` returns it.
        rule: name of a rule in `rules/*.smk`.
        modules: dotted names of modules that its script loads by name (`load`).

    Raises:
        LookupError: there is no such rule, or it has no script.
        IsotropyError: a name is not that of a module, or a file is not valid Python.
    """
    text, files = _files(root, rule, modules)
    infrastructure = files & _infrastructure(root)
    return Code(
        files=_digests(root, files - infrastructure),
        sha256=_sha256(root, files - infrastructure),
        infrastructure=_sha256(root, infrastructure),
        rule=rule_digest(text),
        modules=list(modules),
    )


def code_param(root: Path, rule: str, *modules: str) -> str:
    """Compute `Code.param` without hashing bytes of files, fast enough for large plans."""
    text, files = _files(root, rule, modules)
    digests = _digests(root, files - _infrastructure(root))
    return " ".join([digest([digests, rule_digest(text)]), *modules])


def load(name: str, modules: Iterable[str]) -> Any:
    """Import the module listed in the rule's `code` parameter whose last part is `name`.

    Raises:
        IsotropyError: not exactly one of the modules has that name.
    """
    matches = [module for module in modules if module.rpartition(".")[2] == name]
    if len(matches) != 1:
        listed = ", ".join(modules) or "none"
        raise IsotropyError(f"expected one module {name} in the rule's code, got {listed}")
    return import_module(matches[0])


def temporary_outputs(root: Path, rule: str) -> list[str]:
    """Return the names of the outputs that a rule declares temporary."""
    return re.findall(r"^\s+(\w+)=temp\(", _rule(root, rule)[0], re.M)


def conda_packages(root: Path, rule: str) -> list[str]:
    """Return the distributions that the conda environment of a rule declares, by their PyPI names;
    empty if there is no such rule or environment.
    """
    try:
        match = re.search(r'^\s+"\.\./(envs/\w+\.yaml)"', _rule(root, rule)[0], re.M)
    except LookupError:
        return []
    file = root / match[1] if match else None
    text = file.read_text("utf8") if file and file.is_file() else ""
    names = re.findall(r"^\s+- ([A-Za-z0-9_.-]+)[=<>]", text, re.M)
    return [PYPI_NAME.get(n, n) for n in map(normalized_name, names) if n not in ("python", "pip")]


def script_of(root: Path, rule: str) -> Path:
    """Return the path of the script of a rule.

    Raises:
        LookupError: there is no such rule, or it has no script.
    """
    return _rule(root, rule)[1]


def rule_sha256(root: Path, rule: str) -> str:
    """Digest the text of a rule, as in its code identity.

    Raises:
        LookupError: there is no such rule, or it has no script.
    """
    return rule_digest(_rule(root, rule)[0])


def name_of_rule(root: Path, name: str) -> str:
    """Find the name that a rule has in `rules/`, where another workflow that uses this one as a
    module has renamed it (`use rule * from isotropy as isotropy_*`).

    Raises:
        LookupError: no part of the name at its beginning or end is that of a rule.
    """
    words = name.split("_")
    ends = ["_".join(words[i:]) for i in range(len(words))]
    beginnings = ["_".join(words[:i]) for i in range(len(words) - 1, 0, -1)]
    for candidate in [*ends, *beginnings]:
        with suppress(LookupError):
            _rule(root, candidate)
            return candidate
    raise LookupError(f"no rule {name} in {root / 'rules'}")


def _rule(root: Path, rule: str) -> tuple[str, Path]:
    """Read the text of a rule, and the path of its script."""
    for path in sorted((root / "rules").glob("*.smk")):
        text = rule_text(_read(path, _stamp(path)), rule)
        if text is not None:
            script = re.search(r"^\s+script:\s*\"([^\"]+)\"", text, re.M)
            if script is None:
                raise LookupError(f"rule {rule} has no script")
            return text, (path.parent / script[1]).resolve()
    raise LookupError(f"no rule {rule} in {root / 'rules'}")


def _files(root: Path, rule: str, modules: Iterable[str]) -> tuple[str, set[Path]]:
    """Return the text of a rule; and its script, modules loaded by name, and all their imports."""
    text, script = _rule(root, rule)
    files: set[Path] = set()
    waiting = [script]
    for module in modules:
        if _module_file(root, module) is None or module in INFRASTRUCTURE:
            kind = "that can change results" if module in INFRASTRUCTURE else "of the project"
            raise IsotropyError(f"expected a module {kind}, got {module!r}")
        waiting += _module_files(root, module)
    while waiting:
        file = waiting.pop()
        if file not in files:
            files.add(file)
            files.update(_templates(file, _stamp(file.parent)))
            waiting += _imports(root, file, _stamp(file))
    return text, files


@cache
def _infrastructure(root: Path) -> frozenset[Path]:
    return frozenset(f for name in INFRASTRUCTURE if (f := _module_file(root, name)) is not None)


def _digests(root: Path, files: set[Path]) -> dict[str, str]:
    return {_relative(root, file): _digest(file, _stamp(file)) for file in sorted(files)}


def _sha256(root: Path, files: Iterable[Path]) -> dict[str, str]:
    return {_relative(root, file): sha256_file(file) for file in sorted(files)}


def _module_file(root: Path, module: str) -> Path | None:
    """Return the file of a module of the package; None if there is no such module."""
    base = root.joinpath(*module.split("."))
    candidates = (base.with_suffix(".py"), base / "__init__.py")
    return next((c for c in candidates if c.is_file() and module.split(".")[0] in PACKAGES), None)


def _module_files(root: Path, module: str) -> Iterator[Path]:
    """Yield the file of a module, and the `__init__.py` files of the packages that contain it."""
    parts = module.split(".")
    for i in range(1, len(parts) + 1):
        if (file := _module_file(root, ".".join(parts[:i]))) is not None:
            yield file


@cache
def _imports(root: Path, file: Path, stamp: Stamp) -> list[Path]:
    """List the project files that a module imports, at top level or in functions."""
    package = Path(_relative(root, file)).parent.parts
    names: set[str] = set()
    for node in ast.walk(_tree(file, stamp)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parent_parts = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*parent_parts, *filter(None, [node.module])])
            names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
    in_package = sorted(name for name in names if name.split(".")[0] in PACKAGES)
    return [path for name in in_package for path in _module_files(root, name)]


def _stamp(file: Path) -> Stamp:
    """Return a cache key of a file, which also changes if another file with the same modification
    time and size replaces it.
    """
    stat = file.stat()
    return stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino


def _relative(root: Path, file: Path) -> str:
    return file.relative_to(root).as_posix()


@cache
def _read(file: Path, _stamp: Stamp) -> str:
    return file.read_text("utf8")


@cache
def _tree(file: Path, _stamp: Stamp) -> ast.Module:
    if file.suffix != ".py":
        return ast.Module([], [])
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise IsotropyError(f"{file} is not valid Python: {error}") from error


@cache
def _templates(file: Path, _stamp_of_folder: Stamp) -> list[Path]:
    return [p for p in file.parent.glob(f"{file.stem}.*") if p.suffix in TEMPLATES]


@cache
def _digest(file: Path, stamp: Stamp) -> str:
    if file.suffix == ".py":
        return tree_digest(_tree(file, stamp))
    return file_digest(file.name, file.read_bytes()) or ""
