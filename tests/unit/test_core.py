"""The commands with the packages of the core alone: each works, or says which extra it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import packages_distributions, requires, version
from pathlib import Path

import numpy as np
import pytest
import yaml
from packaging.requirements import Requirement

import isotropy
from tests.conftest import PROJECT

RUN = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Hide())
from isotropy.cli import run
run()
"""


def core() -> set[str]:
    """Return the names of the distributions that `pip install isotropy` brings."""
    found: set[str] = set()
    todo = ["isotropy"]
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name in found:
            continue
        found.add(name)
        for requirement in map(Requirement, requires(name) or []):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(requirement.name)
    return found


@pytest.fixture(scope="module")
def hidden() -> str:
    """Modules of all other distributions."""
    inside = core()
    outside = [
        module
        for module, names in packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", name).lower() for name in names} & inside
    ]
    assert {"transformers", "yaml", "pandas", "snakemake", "pyarrow"} <= set(outside)
    assert not {"torch", "numpy", "tqdm", "typer", "sklearn"} & set(outside)
    return ",".join(outside)


def command(hidden: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, hidden, *arguments], cwd=folder, capture_output=True, text=True
    )


def test_arrays_are_measured(hidden: str, tmp_path: Path) -> None:
    X = np.random.default_rng(0).normal(size=(60, 5))
    np.save(tmp_path / "v.npy", X)
    np.save(tmp_path / "labels.npy", np.arange(60) % 2)
    np.savetxt(tmp_path / "v.txt", X)
    for name in ("v.npy", "v.txt"):
        result = command(hidden, tmp_path, "measure", name, "--transforms", "--json")
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["rows"][0]["d"] == 5


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        ("measure model --texts t.txt", "training"),
        ("plan", "workflow"),
        ("schema", "workflow"),
        ("sources list", "workflow"),
        ("sources add model", "workflow"),
        ("audit verify --all", "workflow"),
        ("draw rudman2024/figure4 -o f.pdf", "workflow"),
    ],
)
def test_other_commands_name_the_extra(
    arguments: str, extra: str, hidden: str, tmp_path: Path
) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model/tokenizer.json").write_text("{}")
    (tmp_path / "t.txt").write_text("a\nb\n")
    result = command(hidden, tmp_path, *arguments.split())
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert re.fullmatch(
        rf"this needs the package \w+, which is not installed: pip install 'isotropy\[{extra}\]'",
        line,
    )


def test_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((PROJECT / "CITATION.cff").read_text("utf8"))
    assert citation["version"] == isotropy.__version__ == version("isotropy")


@pytest.mark.parametrize(
    "arguments", ["--version", "--help", "measure --help", "measure --metrics list x"]
)
def test_help_needs_no_extra(arguments: str, hidden: str, tmp_path: Path) -> None:
    result = command(hidden, tmp_path, *arguments.split())
    assert result.returncode == 0, result.stderr
    if arguments == "--version":
        assert result.stdout == f"isotropy {isotropy.__version__}\n"
