"""The commands with the packages of the core alone: each works, or says which extra it needs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from packaging.requirements import Requirement

import isotropy
from isotropy import metrics
from isotropy.metrics.kmeans import kmeans
from isotropy.metrics.moving import MANY_CLASSES, interpolated_silhouettes
from isotropy.metrics.silhouettes import distance_sums
from tests.conftest import PROJECT

HIDE = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

HIDDEN = set(sys.argv.pop(1).split(","))
sys.meta_path.insert(0, Hide())
for name in HIDDEN:
    sys.modules.pop(name, None)
"""
RUN = f"{HIDE}\nfrom isotropy.cli import run\nrun()"
NUMBERS = (
    HIDE
    + """
import json
from tests.unit.test_core import numbers
print(json.dumps(numbers()))
"""
)
POSIX_ONLY = "fcntl,grp,pty,readline,resource,syslog,termios,tty"


def core() -> set[str]:
    """Return the names of the distributions that `pip install isotropy` brings."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf8"))["project"]
    found, todo = {"isotropy"}, [Requirement(text).name for text in project["dependencies"]]
    while todo:
        name = re.sub(r"[-_.]+", "-", todo.pop()).lower()
        if name not in found:
            found.add(name)
            needed = map(Requirement, requires(name) or [])
            todo += [n.name for n in needed if n.marker is None or n.marker.evaluate({"extra": ""})]
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
    assert {"numba", "transformers", "yaml", "pandas", "snakemake"} <= set(outside)
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
    result = command(hidden, tmp_path, "measure", "v.npy", "v.txt", "--transforms", "--json")
    assert result.returncode == 0, result.stderr
    rows = json.loads(result.stdout)["rows"]
    assert {row["input"] for row in rows} == {"v.npy", "v.txt"}
    assert {row["d"] for row in rows} == {5}


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [("measure model --texts t.txt", "training"), ("sources add model", "workflow")],
)
def test_other_commands_name_the_extra(
    arguments: str, extra: str, hidden: str, tmp_path: Path
) -> None:
    """For all others see `test_package.py`."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model/config.json").write_text('{"model_type": "bert"}')
    (tmp_path / "model/tokenizer.json").write_text("{}")
    (tmp_path / "t.txt").write_text("a\nb\n")
    result = command(hidden, tmp_path, *arguments.split())
    assert result.returncode == 2
    (line,) = result.stderr.strip().splitlines()
    assert f"pip install 'isotropy[{extra}]'" in line


@pytest.mark.parametrize("arguments", ["--version", "measure --help", "measure --metrics list x"])
def test_help_needs_no_extra(arguments: str, hidden: str, tmp_path: Path) -> None:
    result = command(hidden, tmp_path, *arguments.split())
    assert result.returncode == 0, result.stderr
    if arguments == "--version":
        assert result.stdout == f"isotropy {isotropy.__version__}\n"


def numbers() -> dict[str, Any]:
    """Compute all that has a compiled kernel, for 2,000 points."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(2000, 32)) + 3 * rng.integers(4, size=(2000, 1))).astype(np.float32)
    labels, types, many = (np.arange(len(X)) % k for k in (5, 300, MANY_CLASSES))
    sums = distance_sums(X, many)[None]
    return {
        "silhouettes": [
            metrics.silhouette(X, labels),
            *metrics.silhouette_of_labelings(X, [labels, many]).tolist(),
        ],
        "interpolated": interpolated_silhouettes(sums, np.ones((1, 1)), many).tolist(),
        "cosines": [*metrics.type_cosines(X, types), *metrics.type_cosines(X, types, labels)],
        "dimensions": [metrics.two_nn(X), metrics.lid_mle(X)],
        "clusters": [metrics.cluster_count(X).k, *kmeans(X, [4])[4].labels.tolist()],
    }


def test_numbers_are_the_same_without_numba() -> None:
    """Labels of clusters exactly, single precision up to rounding."""
    result = subprocess.run(
        [sys.executable, "-c", NUMBERS, "numba"], cwd=PROJECT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    slow, fast = json.loads(result.stdout), numbers()
    assert slow["clusters"] == fast["clusters"]
    for name, values in fast.items():
        assert slow[name] == pytest.approx(values, rel=1e-5, abs=1e-7), name


def test_command_line_starts_without_modules_that_windows_lacks(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(60, 5)))
    result = command(POSIX_ONLY, tmp_path, *["measure", "v.npy", "--record", "record.json"])
    assert result.returncode == 0, result.stderr
    result = command(POSIX_ONLY, tmp_path, "audit", "identify", "v.npy")
    assert result.returncode == 2, result.stderr
    assert "has no records" in result.stdout


def test_version_is_that_of_the_last_release_and_of_the_citation() -> None:
    changelog = (PROJECT / "CHANGELOG.md").read_text("utf8")
    citation = (PROJECT / "CITATION.cff").read_text("utf8")
    release = re.search(r"^## \[(.+)\] – (\d{4}-\d\d-\d\d)$", changelog, re.MULTILINE)
    assert release is not None
    assert release[1] == isotropy.__version__
    assert f"version: {release[1]}\n" in citation
    assert f"date-released: {release[2]}\n" in citation.replace("'", "").replace('"', "")
