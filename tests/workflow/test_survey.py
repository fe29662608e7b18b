"""What is made again follows from records, wherever the results have been and whatever Snakemake
remembers of them: `isotropy status`, `plan`, a run and the audit name the same results."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from isotropy.files import RECORD_SUFFIX
from replication.cli import app
from replication.plan.plan import Plan
from replication.provenance.graph import stem_of
from tests.conftest import Workflow, digests, read_dry_run
from tests.workflow.study import derived_from, records
from tests.workflow.test_code_identity import SILHOUETTE, USES_SILHOUETTE, insert_into_function

LOST = ["claims.csv", "figures/mickus2024/figure3.png", "index.record.json"]


def carry(folder: Path, target: Path) -> Path:
    """As by `cp -a results`."""
    shutil.copytree(folder / "results", target / "results", copy_function=os.link)
    return target


def move(folder: Path, target: Path) -> Path:
    """As by `mv`: what Snakemake remembers comes along."""
    shutil.copytree(folder / ".snakemake", target / "deep/run/.snakemake")
    return carry(folder, target / "deep/run")


def strip(folder: Path, target: Path) -> Path:
    shutil.rmtree(folder / ".snakemake")
    return folder


def lose(folder: Path, target: Path) -> Path:
    for name in LOST:
        (folder / "results" / name).unlink()
    return folder


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert text.count(old) == 1, (file, old, text.count(old))
    file.write_text(text.replace(old, new))


def change_code(checkout: Path) -> None:
    insert_into_function(checkout / SILHOUETTE, "silhouette", "edited = True  # noqa: F841")


SITUATIONS: dict[str, Callable[[Path, Path], Path]] = {
    "carried": carry,
    "moved": move,
    "stripped": strip,
    "lost": lose,
}
CHANGES: dict[str, Callable[[Path], None]] = {
    "value": lambda checkout: edit(checkout / "config/smoke.yaml", "updates: 40", "updates: 50"),
    "seed": lambda checkout: edit(checkout / "config/smoke.yaml", "seeds: [0, 1]\n  updates",
                                  "seeds: [0, 1, 2]\n  updates"),
    "code": change_code,
    "input": lambda checkout: edit(
        checkout / "config/sources/datasets.yaml", "Seeing Stars, doi", "Seeing Stars. doi"
    ),
}  # fmt: skip


def specs(plan: Plan) -> dict[str, Any]:
    """Spec and inputs of each result, by its stem."""
    return {stem: (plan.spec(stem).recorded(), plan.inputs(stem)) for stem in plan.stems()}


def named_by_snakemake(workflow: Workflow, run: Path) -> set[str]:
    shown = workflow.dry_run("--cores", "2", "--directory", str(run))
    return {job.stem for job in read_dry_run(shown)}


def invoke(workflow: Workflow, run: Path, command: str, *options: str) -> str:
    where = ("--root", str(run), "--project", str(workflow.folder))
    files = [str(workflow.folder / name) for name in workflow.configfiles]
    given = [part for file in files for part in ("--configfile", file)]
    done = CliRunner().invoke(app, [*command.split(), *where, *given, *options])
    assert done.exit_code in (0, 1), done.output
    return done.output


def require_agreement(workflow: Workflow, run: Path, expected: set[str]) -> None:
    """What a run makes is what status, plan and the audit say that it makes."""
    assert named_by_snakemake(workflow, run) == expected
    report = json.loads(invoke(workflow, run, "status", "--json"))
    counts = report["stages"]["all"]
    assert counts["stale"] + counts["waiting"] == len(expected)
    assert set(report["stale"]) <= expected
    total = invoke(workflow, run, "plan").splitlines()
    (row,) = [line.split() for line in total if line.split()[:1] == ["all"]]
    assert (int(row[-2].replace(",", "")) if len(row) > 6 else 0) == len(expected)
    found = invoke(workflow, run, "audit verify", "--all")
    files = re.findall(r"^(?:stale|missing): (results/\S+)", found, re.M)
    outputs = {f["path"]: stem for stem, r in records(run).items() for f in r["outputs"]}
    existing = {stem for stem in expected if (run / f"results/{stem}{RECORD_SUFFIX}").is_file()}
    flagged = {outputs.get(f) or stem_of(f) for f in files}
    assert existing <= flagged <= expected


PAIRS = list(zip(SITUATIONS, CHANGES, strict=True))
"""Each situation and each change once, four of the sixteen pairs."""


@pytest.mark.parametrize(("situation", "change"), PAIRS)
def test_what_changed_is_made_again(
    situation: str, change: str, smoke_copy: Workflow, tmp_path: Path
) -> None:
    """Exactly that, and what follows from it, in a study that was carried to another folder, moved,
    stripped of what Snakemake remembers, or has lost files."""
    folder = smoke_copy.folder
    before = specs(smoke_copy.plan())
    known = records(folder)
    run = SITUATIONS[situation](folder, tmp_path)
    roots = {name.split(".")[0] for name in LOST} if situation == "lost" else set()
    if situation != "lost":
        require_agreement(smoke_copy, run, set())
    CHANGES[change](folder)
    after = specs(smoke_copy.plan())
    roots |= {stem for stem in before if before[stem] != after[stem]}
    if change == "code":
        roots |= {stem for stem in known if known[stem]["rule"] in USES_SILHOUETTE}
    assert roots
    expected = derived_from(known, roots) | (after.keys() - before.keys())
    require_agreement(smoke_copy, run, expected)


def test_lost_files_are_made_again(smoke_copy: Workflow) -> None:
    """With the same bytes; then nothing is left to do, and each start of a run is in the ledger
    whose configuration is another."""
    folder, before = smoke_copy.folder, digests(smoke_copy.folder)
    lose(folder, folder)
    smoke_copy.done()
    assert digests(folder) == before
    assert smoke_copy.planned() == {}
    (folder / "empty.yaml").write_text("{}\n")
    again = replace(smoke_copy, configfiles=[*smoke_copy.configfiles, "empty.yaml"])
    ledger = folder / "results/ledger.jsonl"
    n_lines = len(ledger.read_text().splitlines())
    assert "Nothing to be done" in again.done()
    again.dry_run("--cores", "2")
    lines = ledger.read_text().splitlines()
    assert len(lines) == n_lines + 1
    assert "empty.yaml" in lines[-1]
