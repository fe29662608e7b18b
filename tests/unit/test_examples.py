"""Examples run, those in docstrings too, and benchmarks in a short form."""

from __future__ import annotations

import doctest
import importlib.util
import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from tests.conftest import Workflow

PROJECT = Path(__file__).parents[2]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for path in (PROJECT / "isotropy").rglob("*.py")
    if ">>>" in path.read_text("utf8")
)


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert (failed, attempted > 0) == (0, True)


def test_example_measure_an_array(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(PROJECT / "examples/measure_an_array.py"), run_name="__main__")
    shown = capsys.readouterr().out
    assert "IsoScore" in shown
    assert "mean cosine without the mean: -0.00" in shown


@pytest.mark.study
def test_example_choose_a_transform(minilm: Path) -> None:
    """With the real all-MiniLM-L6-v2."""
    command = [sys.executable, PROJECT / "examples/choose_a_transform.py", minilm]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    shown = done.stdout.splitlines()
    names = ["before", "Center", "AllButTheTop", "ClusterBasedEnhancement"]
    assert [line.split()[0] for line in shown[:4]] == names
    assert "film" in shown[-1]


@pytest.mark.study
def test_example_notebook(tmp_path: Path) -> None:
    """It runs without a network, and its outputs are those of such a run: scores of vectors to all
    digits shown, and of the trained model, whose weights differ between processors, in kind."""
    path = PROJECT / "examples/measure.ipynb"
    assert path.stat().st_size < 200_000
    shown, run = (nbformat.read(path, as_version=4) for _ in range(2))
    resources = {"metadata": {"path": str(tmp_path)}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        NotebookClient(run, timeout=600, resources=resources).execute()
    outputs = [[output for cell in book.cells for output in cell.get("outputs", [])]
               for book in (shown, run)]  # fmt: skip
    first, second = ([sorted(o.get("data", o)) for o in each] for each in outputs)
    assert first == second
    scores, again = (each[0]["data"]["text/plain"] for each in outputs)
    assert scores == again
    assert not re.search(r"/(home|root|tmp|work)/", str(outputs[0]))


BENCHMARKS = {
    "agreement": "--results RESULTS",
    "audit": "RESULTS/.. --records 20",
    "embed": "--texts 16 --rounds 1 --results RESULTS",
    "finetune": "--updates 1 --batch-size 4 --results RESULTS",
    "graph": "300",
    "loop": "--updates 20 --few 1 --pairs 1000 --results RESULTS",
    "measure": "--rows 2000 --dimensions 8",
    "metrics": "--scale 0.01 --rounds 1 --results RESULTS",
    "overhead": "RESULTS/..",
    "repeatability": "--small --calls 2 --offsets 2 --processes 1",
    "scaling": "--scale 0.05 --csv s.csv --figure s.png",
    "verdicts": "--draws 10",
}
"""Benchmark -> arguments of a short form; RESULTS are those of the smoke study."""


def test_every_benchmark_has_a_short_form() -> None:
    assert {path.stem for path in (PROJECT / "benchmarks").glob("*.py")} == set(BENCHMARKS)


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark(name: str, smoke: Workflow, tmp_path: Path) -> None:
    arguments = BENCHMARKS[name].replace("RESULTS", str(smoke.folder / "results")).split()
    command = [sys.executable, PROJECT / f"benchmarks/{name}.py", *arguments]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
