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
        text: what it says.
        members: modules whose imports it is about; parts of names may be `*`.
        allowed: all that they may import, directly or not.
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
         "papers.declare", "papers.locations"),
    ),
)  # fmt: skip


@cache
def floors() -> dict[str, int]:
    """Floor of each package or module that the table in `docs/architecture.md` names."""
    text = (ROOT / "docs" / "architecture.md").read_text("utf8")
    rows = re.findall(r"^\| (\d), [^|]* \| ([^|]*) \|$", text, re.M)
    assert len(rows) >= 8, "the table of floors is not where it was"
    return {name: int(number) for number, names in rows for name in re.findall(r"`(\w+)`", names)}


def floor(module: str) -> int | None:
    """Floor of a module; None: the table does not name it."""
    return floors().get(module.split(".")[0]) if module else 1


def upward() -> list[str]:
    """Imports from above, and modules that the table does not name."""
    unnamed = [f"{m}: no floor" for m in modules() if floor(m) is None]
    return unnamed + [
        f"{module} ({floor(module)}) imports {name} ({floor(name)})"
        for module in modules()
        for name in sorted(imports(module))
        if (floor(module) or 0) < (floor(name) or 0)
    ]


def within(module: str, names: tuple[str, ...]) -> bool:
    """Whether a module is one of these, or in one of these rooms."""
    parts = module.split(".")
    return any(
        len(name.split(".")) <= len(parts)
        and all(n in ("*", part) for n, part in zip(name.split("."), parts, strict=False))
        for name in names
    )


@cache
def modules() -> dict[str, Path]:
    """File of each module, by its name under `isotropy`; a package's is that of its `__init__`."""
    found, root = {}, ROOT / "isotropy"
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def imports(module: str) -> frozenset[str]:
    """Modules of the project that a module imports, wherever in its text."""
    asked: set[str] = set()
    for node in ast.walk(ast.parse(modules()[module].read_text("utf8"))):
        if isinstance(node, ast.Import):
            asked |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: expected absolute imports"
            named = [f"{node.module}.{name.name}" for name in node.names]
            asked |= {name if _own(name) in modules() else str(node.module) for name in named}
    return frozenset(_own(n) for n in asked if n.split(".")[0] == "isotropy") - {module}


def _own(name: str) -> str:
    return name.removeprefix("isotropy").removeprefix(".")


def reached(module: str) -> dict[str, tuple[str, ...]]:
    """What a module imports by itself or by what it imports, each with the way to it."""
    ways: dict[str, tuple[str, ...]] = {}
    ahead = [(module,)]
    for way in ahead:
        for name in sorted(imports(way[-1]) - {module}):
            if name not in ways:
                ways[name] = (*way, name)
                ahead.append(ways[name])
    return ways


def violations(rule: Rule) -> list[str]:
    """Chains of imports that break a rule."""
    return [
        " → ".join(way)
        for module in modules()
        if within(module, rule.members)
        for name, way in reached(module).items()
        if not within(name, rule.allowed)
    ]


def room(module: str) -> str:
    """Room of a module."""
    first = module.split(".")[0]
    return first if (ROOT / "isotropy" / first).is_dir() and first else "base"


def main() -> None:
    """Print lines and arrows of each room, and whether the floors are kept."""
    lines, arrows = Counter[str](), Counter[tuple[str, str]]()
    for module, path in modules().items():
        lines[room(module)] += len(path.read_text("utf8").splitlines())
        arrows.update((room(module), room(name)) for name in imports(module))
    for here in sorted(lines):
        others = [(n, to) for (of, to), n in arrows.items() if of == here and to != here]
        text = ", ".join(f"{to} {n}" for n, to in sorted(others, key=lambda o: (-o[0], o[1])))
        print(f"{here:12}{lines[here]:6} lines → {text or 'nothing'}")
    print(f"{'together':12}{lines.total():6} lines\n")
    print(*(upward() or ["no import goes up"]), sep="\n")
    for rule in RULES:
        broken = violations(rule)
        print(f"{'broken' if broken else 'kept  '}  {rule.text}", *broken, sep="\n            ")


if __name__ == "__main__":
    main()
