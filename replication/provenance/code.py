"""Code identity: the code that a job depends on, and its digest.

Snakemake sees only a script's own time stamp. The digest made here, passed to each rule as the
parameter `code`, covers the rule's own text, its script, the project's modules that the script
imports, directly or not, and those that it loads by name (a reader, a paper's tables). Comments,
docstrings and layout do not count (`syntax`), nor does infrastructure (`INFRASTRUCTURE`).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from isotropy.errors import IsotropyError
from isotropy.files import sha256_file
from replication.provenance.format import name_problem
from replication.provenance.syntax import rule_digest, rule_text, tree_digest
from replication.spec import digest

INFRASTRUCTURE = {
    "replication.job": "checks, locks, logs and records what a script does; what outputs contain"
    " of it (id, lineage) is made by modules that are part of the code identity",
    "isotropy.errors": "formats error messages: a job that ends with an error has no outputs",
    "replication.resources": "waits or refuses, and counts GPUs: no byte depends on it",
    "replication.provenance.audit": "judges files; the summary of a run repeats its findings as of"
    " the time of the summary",
    "replication.provenance.graph": "finds records; the summary of a run repeats their content",
    "replication.provenance.checkout": "compares results with a checkout, which no job does",
    "replication.provenance.code": "digests code",
    "replication.provenance.compare": "compares records for the audit",
    "replication.provenance.environment": "describes the machine and the packages, for the record",
    "replication.provenance.format": "digests records and ledgers, which are not outputs",
    "replication.provenance.ledger": "writes to the ledger, which is not an output",
    "replication.provenance.record": "writes and reads records; what outputs contain of one (id, "
    "lineage) is made by `identity` and `lineage`",
    "replication.provenance.syntax": "digests code",
}
"""Module -> why it cannot change the bytes of an output.

They are not part of a job's code identity, so that editing them does not rerun jobs. Records
contain their digests, and the audit lists those that have changed. A module belongs here only if
nothing that it returns reaches an output.
"""
PROJECT = Path(__file__).resolve().parents[2]
"""The checkout that this package belongs to."""
PACKAGES = ("isotropy", "replication")
TEMPLATES = (".html", ".css", ".js", ".yaml", ".csv")
"""Suffixes of files that belong to the module whose name, and a dot, their names start with."""


def _require_name(name: str) -> str:
    """Validate a relative path in the checkout."""
    if problem := name_problem(name):
        raise ValueError(problem)
    return name


CodePath = Annotated[str, AfterValidator(_require_name)]


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


class Codebase:
    """The code of a checkout as it is now: each file is read once."""

    def __init__(self, project: Path) -> None:
        self.project = project.resolve()
        for name in ("code", "rule", "_imports", "_digest", "_sha256"):
            setattr(self, name, cache(getattr(self, name)))

    def code(self, rule: str, *modules: str) -> Code:
        """Find and digest the code of a rule, whose script loads modules by name (`load`), or what
        a module registers under a name by a decorator (`MODULE:NAME`).

        Raises:
            LookupError: there is no such rule, or it has no script.
            IsotropyError: a name is not that of a module, or a file is not valid Python.
        """
        text, script = self.rule(rule)
        waiting: list[Path] = [script]
        files: set[Path] = set()
        registered: dict[Path, set[str]] = {}
        for module in modules:
            name, _, part = module.partition(":")
            if name in INFRASTRUCTURE or (file := self._file(name)) is None:
                raise IsotropyError(f"expected a module that can change results, got {module!r}")
            waiting += self._module(name)
            if part:
                registered.setdefault(file, set()).add(part)
        while waiting:
            if (file := waiting.pop()) not in files:
                files |= {file, *self._templates(file)}
                waiting += self._imports(file)
        infrastructure = files.intersection(map(self._file, INFRASTRUCTURE))
        return Code(
            files={
                self._name(f): self._digest(f, frozenset(registered.get(f, ())))
                for f in sorted(files - infrastructure)
            },
            sha256={self._name(f): self._sha256(f) for f in sorted(files - infrastructure)},
            infrastructure={self._name(f): self._sha256(f) for f in sorted(infrastructure)},
            rule=rule_digest(text),
            modules=list(modules),
        )

    def is_current(self, summary: Mapping[str, Any], spec_digest: str) -> bool:
        """Return whether a result is as Snakemake would make it now: of this spec, and by the code
        of this checkout.

        Args:
            summary: `Record.summary` of its record, or the record's line in the ledger.
            spec_digest: digest of the spec that the plan has now.
        """
        if summary["spec"] != spec_digest:
            return False
        _, *modules = summary["code"].split()
        try:
            return bool(summary["code"] == self.code(summary["rule"], *modules).param())
        except (LookupError, ValueError, IsotropyError):  # no such rule or module any more
            return False

    def rule(self, name: str) -> tuple[str, Path]:
        """Read the text of a rule, and the path of its script.

        Raises:
            LookupError: there is no such rule, or it has no script.
        """
        for path in sorted((self.project / "rules").glob("*.smk")):
            if (text := rule_text(path.read_text("utf8"), name)) is not None:
                if (script := re.search(r"^\s+script:\s*\"([^\"]+)\"", text, re.M)) is None:
                    raise LookupError(f"rule {name} has no script")
                return text, (path.parent / script[1]).resolve()
        raise LookupError(f"no rule {name} in {self.project / 'rules'}")

    def temporary_outputs(self, rule: str) -> list[str]:
        """Return the names of the outputs that a rule declares temporary."""
        return re.findall(r"^\s+(\w+)=temp\(", self.rule(rule)[0], re.M)

    def name_of_rule(self, name: str) -> str:
        """Find the name that a rule has in `rules/`, where another workflow has renamed it (`use
        rule * from isotropy as isotropy_*`).
        """
        words = name.split("_")
        ends = ["_".join(words[i:]) for i in range(len(words))]
        for candidate in [*ends, *("_".join(words[:-i]) for i in range(1, len(words)))]:
            with suppress(LookupError):
                self.rule(candidate)
                return candidate
        raise LookupError(f"no rule {name} in {self.project / 'rules'}")

    def _name(self, file: Path) -> str:
        return file.relative_to(self.project).as_posix()

    def _module(self, name: str) -> list[Path]:
        """Return the `__init__.py` of each package that contains a module, and its own file."""
        parts, files = name.split("."), []
        for i in range(1, len(parts) + 1) if parts[0] in PACKAGES else ():
            base = self.project.joinpath(*parts[:i])
            files += [f for f in (base.with_suffix(".py"), base / "__init__.py") if f.is_file()][:1]
        return files

    def _file(self, name: str) -> Path | None:
        files = self._module(name)
        return files[-1] if len(files) == len(name.split(".")) else None

    def _imports(self, file: Path) -> list[Path]:
        """List the project's files that a module imports, at top level or in functions."""
        package, names = Path(self._name(file)).parent.parts, set[str]()
        for node in ast.walk(_tree(file)) if file.suffix == ".py" else ():
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                above = package[: len(package) - node.level + 1] if node.level else ()
                base = ".".join([*above, *filter(None, [node.module])])
                names.update([base, *(f"{base}.{alias.name}" for alias in node.names)])
        return [path for name in sorted(names) for path in self._module(name)]

    def _templates(self, file: Path) -> list[Path]:
        return [p for p in file.parent.glob(f"{file.stem}.*") if p.suffix in TEMPLATES]

    def _digest(self, file: Path, registered: frozenset[str]) -> str:
        if file.suffix != ".py":
            return sha256_file(file)
        tree = _tree(file)
        return tree_digest(_without_others(tree, registered) if registered else tree)

    def _sha256(self, file: Path) -> str:
        return sha256_file(file)


def is_checkout(folder: Path) -> bool:
    """Return whether a folder is a checkout, which holds the workflow and its packages."""
    return (folder / "rules").is_dir() and (folder / "replication/job.py").is_file()


def load(name: str, modules: Iterable[str]) -> Any:
    """Import the one module of the rule's parameter `code` whose last part is `name`."""
    matches = [module for module in modules if module.rpartition(".")[2] == name]
    if len(matches) != 1:
        raise IsotropyError(f"expected one module {name} in the rule's code, got {[*modules]}")
    return import_module(matches[0])


def _without_others(tree: ast.Module, registered: frozenset[str]) -> ast.Module:
    """Leave out functions that decorators register under other names only."""

    def names(node: ast.stmt) -> set[Any]:
        decorators = getattr(node, "decorator_list", [])
        nodes = (inner for decorator in decorators for inner in ast.walk(decorator))
        return {inner.value for inner in nodes if isinstance(inner, ast.Constant)}

    kept = [node for node in tree.body if not names(node) or names(node) & registered]
    return ast.Module(kept, [])


def _tree(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise IsotropyError(f"{file} is not valid Python: {error}") from error
