"""Examples run, and benchmarks can be imported."""

from __future__ import annotations

import ast
import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import copy_checkout
from tests.unit.tiny_models import sentences, write_tiny_bert

PROJECT = Path(__file__).parents[2]


def example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, PROJECT / "examples" / name, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_example_measure_an_array() -> None:
    shown = example("measure_an_array.py")
    assert "IsoScore" in shown
    assert "mean cosine without the mean: -0.00" in shown


@pytest.mark.study
def test_example_choose_a_transform(minilm: Path) -> None:
    """With the real all-MiniLM-L6-v2."""
    shown = example("choose_a_transform.py", str(minilm)).splitlines()
    assert [line.split()[0] for line in shown[:4]] == [
        "before",
        "Center",
        "AllButTheTop",
        "ClusterBasedEnhancement",
    ]
    assert "film" in shown[-1]


@pytest.mark.study
def test_example_your_own_csv(tmp_path: Path) -> None:
    """A CSV of two columns and a tiny model, with real Snakemake: claims get verdicts on the user's
    data, and a second run does nothing."""
    checkout = copy_checkout(tmp_path / "checkout")
    shutil.rmtree(checkout / "config/local", ignore_errors=True)
    model = write_tiny_bert(tmp_path / "model")
    lines = ["text,label", *(f"{t},{'AB'[i % 2]}" for i, t in enumerate(sentences(80)))]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    command = [sys.executable, checkout / "examples/your_own_csv.py", tmp_path / "own.csv", model]
    for again in (False, True):
        done = subprocess.run([*command, "--quick"], cwd=checkout, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        rows = [r for r in done.stdout.splitlines() if "on data that are not the paper's" in r]
        assert len(rows) == 3
        assert all(r.split()[0] in ("consistent", "inconsistent", "undecided") for r in rows)
        assert ("Nothing to be done" in done.stdout + done.stderr) == again


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "benchmarks").glob("*.py")), ids=lambda p: p.stem
)
def test_benchmarks_can_be_imported(path: Path) -> None:
    """Also the modules that they import inside functions exist."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
    nodes = list(ast.walk(ast.parse(path.read_bytes())))
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
    assert [name for name in named if importlib.util.find_spec(name.split(".")[0]) is None] == []
