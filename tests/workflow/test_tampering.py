"""The audit finds every kind of damage to the smoke study's files, and names the file."""

from __future__ import annotations

import json

from replication.provenance.audit import GOOD, verify_all
from replication.provenance.format import LEDGER
from tests.conftest import Workflow
from tests.workflow.alterations import Study, campaign

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
