"""The lock, the conda files of the stages and what the code imports agree; and the tree is clean by
its own linters."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from isotropy import metrics
from isotropy.config import schema
from isotropy.papers.names import CLAIMS, package
from isotropy.papers.registry import KEYS
from isotropy.provenance.code import code_identity
from isotropy.provenance.environment import PYPI_NAME, normalized_name
from isotropy.sources import formats
from isotropy.sources.formats import READERS
from isotropy.tables.runs import FACTS

# Where the name that is imported, the conda package and the PyPI package differ.
CONDA_NAME = {
    "torch": "pytorch",
    "yaml": "pyyaml",
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
}
CONDA_NAME |= {"msgpack": "msgpack-python", "faiss": "faiss-cpu", "sklearn": "scikit-learn"}


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


def rules(project: Path) -> list[tuple[str, str, str]]:
    """Every rule with a script: its name, its conda file and its text."""
    found = []
    for path in (project / "rules").glob("*.smk"):
        for match in re.finditer(r"^rule (\w+):\n((?:[ \t]+.*\n|\n)*)", path.read_text(), re.M):
            if env := re.search(r"envs/(\w+\.yaml)", match[2]):
                found.append((match[1], env[1], match[2]))
    return found


def loaded_by_name(text: str) -> list[str]:
    """Modules that jobs of a rule may load by name, for any paper and source, from its text."""
    found = []
    if function := re.search(r'protocol\("(\w+)"\)', text):
        modules = [f"isotropy.papers.{key}.protocol" for key in KEYS]
        found += [m for m in modules if hasattr(import_module(m), function[1])]
    if "table_function" in text:
        found += [f"{package(key)}.tables" for key in KEYS]
        found += sorted({entry.partition(":")[0] for entry in FACTS.values()})
    if "figure_function" in text:
        found += [f"{package(key)}.figures" for key in (CLAIMS, *KEYS)]
    if re.search(r"code=code\([^)]*readers", text):
        found += [f"{READERS}.{name.replace('-', '_')}" for name in formats.known()]
    return found


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
    for rule, env, text in rules(project):
        imported = set()
        found = code_identity(project, rule, loaded_by_name(text))
        files = [*found.sha256, *found.machinery]
        for file in (f for f in files if f.endswith(".py")):
            for node in ast.walk(ast.parse((project / file).read_text("utf8"))):
                if isinstance(node, ast.Import):
                    imported |= {a.name.split(".")[0] for a in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add(node.module.split(".")[0])
        needed = {
            CONDA_NAME.get(n, n) for n in imported - set(sys.stdlib_module_names) - {"isotropy"}
        }
        missing = needed - set(conda_file(project / "envs" / env))
        assert not missing, f"rule {rule}: {env} lacks {missing}"


def test_schema_has_not_drifted(project: Path) -> None:
    """If this fails: `isotropy schema --write`."""
    assert (project / "schemas/config.schema.json").read_text("utf8") == schema()


def test_floors(project: Path) -> None:
    """Imports go down only: metrics import nothing of the project but themselves; nothing under
    isotropy/ knows Snakemake.

    Nor does the project import from the package `isotropy.metrics` itself, which loads by name: a
    job's code identity would miss what it loads.
    """
    for path in (project / "isotropy").rglob("*.py"):
        text = path.read_text("utf8")
        assert not re.search(r"^\s*(import|from) snakemake", text, re.M), path
        if path.parent.name == "metrics":
            assert set(re.findall(r"from isotropy\.(\w+)", text)) <= {"metrics"}, path
        if path.name in ("losses.py", "transforms.py"):
            assert set(re.findall(r"from isotropy\.(\w+)", text)) <= {"metrics"}, path
        if path != project / "isotropy/metrics/__init__.py":
            assert not re.search(
                r"from isotropy\.metrics import|import isotropy\.metrics\b", text
            ), path
        if path.parent.name == "figures":
            assert set(re.findall(r"from isotropy\.(\w+)", text)) <= {"figures", "spec"}, path


def test_the_library_loads_what_is_used() -> None:
    """IsoScore alone loads no neighbour search and no compiler; every name of `isotropy.metrics`
    can be had."""
    program = (
        "import sys; from isotropy.metrics import isoscore; "
        "assert not {'faiss', 'numba', 'sklearn', 'transformers'} & set(sys.modules); "
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
        for match in re.finditer(r"^rule (\w+):\n((?:[ \t]+.*\n|\n)*)", text, re.M):
            assert len(match[2].rstrip().splitlines()) <= 25, match[1]
            if path.name == "audit.smk":  # makes no results
                continue
            for part in (
                '"""',
                "log:",
                "benchmark:",
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
