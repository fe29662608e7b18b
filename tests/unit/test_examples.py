"""The examples and the benchmarks run, or load, as they stand."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[2]


def example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, PROJECT / "examples" / name, *arguments], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_measure_an_array() -> None:
    shown = example("measure_an_array.py")
    assert "IsoScore" in shown
    assert "mean cosine without the mean: -0.00" in shown


@pytest.mark.study
def test_choose_a_transform(minilm: Path) -> None:
    """On the real MiniLM."""
    shown = example("choose_a_transform.py", str(minilm)).splitlines()
    assert [line.split()[0] for line in shown[:4]] == [
        "before",
        "Center",
        "AllButTheTop",
        "ClusterBasedEnhancement",
    ]
    assert "film" in shown[-1]


@pytest.mark.parametrize(
    "path", sorted((PROJECT / "benchmarks").glob("*.py")), ids=lambda p: p.stem
)
def test_benchmarks_load(path: Path) -> None:
    """All that they import is there."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[path.stem]
