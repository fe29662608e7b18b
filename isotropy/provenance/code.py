"""Code identity: which project files a script runs, and a digest of them.

Snakemake sees only a script's own time stamp. The digest made here, passed to each rule as a
parameter, covers the script, every project module that it imports (transitively), and the rule's
own text: editing a module reruns just the jobs that use it; touching a file or cloning afresh
reruns nothing.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from isotropy.files import sha256_file
from isotropy.provenance.environment import PYPI_NAME, normalized_name
from isotropy.spec import digest

PACKAGE = "isotropy"


class CodeIdentity(NamedTuple):
    """The code behind a rule: project file -> sha256, and the sha256 of the rule's text."""

    files: dict[str, str]
    rule: str


def code_identity(root: Path, rule: str, modules: Iterable[str] = ()) -> CodeIdentity:
    """Find the files that a rule's script runs, and digest them.

    Args:
        root: the project's folder, which holds `rules/` and the package.
        rule: name of a rule in `rules/*.smk`; its `script:` is where the search for imports starts.
        modules: dotted names of modules that the script loads by name, which its text does not
            show.

    Raises:
        LookupError: no such rule, or the rule has no script.
    """
    script = _rule(root, rule)[1]
    files = [script, *(_module_file(root, m) for m in modules)]
    hashes = {
        p.relative_to(root).as_posix(): sha256_file(p)
        for f in files
        if f
        for p in _closure(root, f)
    }
    return CodeIdentity(dict(sorted(hashes.items())), rule_sha256(root, rule))


def rule_sha256(root: Path, rule: str) -> str:
    """Digest of a rule's text, as in its code identity. Raises LookupError: no such rule."""
    return hashlib.sha256(_rule(root, rule)[0].encode()).hexdigest()


def code_param(root: Path, rule: str, *modules: str) -> str:
    """The parameter by which a rule carries its code identity: a digest, then the modules loaded by
    name.
    """
    return " ".join([digest(code_identity(root, rule, modules)), *modules])


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


def _rule(root: Path, rule: str) -> tuple[str, Path]:
    """A rule's text, and the path of its script."""
    for path in sorted((root / "rules").glob("*.smk")):
        match = re.search(
            rf"^(?:rule|checkpoint) {re.escape(rule)}:\n((?:[ \t]+.*\n|\n)*)",
            path.read_text("utf8"),
            re.M,
        )
        if match:
            script = re.search(r"^\s+script:\s*\"([^\"]+)\"", match[1], re.M)
            if script is None:
                raise LookupError(f"rule {rule} has no script")
            return match[0].rstrip(), (path.parent / script[1]).resolve()
    raise LookupError(f"no rule {rule} in {root / 'rules'}")


def _module_file(root: Path, module: str) -> Path | None:
    """The file of a dotted module name of the package, or None if the name is not a module."""
    base = root.joinpath(*module.split("."))
    for candidate in (base.with_suffix(".py"), base / "__init__.py"):
        if candidate.is_file():
            return candidate
    return None


@cache
def _imports(root: Path, file: Path, _stamp: tuple[int, int]) -> tuple[Path, ...]:
    """Project files that a file imports directly, the packages' own `__init__.py` on the way
    included.
    """
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf8"), str(file))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    found: set[Path] = set()
    for name in names:
        parts = name.split(".")
        if parts[0] == PACKAGE:
            found |= {
                f
                for i in range(1, len(parts) + 1)
                if (f := _module_file(root, ".".join(parts[:i])))
            }
    return tuple(sorted(found))


def _closure(root: Path, file: Path) -> set[Path]:
    seen, waiting = set(), [file]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            # A template beside a module, under its name, is part of it.
            seen |= {
                p
                for p in current.parent.glob(f"{current.stem}.*")
                if p.suffix in (".html", ".yaml", ".csv")
            }
            stat = current.stat()
            waiting.extend(_imports(root, current, (stat.st_mtime_ns, stat.st_size)))
    return seen
