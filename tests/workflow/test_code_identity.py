"""Which jobs of the finished smoke study rerun after an edit of code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conftest import Workflow, digests
from tests.workflow.study import audit, made_from, stems_made_by

PAPER = "replication/papers/mickus2024"
SILHOUETTE = "isotropy/metrics/silhouettes.py"
COMMENTED = ["replication/job.py", "replication/provenance/verify_bundle.py", SILHOUETTE]
INFRASTRUCTURE = "replication/provenance/ledger.py"
READERS = "replication/sources/readers.py"
READER = (
    '\n\n@reader("new")\ndef new(_: Content, folder: Path) -> Iterator[Row]:\n    return iter([])\n'
)
REGISTRY = "config/sources/models.yaml"
USES_SILHOUETTE = ("optimize_embeddings", "finetune_model", "measure_layer")
TABLE_OF_SILHOUETTES = "tables/mickus2024/simplices"


def append_text(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def insert_into_function(file: Path, name: str, statement: str) -> None:
    """Insert a statement at the start of a function, after its docstring."""
    text = file.read_text()
    (function,) = (
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef) and node.name == name
    )
    lines = text.splitlines(keepends=True)
    lines.insert(function.body[1].lineno - 1, f"    {statement}\n")
    file.write_text("".join(lines))


def add_model(file: Path) -> None:
    """Copy a model's entry under a new name, which no study uses."""
    (entry,) = re.findall(r"^all-MiniLM-L6-v2:\n(?:  .*\n)+", file.read_text(), re.M)
    append_text(file, "\n" + entry.replace("all-MiniLM-L6-v2", "another-MiniLM", 1))


def test_comments_infrastructure_and_unused_entries_rerun_nothing(smoke_copy: Workflow) -> None:
    """Comments in three modules, docstring and layout of a metric, code of the ledger module, a new
    reader, a new entry of the registry. (Nor does a finished study that was only copied.)"""
    folder = smoke_copy.folder
    for name in COMMENTED:
        append_text(folder / name, "\n\n# A remark.\n")
    metric = folder / SILHOUETTE
    documented = metric.read_text().replace('"""', '"""In other words: ', 1)
    metric.write_text(documented.replace("\n\n", "\n\n\n", 1))
    append_text(folder / INFRASTRUCTURE, "\n\nEDITED = True\n")
    append_text(folder / READERS, READER)
    add_model(folder / REGISTRY)
    planned = smoke_copy.planned()
    assert planned == {}, f"these rules would run: {sorted(set(planned.values()))}"
    verified = audit(smoke_copy, "verify", "--all")  # changed infrastructure is shown
    assert verified.returncode == 0, verified.stdout
    assert INFRASTRUCTURE in verified.stdout


def test_an_edited_table_reruns_the_tables_of_its_paper(smoke_copy: Workflow) -> None:
    """Everything made from them reruns as well, but not other papers' tables, nor the inputs."""
    folder = smoke_copy.folder
    insert_into_function(folder / PAPER / "tables.py", "seeds", "edited = True  # noqa: F841")
    planned = smoke_copy.planned()
    assert planned.keys() == made_from(folder, ["tables/mickus2024/seeds"])
    made = {rule for rule in planned.values() if rule.startswith("make_tables")}
    assert made == {"make_tables_mickus2024"}
    assert not {"optimize_embeddings", "finetune_model"} & set(planned.values())


def test_an_edited_metric_reruns_only_its_importers(smoke_copy: Workflow) -> None:
    """The results of rerun jobs are unchanged."""
    folder = smoke_copy.folder
    before = digests(folder)
    importers = stems_made_by(folder, *USES_SILHOUETTE) | {TABLE_OF_SILHOUETTES}
    append_text(folder / SILHOUETTE, "\n\nEDITED = True\n")
    expected = made_from(folder, importers)
    assert smoke_copy.planned().keys() == expected
    untouched = {"fetch/polarity", "embed/brown", "geometry/rudman2024/normal"}
    assert not untouched & expected
    stale = audit(smoke_copy, "verify", "--all")
    assert stale.returncode == 1
    stages = set(re.findall(r"^(.*): (?:results/)(\w+)", stale.stdout, re.M))
    assert {state for state, _ in stages} == {"stale"}
    assert {stage for _, stage in stages} == {stem.split("/")[0] for stem in expected}
    trajectories = stems_made_by(folder, "optimize_embeddings")
    n_findings = stale.stdout.count(f"(optimize_embeddings: {SILHOUETTE})")
    assert n_findings == 2 * len(trajectories)  # trajectory and run
    rerun_stems = {
        "optimize/mickus2024/polarity/seed0",
        "finetune/rudman2024/polarity--all-MiniLM-L6-v2--istar_lambda1_zeta0_2/seed0",
    }
    smoke_copy.done("--", *(f"results/{stem}.json" for stem in sorted(rerun_stems)))
    assert digests(folder) == before
    assert smoke_copy.planned().keys() == expected - rerun_stems
