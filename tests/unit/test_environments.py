"""Lock file, conda files and imports agree; rules on imports and layout of code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import get_args

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from replication.papers.locations import package
from replication.papers.registry import KEYS
from replication.plan.config import generated_files
from replication.plan.page_spec import Kind
from replication.provenance.code import Codebase
from replication.provenance.environment import PYPI_NAME, locked_versions, normalized_name
from replication.sources.formats import READERS, known_formats

# Import name -> conda package, where they differ.
CONDA_NAME = {"torch": "pytorch", "yaml": "pyyaml", "matplotlib": "matplotlib-base"}
CONDA_NAME |= {"seaborn": "seaborn-base", "msgpack": "msgpack-python"}
CONDA_NAME |= {"sklearn": "scikit-learn", "markdown_it": "markdown-it-py"}


def tracked(project: Path, *patterns: str) -> list[Path]:
    """List the files that git tracks or would add, without links to them."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *patterns]
    listed = subprocess.run(command, cwd=project, capture_output=True, text=True, check=True)
    result = [project / name for name in listed.stdout.splitlines()]
    assert result
    return [path for path in result if path.is_file() and not path.is_symlink()]


def conda_file(path: Path) -> dict[str, str]:
    """Read the range of versions of each package."""
    texts = yaml.safe_load(path.read_text())["dependencies"]
    split = (re.split("(?=[<>=])", text, maxsplit=1) for text in texts)
    return {name: "".join(text) for name, *text in split if name not in ("python", "pip")}


def rules(project: Path) -> list[tuple[str, str]]:
    """List each rule with its conda file; rules defined in a loop count once per paper."""
    rule_environments = []
    for path in (project / "rules").glob("*.smk"):
        for match in re.finditer(r"^ *rule ?(\w*):\n((?:[ \t]+.*\n|\n)*)", path.read_text(), re.M):
            if env := re.search(r"envs/(\w+\.yaml)", match[2]):
                loop = re.search(r'name:\s+f"(\w+){paper}"', match[2])
                names = [f"{loop[1]}{key}" for key in KEYS] if loop else [match[1]]
                rule_environments += [(name, env[1]) for name in names]
    return rule_environments


def loaded_by_name(project: Path, rule: str) -> list[str]:
    """List all modules that a rule's script may load by name, for any wildcards, from the rule's
    parameter `code`.
    """
    if match := re.fullmatch(r"make_(tables)_(\w+)|draw_(figures)_(\w+)", rule):
        return [f"{package(match[2] or match[4])}.{match[1] or match[3]}"]
    if rule == "write_pages":
        figures = [f"{package(key)}.figures" for key in KEYS]
        return [*(f"replication.report.{kind}" for kind in get_args(Kind)), *figures]
    text = "".join(path.read_text("utf8") for path in (project / "rules").glob("*.smk"))
    code = re.search(rf'code=code\(\s*"{rule}"(.*?)\),$', text, re.M | re.S)
    assert code, rule
    if not code[1]:
        return []
    if "kept" in code[1]:
        return ["replication.finetune.kept_model"]
    return [f"{READERS}:{name}" for name in known_formats()]


codebase = cache(Codebase)


def imported_files(project: Path, rule: str) -> list[str]:
    """List the project files that a rule's script may import, including infrastructure."""
    identity = codebase(project).code(rule, *loaded_by_name(project, rule))
    return sorted({*identity.sha256, *identity.infrastructure})


def test_conda_files_have_ranges_with_the_locked_versions(project: Path) -> None:
    """Both bounds: the next major version of a library may break the workflow."""
    lock = locked_versions(project)
    for path in (project / "envs").glob("*.yaml"):
        for name, versions in conda_file(path).items():
            version = lock[normalized_name(PYPI_NAME.get(name, name))]
            assert SpecifierSet(versions).contains(version), f"{path.name}: {name}"
            assert re.fullmatch(r">=[\d.]+,<[\d.]+", versions), f"{path.name}: {name}"


def test_conda_files_contain_the_imports_of_scripts(project: Path) -> None:
    """Imports are read from the source: in tests, unlike in a conda environment, Snakemake's own
    packages can be imported as well."""
    assert len(rules(project)) >= 10
    for rule, env in rules(project):
        imported = set()
        for file in (f for f in imported_files(project, rule) if f.endswith(".py")):
            for node in ast.walk(ast.parse((project / file).read_text("utf8"))):
                if isinstance(node, ast.Import):
                    imported |= {a.name.split(".")[0] for a in node.names}
                elif isinstance(node, ast.ImportFrom) and node.module:
                    imported.add(node.module.split(".")[0])
        imported -= {"isotropy", "replication"}
        needed = {CONDA_NAME.get(n, n) for n in imported - set(sys.stdlib_module_names)}
        missing = needed - set(conda_file(project / "envs" / env))
        assert not missing, f"rule {rule}: {env} lacks {missing}"


@pytest.mark.parametrize(("path", "text"), generated_files().items())
def test_files_made_from_the_models_are_current(project: Path, path: str, text: str) -> None:
    """If this fails: `isotropy schema --write`."""
    assert (project / path).read_text("utf8") == text


def test_stages_do_not_mention_papers(project: Path) -> None:
    """Code for a paper is in the paper's folder only."""
    mentions = [
        f"{path.relative_to(project)}: {key}"
        for path in tracked(project, "isotropy", "rules", "scripts", "envs", "Snakefile")
        if project / "replication/papers" not in path.parents
        for key in KEYS
        if key in path.read_text("utf8")
    ]
    assert mentions == []


def test_metrics_package_loads_modules_lazily() -> None:
    """IsoScore does not load numba, scikit-learn or transformers; every name of `isotropy.metrics`
    can be imported."""
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


def test_rules_have_all_parts(project: Path) -> None:
    """Without its spec or code a job would not rerun; only common.smk defines functions."""
    for path in (project / "rules").glob("*.smk"):
        text = path.read_text()
        if path.name != "common.smk":
            assert not re.search(r"\b(def|lambda)\b|config\[", text), path
        for match in re.finditer(r"^ *rule ?(\w*):\n((?:[ \t]+.*\n|\n)*)", text, re.M):
            parts = ("log:", "conda:", "threads:", "resources:", "spec=", "code=", "record=")
            for part in parts if path.name != "audit.smk" else ():  # which makes no results
                assert part in match[2], f"{match[1]} lacks {part}"
