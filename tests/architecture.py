"""The import graph of the project by package, and the floors of `docs/architecture.md`.

`python -m tests.architecture` prints both; `tests/unit/test_environments.py` asserts them.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIBRARY = ("metrics", "transforms", "losses")


@dataclass(frozen=True)
class Rule:
    """A rule on imports besides the floors; names are those of packages or modules under
    `isotropy`.

    Attributes:
        text: the rule in words.
        members: modules whose imports are restricted; parts of names may be `*`.
        allowed: modules that they may import, directly or indirectly.
    """

    text: str
    members: tuple[str, ...]
    allowed: tuple[str, ...]


RULES = (
    Rule("metrics import nothing of the project", ("metrics",), ("metrics",)),
    Rule("losses and transforms import metrics only", LIBRARY, LIBRARY),
    Rule(
        "figures know tables only",
        ("figures", "papers.*.figures", "claims.figures"),
        # to declare a figure: its spec
        ("figures", "palette", "spec", "scrub", "printable", "errors", "files", "tables.spec",
         "papers.declare", "papers.locations", "claims.scales"),
    ),
)  # fmt: skip


@cache
def floors() -> dict[str, int]:
    """Read the floor of each package or module from the table in `docs/architecture.md`."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf8")
    rows = re.findall(r"^\| (\d), [^|]* \| ([^|]*) \|$", text, re.M)
    assert len(rows) >= 8, "expected a table of floors in docs/architecture.md"
    return {name: int(number) for number, names in rows for name in re.findall(r"`(\w+)`", names)}


def floor(module: str) -> int | None:
    """Return the floor of a module; None: the table does not name it."""
    return floors().get(module.split(".")[0]) if module else 1


def upward_imports() -> list[str]:
    """List imports of modules on a higher floor, and modules that the table does not name."""
    unnamed = [f"{m}: no floor" for m in modules() if floor(m) is None]
    return unnamed + [
        f"{module} ({floor(module)}) imports {name} ({floor(name)})"
        for module in modules()
        for name in sorted(imports(module))
        if (floor(module) or 0) < (floor(name) or 0)
    ]


def within(module: str, names: tuple[str, ...]) -> bool:
    """Whether a module is one of these modules, or in one of these packages."""
    parts = module.split(".")
    return any(
        len(name.split(".")) <= len(parts)
        and all(n in ("*", part) for n, part in zip(name.split("."), parts, strict=False))
        for name in names
    )


@cache
def modules() -> dict[str, Path]:
    """Return the file of each module, by its name under `isotropy` (a package: `__init__.py`)."""
    files, root = {}, ROOT / "isotropy"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        files[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return files


@cache
def imports(module: str) -> frozenset[str]:
    """Return the project modules that a module imports, at its top or inside functions."""
    imported: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_text("utf8"))):
        if isinstance(node, ast.Import):
            imported |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: expected absolute imports"
            candidates = [f"{node.module}.{name.name}" for name in node.names]
            imported |= {
                name if _name_in_project(name) in modules() else str(node.module)
                for name in candidates
            }
    return frozenset(_name_in_project(n) for n in imported if n.split(".")[0] == "isotropy") - {
        module
    }


def _name_in_project(name: str) -> str:
    return name.removeprefix("isotropy").removeprefix(".")


def transitive_imports(module: str) -> dict[str, tuple[str, ...]]:
    """Return all direct and indirect imports of a module, each with the chain that leads to it."""
    chains: dict[str, tuple[str, ...]] = {}
    queue = [(module,)]
    for chain in queue:
        for name in sorted(imports(chain[-1]) - {module}):
            if name not in chains:
                chains[name] = (*chain, name)
                queue.append(chains[name])
    return chains


def violations(rule: Rule) -> list[str]:
    """List the import chains that break a rule."""
    return [
        " → ".join(chain)
        for module in modules()
        if within(module, rule.members)
        for name, chain in transitive_imports(module).items()
        if not within(name, rule.allowed)
    ]


def top_level_package(module: str) -> str:
    """Return the top-level package of a module; `base` for a module outside of packages."""
    first = module.split(".")[0]
    return first if (ROOT / "isotropy" / first).is_dir() and first else "base"


def main() -> None:
    """Print lines and imports of each package, and violations of floors and rules."""
    lines, arrows = Counter[str](), Counter[tuple[str, str]]()
    for module, path in modules().items():
        lines[top_level_package(module)] += len(path.read_text("utf8").splitlines())
        arrows.update(
            (top_level_package(module), top_level_package(name)) for name in imports(module)
        )
    for importer in sorted(lines):
        others = [
            (n, target)
            for (source, target), n in arrows.items()
            if source == importer and target != importer
        ]
        text = ", ".join(
            f"{target} {n}" for n, target in sorted(others, key=lambda o: (-o[0], o[1]))
        )
        print(f"{importer:12}{lines[importer]:6} lines → {text or 'nothing'}")
    print(f"{'together':12}{lines.total():6} lines\n")
    print(*(upward_imports() or ["no import goes up"]), sep="\n")
    for rule in RULES:
        broken = violations(rule)
        print(f"{'broken' if broken else 'kept  '}  {rule.text}", *broken, sep="\n            ")


if __name__ == "__main__":
    main()
