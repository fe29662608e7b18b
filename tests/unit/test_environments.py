"""The lock, the conda files of the stages and what the code imports agree; and the tree is clean by
its own linters."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest
import yaml

from isotropy import metrics
from isotropy.papers.locations import package
from isotropy.papers.registry import KEYS
from isotropy.provenance.code import code_identity
from isotropy.provenance.environment import PYPI_NAME, normalized_name
from isotropy.sources.formats import READERS, known_formats
from isotropy.workflow.config import schema
from isotropy.workflow.page_spec import Kind
from tests import architecture
from tests.architecture import RULES, Rule, imports, modules, upward, violations, within

# Where the name that is imported, the conda package and the PyPI package differ.
CONDA_NAME = {
    "torch": "pytorch",
    "yaml": "pyyaml",
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
}
CONDA_NAME |= {"msgpack": "msgpack-python", "sklearn": "scikit-learn"}
CONDA_NAME |= {"markdown_it": "markdown-it-py"}

ALONE = ["syntax"]
"""A module that the bundle's checker has beside it, where the project is not installed."""


def tracked(project: Path, *patterns: str) -> list[Path]:
    """Files that git knows, or would if they were added."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    found = [project / name for name in listed.stdout.splitlines()]
    assert found
    return [path for path in found if path.is_file()]


def locked(project: Path) -> dict[str, str]:
    lines = (project / "requirements.lock").read_text().splitlines()
    return {
        normalized_name(line.split("==")[0]): line.split("==")[1]
        for line in lines
        if "==" in line and line[0] != "#"
    }


def conda_file(path: Path) -> dict[str, str]:
    pins = [d.partition("=") for d in yaml.safe_load(path.read_text())["dependencies"]]
    return {name: version for name, _, version in pins if name not in ("python", "pip")}


def rules(project: Path) -> list[tuple[str, str]]:
    """Every rule with a script, and its conda file; of rules of a loop one for each paper."""
    found = []
    for path in (project / "rules").glob("*.smk"):
        for match in re.finditer(r"^ *rule ?(\w*):\n((?:[ \t]+.*\n|\n)*)", path.read_text(), re.M):
            if env := re.search(r"envs/(\w+\.yaml)", match[2]):
                loop = re.search(r'name:\s+f"(\w+){paper}"', match[2])
                names = [f"{loop[1]}{key}" for key in KEYS] if loop else [match[1]]
                found += [(name, env[1]) for name in names]
    return found


def loaded_by_name(project: Path, rule: str) -> list[str]:
    """All modules that a rule's script loads by name, whatever the wildcards are, as the rule's
    parameter `code` says.
    """
    if match := re.fullmatch(r"make_(tables)_(\w+)|draw_(figures)_(\w+)", rule):
        return [f"{package(match[2] or match[4])}.{match[1] or match[3]}"]
    if rule == "write_pages":
        return [f"isotropy.report.{kind}" for kind in get_args(Kind)]
    named = {
        "readers": [f"{READERS}.{name.replace('-', '_')}" for name in known_formats()],
        "protocol": [f"isotropy.papers.{key}.protocol" for key in KEYS],
    }
    text = "".join(path.read_text("utf8") for path in (project / "rules").glob("*.smk"))
    code = re.search(rf'code=code\("{rule}"(.*)\),$', text, re.M)
    assert code, rule
    return list(chain.from_iterable(named[n] for n in filter(None, code[1].split(", "))))


def files_behind(project: Path, rule: str) -> list[str]:
    """Files of the project that a rule's script may import, infrastructure too.

    A script that loads the protocol of one paper loads no other's.
    """
    modules = [m for m in loaded_by_name(project, rule) if not m.endswith(".protocol")]
    found = code_identity(project, rule, modules)
    return sorted({*found.sha256, *found.infrastructure})


def test_conda_files_have_the_locked_versions(project: Path) -> None:
    lock = locked(project)
    for path in (project / "envs").glob("*.yaml"):
        for name, version in conda_file(path).items():
            assert lock[normalized_name(PYPI_NAME.get(name, name))] == version, (
                f"{path.name}: {name}"
            )


def test_conda_files_have_what_the_scripts_import(project: Path) -> None:
    """Scripts get Snakemake's own packages for free in a test, not in a conda environment: so read
    the imports."""
    assert len(rules(project)) >= 10
    for rule, env in rules(project):
        imported = set()
        for file in (f for f in files_behind(project, rule) if f.endswith(".py")):
            for node in ast.walk(ast.parse((project / file).read_text("utf8"))):
                if isinstance(node, ast.Import):
                    imported |= {a.name.split(".")[0] for a in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add(node.module.split(".")[0])
        imported -= {"isotropy", *ALONE}
        needed = {CONDA_NAME.get(n, n) for n in imported - set(sys.stdlib_module_names)}
        missing = needed - set(conda_file(project / "envs" / env))
        assert not missing, f"rule {rule}: {env} lacks {missing}"


def test_schema_has_not_drifted(project: Path) -> None:
    """If this fails: `isotropy schema --write`."""
    assert (project / "schemas/config.schema.json").read_text("utf8") == schema()


def test_imports_go_down() -> None:
    """By the table of floors in `docs/architecture.md`; `python -m tests.architecture` prints the
    graph.
    """
    assert upward() == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_rules_on_imports(rule: Rule) -> None:
    assert any(within(module, rule.members) for module in modules()), "no such module"
    assert violations(rule) == []


def test_broken_rules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what a module imports, and by what that imports; a module without a floor, too."""
    broken = violations(Rule("", ("figures.spec",), ("figures",)))
    assert broken[:2] == ["figures.spec → spec", "figures.spec → spec → errors"]
    assert imports("figures.spec") == {"spec"}
    assert not within("plans", ("plan",))
    assert within("papers.cai2021.figures", ("papers.*.figures",))
    below = {**architecture.floors(), "papers": 1}
    del below["threads"]
    monkeypatch.setattr(architecture, "floors", lambda: below)
    assert "threads: no floor" in upward()
    assert "papers.declare (1) imports figures.spec (4)" in upward()


def test_who_may_import_what_else(project: Path) -> None:
    """Nothing under isotropy/ knows Snakemake; nothing imports from the package `isotropy.metrics`
    itself, which loads by name: a job's code identity would miss what it loads.
    """
    for path in modules().values():
        text = path.read_text("utf8")
        assert not re.search(r"^\s*(import|from) snakemake", text, re.M), path
        if path != project / "isotropy/metrics/__init__.py":
            whole = r"from isotropy\.metrics import|import isotropy\.metrics\b"
            assert not re.search(whole, text), path


def test_stages_know_no_paper(project: Path) -> None:
    """What is a paper's stands in its own folder."""
    found = [
        f"{path.relative_to(project)}: {key}"
        for path in tracked(project, "isotropy", "rules", "scripts", "envs", "Snakefile")
        if project / "isotropy/papers" not in path.parents
        for key in KEYS
        if key in path.read_text("utf8")
    ]
    assert found == []


def test_functions_are_short(project: Path) -> None:
    """At most 50 lines from `def` to the last, with the docstring; lines of 100 characters."""
    found = []
    for path in tracked(project, "*.py", "*.pyi", "*.smk", "Snakefile"):
        name, text = path.relative_to(project), path.read_text("utf8")
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > 100:
                found.append(f"{name}:{number}: {len(line)} characters")
        if path.suffix in (".py", ".pyi"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    if (length := node.end_lineno - node.lineno + 1) > 50:
                        found.append(f"{name}:{node.lineno}: {node.name} has {length} lines")
    assert found == []


def test_no_string_stands_apart(project: Path) -> None:
    """A text that was cut in two without brackets would lose its end: Python takes it for a
    statement of its own.
    """
    for path in tracked(project, "*.py"):
        text = path.read_text("utf8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr | ast.Constant):
                start = lines[node.lineno - 1][node.col_offset :]
                documents = start.startswith(('"""', 'r"""', "..."))
                assert documents, f"{path.relative_to(project)}:{node.lineno}"


def test_the_library_loads_what_is_used() -> None:
    """IsoScore alone loads no neighbour search and no compiler; every name of `isotropy.metrics`
    can be had."""
    program = (
        "import sys; from isotropy.metrics import isoscore; "
        "assert not {'numba', 'sklearn', 'transformers'} & set(sys.modules); "
        "import isotropy.metrics as m; assert all(callable(getattr(m, n)) for n in m._MODULE_OF); "
        "assert set(m._MODULE_OF) <= set(dir(m)); "
        "from isotropy.metrics import nothing"
    )
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert result.returncode == 1
    assert "cannot import name 'nothing' from 'isotropy.metrics'" in result.stderr


def test_what_the_package_offers_is_what_its_types_say(project: Path) -> None:
    """`isotropy/metrics/__init__.pyi` names each function and the module it is in, as `__init__.py`
    does."""
    stub = ast.parse((project / "isotropy/metrics/__init__.pyi").read_text("utf8"))
    named = {
        a.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
    }
    assert named == {
        name: f"isotropy.metrics.{module}" for name, module in metrics._MODULE_OF.items()
    }


def test_rules_are_short_and_complete(project: Path) -> None:
    """At most 25 lines with all their parts; no functions in rule files other than common.smk."""
    for path in (project / "rules").glob("*.smk"):
        text = path.read_text()
        if path.name != "common.smk":
            assert not re.search(r"\b(def|lambda)\b|config\[", text), path
        for match in re.finditer(r"^ *rule ?(\w*):\n((?:[ \t]+.*\n|\n)*)", text, re.M):
            assert len(match[2].rstrip().splitlines()) <= 25, match[1]
            if path.name == "audit.smk":  # makes no results
                continue
            for part in (
                '"""',
                "log:",
                "conda:",
                "threads:",
                "resources:",
                "spec=",
                "code=",
                "record=",
            ):
                assert part in match[2], f"{match[1]} lacks {part}"
    assert len((project / "Snakefile").read_text().splitlines()) < 60
    for path in (project / "scripts").rglob("*.py"):
        assert len(path.read_text().splitlines()) < 60, path


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy"],
        ["snakefmt", "--check", "Snakefile", "rules"],
        ["snakemake", "--lint"],
    ],
    ids=" ".join,
)
def test_linters(project: Path, command: list[str]) -> None:
    result = subprocess.run(
        [sys.executable, "-m", *command], cwd=project, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_links_of_pages_lead_somewhere(project: Path) -> None:
    """To a file of the project, and to a heading in it."""
    for page in tracked(project, "*.md"):
        text = re.sub(r"```.*?```", "", page.read_text("utf8"), flags=re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            if "://" in link:
                continue
            target = page.parent / path if path else page
            assert target.exists(), f"{page.name}: {link}"
            if anchor:
                headings = re.findall(r"(?m)^#+ (.*)$", target.read_text("utf8"))
                assert anchor in {_anchor(h) for h in headings}, f"{page.name}: {link}"


def _anchor(heading: str) -> str:
    """What a heading is linked by: letters, digits and -, in lower case."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
