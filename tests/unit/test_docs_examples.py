"""Examples with prompts (>>>) in the documentation give what they show, and its commands run."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.conftest import PROJECT, Workflow

DOCS = sorted((PROJECT / "docs").rglob("*.md"))
PAGES = [path for path in DOCS if "\n>>> " in path.read_text("utf8")]
TOOLS = ("isotropy", "make", "snakemake", "printf")
ELSEWHERE = {"make test": "CI itself", "cd geometry": "tests/workflow/test_module.py"}
"""Beginnings of commands that are not run here -> what runs them."""
SHORT = {
    r"^make ": "make --dry-run ",
    r"^snakemake (?!--unlock)": "snakemake --dry-run --quiet ",
    r"^snakemake --unlock": "snakemake --cores 1 --unlock",
    r"step=500": "step=5",
    r"ORG/NAME@REVISION": "MODEL",
    r"/path/to/mirror": "mirror",
}
"""What makes a command of the docs short or fit for the smoke study, in order."""


def commands(page: Path) -> list[str]:
    """The commands in the blocks of a page, without their environment's folder and prompt."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text("utf8"), re.M | re.S)
    blocks = [text for language, text in fences if not language]
    lines = [line.partition("  # ")[0].strip() for text in blocks for line in text.splitlines()]
    named = [line.removeprefix("$ ").replace(".venv/bin/", "") for line in lines]
    return [
        line
        for line in named
        if line.startswith(tuple(f"{tool} " for tool in TOOLS))
        and not line.startswith(tuple(ELSEWHERE))
    ]


def write_files(folder: Path, model: Path) -> None:
    """Write the files that the commands of the docs name."""
    draws = np.random.default_rng(0)
    np.save(folder / "vectors.npy", draws.normal(size=(40, 8)))
    words = pd.Series(["good film", "bad book", "long day", "new house"] * 10)
    labels = ["a", "b"] * 20
    texts = words + [f" {i}" for i in range(40)]
    reviews = pd.DataFrame({"text": texts, "review": texts, "stars": labels})
    reviews.to_csv(folder / "reviews.csv", index=False)
    (folder / "lines.txt").write_text("\n".join(texts))
    numbers = pd.DataFrame(draws.normal(size=(40, 4))).rename(columns=lambda i: f"dim_{i}")
    numbers.assign(label=labels).to_parquet(folder / "vectors.parquet")
    numbers.assign(species=labels).to_csv(folder / "iris.csv", index=False)
    (folder / "mirror").mkdir()
    for name in ("MODEL", "MODEL_FOLDER", "models/my-mpnet"):
        shutil.copytree(model, folder / name, copy_function=os.symlink)
    (folder / "config/local").mkdir()
    (text,) = re.findall(
        r"^# config/local/mine.yaml.*?(?=^```)",
        (PROJECT / "docs/your-model.md").read_text("utf8"),
        re.M | re.S,
    )
    (folder / "config/local/mine.yaml").write_text(text)


@pytest.mark.parametrize(
    "page",
    [page for page in (PROJECT / "README.md", *DOCS) if commands(page)],
    ids=lambda page: page.stem,
)
def test_commands_of_a_page(page: Path, smoke_copy: Workflow, minilm: Path) -> None:
    """In the order of the page, with the smoke study: runs of Snakemake and make as dry runs."""
    folder = smoke_copy.folder
    write_files(folder, minilm)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in commands(page):
        short = command
        for pattern, replacement in SHORT.items():
            short = re.sub(pattern, replacement, short)
        done = subprocess.run(
            short,
            shell=True,
            cwd=folder,
            env={**os.environ, "PATH": path, "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{short}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_examples_of_a_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, one after the other, with common names."""
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(>>> .*?)^```$", page.read_text("utf8"), re.M | re.S)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page.name, str(page), 0)
    assert example.examples
    output: list[str] = []
    doctest.DocTestRunner().run(example, out=output.append)
    assert not output, "".join(output)
