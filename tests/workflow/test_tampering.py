"""The audit finds every kind of damage to the smoke study's files, and names the file."""

from __future__ import annotations

import contextlib
import json
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from replication.cli import app
from replication.provenance.audit import GOOD, verify_all
from replication.provenance.format import LEDGER
from tests.conftest import Workflow
from tests.workflow.alterations import Study, campaign, flip, remove, truncate

N_ALTERATIONS = 90
TABLES = {".parquet", ".csv", ".md", ".json", ".safetensors"}
KINDS = TABLES | {".png", ".pdf", ".svg", ".txt", ".html", ".js"}


def test_audit_finds_every_random_alteration(smoke_copy: Workflow) -> None:
    """After each of many random alterations, or swaps of two files, a finding names the right
    file."""
    assert {f.state for f in verify_all(smoke_copy.folder)} <= GOOD
    assert set(Study(smoke_copy.folder).kinds()) == KINDS | {"source"}
    counts, missed = campaign(smoke_copy.folder, N_ALTERATIONS, seed=20)
    assert missed == []
    assert counts.total() >= N_ALTERATIONS


def test_audit_finds_lost_ledger_lines_stray_files_and_lost_results(smoke_copy: Workflow) -> None:
    """Without its last line the ledger's chain is valid, but a record is missing in it; removed
    results are missing."""
    folder = smoke_copy.folder

    def findings() -> dict[str, str]:
        return {f.path: f.state for f in verify_all(folder) if f.state not in GOOD}

    ledger = folder / "results" / LEDGER
    original = ledger.read_bytes()
    *lines, last = original.splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines))
    assert set(findings()) == {json.loads(last)["record"]}
    ledger.write_bytes(original)
    stray = folder / "results/tables/mickus2024/table9.csv"
    stray.write_text("a\n1\n")
    assert findings() == {stray.relative_to(folder).as_posix(): "without record"}
    stray.unlink()
    for path in (folder / "results").glob("index.*"):
        path.unlink()
    assert findings()["results/index.record.json"] == "missing"


CLAIM = "mickus2024-pearson"
SHOWN: dict[str, tuple[str, ...]] = {
    f"audit trace {CLAIM}": ("claims.parquet", "claims.record.json",
                             "tables/mickus2024/correlations.*",
                             "optimize/mickus2024/polarity/seed0.*", "fetch/polarity/*"),
    "report --paper mickus2024": ("site/mickus2024-report.*", "claims.*", "site/run.json"),
    "site OUT": ("index.html", "site/*.html", "figures/*/*.svg", "figures/*/*.js", "tables/*/*.csv",
                 "index.record.json"),
    "audit export OUT.zip": ("figures/*/*.png", "tables/*/*.md", "finetune/*/*/*.json",
                             "similarity/*/*/*/*.record.json"),
}  # fmt: skip
"""Files that a command shows, below the results."""


@pytest.mark.parametrize("command", SHOWN)
def test_what_a_command_shows_is_checked_first(
    command: str, smoke_copy: Workflow, tmp_path: Path
) -> None:
    """One file of each kind is altered: the command names it, writes nothing, and ends with 1."""
    random = np.random.default_rng(0)
    arguments = command.replace("OUT", str(tmp_path / "out")).split()
    results = smoke_copy.folder / "results"

    def run() -> Any:
        with contextlib.chdir(smoke_copy.folder):
            return CliRunner().invoke(app, arguments)

    with Study(smoke_copy.folder) as study:
        for pattern, alter in zip(SHOWN[command], cycle((flip, truncate, remove)), strict=False):
            files = sorted(file for file in results.glob(pattern) if file.stat().st_size)
            file = files[random.integers(len(files))]
            with study.altered(file):
                alter(file, random)
                done = run()
            assert done.exit_code == 1, (pattern, alter, done.output)
            assert file.relative_to(smoke_copy.folder).as_posix() in done.output
            assert not list(tmp_path.iterdir())
    done = run()
    assert done.exit_code == 0, done.output
