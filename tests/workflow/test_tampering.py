"""Damage of every kind to the smoke study's files is found, and named by the file."""

from __future__ import annotations

import json

import pytest

from isotropy.provenance.audit import GOOD, verify_all
from isotropy.provenance.format import LEDGER
from tests.campaign.alterations import Study, campaign
from tests.conftest import Workflow
from tests.workflow.study import audit

N_ALTERATIONS = 90
TABLES = {".parquet", ".csv", ".md", ".json", ".safetensors"}
KINDS = TABLES | {".png", ".pdf", ".svg", ".txt", ".html", ".js"}


def test_every_alteration_is_found(
    smoke_whole_copy: Workflow, capsys: pytest.CaptureFixture[str]
) -> None:
    """After each of many random alterations, and of pairs swapped, a finding names the right
    file."""
    assert {f.state for f in verify_all(smoke_whole_copy.folder)} <= GOOD
    assert set(Study(smoke_whole_copy.folder).kinds()) == KINDS | {"source"}
    counts, missed = campaign(smoke_whole_copy.folder, N_ALTERATIONS, seed=20)
    assert missed == []
    shown = ", ".join(f"{n} {what}" for what, n in sorted(counts.items()))
    with capsys.disabled():
        print(f"\n{counts.total()} alterations, all found: {shown}")


def test_a_lost_last_line_a_stray_file_and_lost_results(smoke_copy: Workflow) -> None:
    """The chain holds without its last line, but not its record; results that are gone are missing
    until they are forgotten."""
    folder = smoke_copy.folder

    def found() -> dict[str, str]:
        return {f.path: f.state for f in verify_all(folder) if f.state not in GOOD}

    ledger = folder / "results" / LEDGER
    whole = ledger.read_bytes()
    *lines, last = whole.splitlines(keepends=True)
    ledger.write_bytes(b"".join(lines))
    assert set(found()) == {json.loads(last)["record"]}
    ledger.write_bytes(whole)
    stray = folder / "results/tables/mickus2024/table9.csv"
    stray.write_text("a\n1\n")
    assert found() == {stray.relative_to(folder).as_posix(): "without record"}
    stray.unlink()
    for path in (folder / "results").glob("index.*"):
        path.unlink()
    assert found()["results/index.record.json"] == "missing"
    assert "recorded as removed: 1" in audit(smoke_copy, "forget", "results/index.html").stdout
    assert found() == {}
