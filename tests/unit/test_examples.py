"""Examples run, those in docstrings too, and benchmarks can be imported."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from isotropy import losses, metrics, transforms
from tests.conftest import copy_checkout
from tests.unit.tiny_models import sentences, write_tiny_bert

PROJECT = Path(__file__).parents[2]
WITH_EXAMPLES = sorted(
    ".".join(path.relative_to(PROJECT).with_suffix("").parts)
    for path in (PROJECT / "isotropy").rglob("*.py")
    if ">>>" in path.read_text("utf8")
)
EXAMPLES_OF = [
    "AllButTheTop",
    "ClusterBasedEnhancement",
    "CosRegLoss",
    "IStarLoss",
    "StreamingIsoScore",
    "isoscore",
    "isoscore_unbiased",
    "mean_cosine",
    "partition_isotropy",
    "silhouette",
    "two_nn",
]


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_examples_in_docstrings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # some write files
    failed, attempted = doctest.testmod(importlib.import_module(name))
    assert attempted > 0
    assert failed == 0


def test_most_used_functions_have_an_example() -> None:
    for name in EXAMPLES_OF:
        module = next(m for m in (metrics, losses, transforms) if name in dir(m))
        assert ">>>" in (getattr(module, name).__doc__ or ""), name


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
    assert [line.split()[0] for line in shown[:4]] == [
        "before",
        "Center",
        "AllButTheTop",
        "ClusterBasedEnhancement",
    ]
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
