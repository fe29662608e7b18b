"""Another workflow uses this one as a module: its rules consume our results, with a prefix and
other names or without, and the results are audited where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import PROJECT, Workflow
from tests.workflow.study import audit

ENVIRONMENT = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
VECTORS = "results/embed/polarity-part/all-MiniLM-L6-v2.safetensors"
SNAKEFILE = """
configfile: "{project}/config.yaml"
configfile: "{project}/config/smoke.yaml"

module isotropy:
    snakefile: "{project}/Snakefile"
    config: config
    {prefix}

use rule * from isotropy{names}

rule measure:
    default_target: True
    input: "{folder}{vectors}"
    output: "measured.csv"
    shell:
        "env > environment.txt && "
        "{python} -m isotropy measure {{input}} --metrics isoscore --csv {{output}}"
"""


def write_host(folder: Path, prefix: str, names: str) -> None:
    text = SNAKEFILE.format(
        project=PROJECT,
        prefix=f'prefix: "{prefix}"' if prefix else "",
        names=names,
        folder=f"{prefix}/" if prefix else "",
        vectors=VECTORS,
        python=sys.executable,
    )
    (folder / "Snakefile").write_text(text)


def snakemake(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "snakemake", "--cores", "2", *arguments],
        cwd=folder,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.mark.study
def test_module_with_prefix_and_other_names_is_run_and_audited(tmp_path: Path) -> None:
    write_host(tmp_path, "geometry", " as isotropy_*")
    snakemake(tmp_path)
    (header, row) = (tmp_path / "measured.csv").read_text().splitlines()
    assert "isoscore" in header
    assert row.startswith("geometry/results/embed/")
    record = json.loads((tmp_path / "geometry" / VECTORS).with_suffix(".record.json").read_text())
    assert record["rule"] == "embed_sentences"
    assert record["outputs"][0]["path"] == VECTORS
    ours = Workflow(tmp_path / "geometry", [])
    result = audit(ours, "verify", "--all", "--project", str(PROJECT))
    assert result.returncode == 0, result.stdout
    assert " 0 stale" in result.stdout
    assert "Nothing to be done" in snakemake(tmp_path, "--dry-run")
    assert not (tmp_path / "results").exists()
    assert "OFFLINE" not in (tmp_path / "environment.txt").read_text()


@pytest.mark.study
@pytest.mark.parametrize(("prefix", "names"), [("", ""), ("", " as theirs_*"), ("a/b", "")])
def test_module_plans(prefix: str, names: str, tmp_path: Path) -> None:
    write_host(tmp_path, prefix, names)
    plan = snakemake(tmp_path, "--dry-run", f"{prefix}/{VECTORS}".lstrip("/"))
    assert "embed_sentences" in plan
    assert f"{prefix}/results/fetch/all-MiniLM-L6-v2".lstrip("/") in plan
