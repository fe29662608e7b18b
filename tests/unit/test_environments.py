"""Lock file, conda files and imports agree; rules on imports, length and layout of code."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import get_args

import pytest
import yaml
from packaging.specifiers import SpecifierSet

from isotropy.papers.locations import package
from isotropy.papers.registry import KEYS
from isotropy.provenance.code import code_identity
from isotropy.provenance.environment import PYPI_NAME, locked_versions, normalized_name
from isotropy.sources.formats import READERS, known_formats
from isotropy.workflow.config import generated_files
from isotropy.workflow.page_spec import Kind
from tests import architecture
from tests.architecture import RULES, Rule, imports, modules, upward_imports, violations, within
from tests.make_lock import CUDA, resolve

# Import name -> conda package, where they differ.
CONDA_NAME = {
    "torch": "pytorch",
    "yaml": "pyyaml",
    "matplotlib": "matplotlib-base",
    "seaborn": "seaborn-base",
}
CONDA_NAME |= {"msgpack": "msgpack-python", "sklearn": "scikit-learn"}
CONDA_NAME |= {"markdown_it": "markdown-it-py"}

IMPORTED_BY_FILE_NAME = ["syntax"]
"""The bundle verifier imports it as a file beside it, without an installed project."""


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
    ranges = {re.split("[<>=]", text)[0]: text for text in texts}
    return {
        name: text.removeprefix(name)
        for name, text in ranges.items()
        if name not in ("python", "pip")
    }


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
        return [*(f"isotropy.report.{kind}" for kind in get_args(Kind)), *figures]
    named = {
        "readers": [f"{READERS}.{name.replace('-', '_')}" for name in known_formats()],
        "protocol": [f"isotropy.papers.{key}.protocol" for key in KEYS],
        "model_writer": ["isotropy.finetune.kept_model"],
    }
    text = "".join(path.read_text("utf8") for path in (project / "rules").glob("*.smk"))
    rule = re.sub(r"^finetune_seeds_\w+", "finetune_model", rule)  # its script and code
    code = re.search(rf'code=code\("{rule}"(.*)\),$', text, re.M)
    assert code, rule
    return list(chain.from_iterable(named[n] for n in filter(None, code[1].split(", "))))


def imported_files(project: Path, rule: str) -> list[str]:
    """List the project files that a rule's script may import, including infrastructure.

    Protocols of papers are left out.
    """
    modules = [m for m in loaded_by_name(project, rule) if not m.endswith(".protocol")]
    identity = code_identity(project, rule, modules)
    return sorted({*identity.sha256, *identity.infrastructure})


def test_conda_files_have_ranges_with_the_locked_versions(project: Path) -> None:
    """Each range has both bounds: the next major version of a library may break the workflow."""
    lock = locked_versions(project)
    for path in (project / "envs").glob("*.yaml"):
        for name, versions in conda_file(path).items():
            version = lock[normalized_name(PYPI_NAME.get(name, name))]
            assert SpecifierSet(versions).contains(version), f"{path.name}: {name}"
            assert re.fullmatch(r">=[\d.]+,<[\d.]+", versions), f"{path.name}: {name}"


def test_lock_files_have_a_hash_for_every_requirement_and_no_host(project: Path) -> None:
    """Also those of torch's build for CPUs, which has the same version."""
    for path in project.glob("requirements*.lock"):
        text = path.read_text("utf8")
        for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.M)[1:]:
            assert re.fullmatch(
                r"[a-z0-9-]+==[^\s;]+(?: ; [^\n\\]+)? \\\n"
                r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+",
                entry,
            ), f"{path.name}: {entry[:80]}"
        assert not re.search(r"://|file:|@|index|/(?:opt|home|tmp)", text), path.name


def test_lock_files_are_what_the_project_asks_for(project: Path) -> None:
    """uv, which keeps versions that fit, resolves pyproject.toml to the versions that they have."""
    locks = {path.stem: path.read_text("utf8") for path in project.glob("requirements*.lock")}
    try:
        workflow = set(resolve("".join(locks.values()), ["workflow"], []))
        everything = set(resolve("".join(locks.values()), ["workflow", "dev"], []))
    except subprocess.CalledProcessError as error:
        if b"rror sending request" in error.stderr or b"dns error" in error.stderr:
            pytest.skip("PyPI cannot be reached")
        raise
    pins = {name: set(re.findall(r"^(\S+==\S+) ", text, re.M)) for name, text in locks.items()}
    cuda = pins["requirements-cuda"]
    assert cuda
    assert all(CUDA.match(pin) for pin in cuda)
    assert pins["requirements"] | cuda == workflow
    assert pins["requirements-dev"] == everything - workflow


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
        imported -= {"isotropy", *IMPORTED_BY_FILE_NAME}
        needed = {CONDA_NAME.get(n, n) for n in imported - set(sys.stdlib_module_names)}
        missing = needed - set(conda_file(project / "envs" / env))
        assert not missing, f"rule {rule}: {env} lacks {missing}"


@pytest.mark.parametrize(("path", "text"), generated_files().items())
def test_files_made_from_the_models_are_current(project: Path, path: str, text: str) -> None:
    """If this fails: `isotropy schema --write`."""
    assert (project / path).read_text("utf8") == text


def test_no_import_goes_up_a_floor() -> None:
    """By the table of floors in `docs/architecture.md`; `python -m tests.architecture` prints the
    graph.
    """
    assert upward_imports() == []


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.text)
def test_import_rules_are_kept(rule: Rule) -> None:
    assert any(within(module, rule.members) for module in modules()), "no such module"
    assert violations(rule) == []


def test_violations_of_import_rules_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Direct and indirect imports, and modules without a floor."""
    broken = violations(Rule("", ("figures.spec",), ("figures",)))
    assert broken[:2] == ["figures.spec → spec", "figures.spec → spec → errors"]
    assert imports("figures.spec") == {"spec"}
    assert not within("plans", ("plan",))
    assert within("papers.cai2021.figures", ("papers.*.figures",))
    below = {**architecture.floors(), "papers": 1}
    del below["threads"]
    monkeypatch.setattr(architecture, "floors", lambda: below)
    assert "threads: no floor" in upward_imports()
    assert "papers.declare (1) imports figures.spec (4)" in upward_imports()


def test_no_module_imports_snakemake_or_the_lazy_metrics_package(project: Path) -> None:
    """The package `isotropy.metrics` loads its modules lazily by name, which a job's code identity
    would miss; so code imports from the modules.
    """
    for path in modules().values():
        text = path.read_text("utf8")
        assert not re.search(r"^\s*(import|from) snakemake", text, re.M), path
        if path != project / "isotropy/metrics/__init__.py":
            package_import = r"^\s*(from isotropy\.metrics import|import isotropy\.metrics\b)"
            assert not re.search(package_import, text, re.M), path


def test_stages_do_not_mention_papers(project: Path) -> None:
    """Code for a paper is in the paper's folder only."""
    mentions = [
        f"{path.relative_to(project)}: {key}"
        for path in tracked(project, "isotropy", "rules", "scripts", "envs", "Snakefile")
        if project / "isotropy/papers" not in path.parents
        for key in KEYS
        if key in path.read_text("utf8")
    ]
    assert mentions == []


def test_functions_and_lines_are_short(project: Path) -> None:
    """Functions of at most 50 lines with docstring, lines of at most 100 characters."""
    problems = []
    for path in tracked(project, "*.py", "*.pyi", "*.smk", "Snakefile"):
        name, text = path.relative_to(project), path.read_text("utf8")
        for number, line in enumerate(text.splitlines(), start=1):
            if len(line) > 100:
                problems.append(f"{name}:{number}: {len(line)} characters")
        if path.suffix in (".py", ".pyi"):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    assert node.end_lineno is not None
                    if (length := node.end_lineno - node.lineno + 1) > 50:
                        problems.append(f"{name}:{node.lineno}: {node.name} has {length} lines")
    assert problems == []


def test_no_expression_statement_is_a_string(project: Path) -> None:
    """The second part of a string that is split without brackets would be a statement without
    effect. Docstrings are allowed.
    """
    for path in tracked(project, "*.py"):
        text = path.read_text("utf8")
        lines = text.splitlines()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.JoinedStr | ast.Constant):
                start = lines[node.lineno - 1][node.col_offset :]
                documents = start.startswith(('"""', 'r"""', "..."))
                assert documents, f"{path.relative_to(project)}:{node.lineno}"


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


@pytest.mark.parametrize("name", ["isotropy", "isotropy.metrics"])
def test_type_stubs_match_the_packages(name: str, project: Path) -> None:
    """`__init__.pyi` names each function and the module it is in, as `__init__.py` does."""
    stub = ast.parse((project / name.replace(".", "/") / "__init__.pyi").read_text("utf8"))
    named = {
        a.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom)
        for a in node.names
    }
    prefix = "" if name == "isotropy" else f"{name}."
    modules = import_module(name)._MODULE_OF
    assert named == {public: f"{prefix}{module}" for public, module in modules.items()}


def test_rules_are_short_and_complete(project: Path) -> None:
    """Rules have at most 25 lines and all parts; only common.smk defines functions."""
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


def test_links_in_documentation_are_valid(project: Path) -> None:
    """They lead to an existing file, and to a heading in it."""
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
    """Return the anchor of a heading: letters, digits and -, in lower case."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
