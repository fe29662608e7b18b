"""The import graph of the project by room, and the floors that it keeps.

A room is a package under `isotropy/`; single modules are the room `base`. Print both by
`python -m tests.architecture`; `tests/unit/test_environments.py` asserts the floors.
"""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTRUMENTS = ("metrics", "transforms", "losses")
GROUND = ("spec", "files", "errors", "names", "scrub", "printable", "palette")
STAGES = ("sources", "prepare", "embed", "optimize", "finetune", "geometry", "similarity")
ARTEFACTS = ("tables", "figures")


@dataclass(frozen=True)
class Floor:
    """A rule on imports; names are those of rooms or modules under `isotropy`.

    Attributes:
        text: what it says.
        members: whose imports it is about; parts of names may be `*`.
        allowed: all that they may import, by themselves or by what they import; None: anything.
        forbidden: what they may not.
    """

    text: str
    members: tuple[str, ...]
    allowed: tuple[str, ...] | None = None
    forbidden: tuple[str, ...] = ()


FLOORS = (
    Floor("metrics import nothing of the project", ("metrics",), ("metrics",)),
    Floor("losses and transforms import metrics only", INSTRUMENTS, INSTRUMENTS),
    Floor("the ground imports nothing above it", GROUND, (*INSTRUMENTS, *GROUND)),
    Floor(
        "stages know no paper, and nothing of what is made of one",
        (*STAGES, *ARTEFACTS),
        forbidden=("papers", "claims", "report", "plan", "config", "cli", "audit_cli"),
    ),
    Floor(
        "papers do not know the plan of a study, nor what judges it",
        ("papers",),
        forbidden=("claims", "report", "plan", "config", "cli", "audit_cli"),
    ),
    Floor(
        "claims do not know the plan of a study, nor its report",
        ("claims",),
        forbidden=("report", "plan", "config", "cli", "audit_cli"),
    ),
    Floor(
        "figures know tables only",
        ("figures", "papers.*.figures", "claims.figures"),
        ("figures", "palette", "spec", "scrub"),  # the last by `spec`
    ),
    Floor(
        "measuring knows no paper and no study",
        ("measure",),
        forbidden=("papers", "claims", "report", "plan", "config", "cli", "audit_cli", "tables"),
    ),
)


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


def violations(floor: Floor) -> list[str]:
    """Chains of imports that break a floor."""
    return [
        " → ".join(way)
        for module in modules()
        if within(module, floor.members)
        for name, way in reached(module).items()
        if within(name, floor.forbidden)
        or (floor.allowed is not None and not within(name, floor.allowed))
    ]


def room(module: str) -> str:
    """Room of a module."""
    first = module.split(".")[0]
    return first if (ROOT / "isotropy" / first).is_dir() and first else "base"


def main() -> None:
    """Print lines and arrows of each room, and the floors."""
    lines, arrows = Counter[str](), Counter[tuple[str, str]]()
    for module, path in modules().items():
        lines[room(module)] += len(path.read_text("utf8").splitlines())
        arrows.update((room(module), room(name)) for name in imports(module))
    for here in sorted(lines):
        others = [(n, to) for (of, to), n in arrows.items() if of == here and to != here]
        text = ", ".join(f"{to} {n}" for n, to in sorted(others, key=lambda o: (-o[0], o[1])))
        print(f"{here:12}{lines[here]:6} lines → {text or 'nothing'}")
    print(f"{'together':12}{lines.total():6} lines\n")
    for floor in FLOORS:
        found = violations(floor)
        print(f"{'broken' if found else 'kept  '}  {floor.text}", *found, sep="\n            ")


if __name__ == "__main__":
    main()
