"""Another workflow uses this one as a module: its rules consume our results, with a prefix and
other names or without, and the results are audited where they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from replication.plan.config import read_configuration
from tests.conftest import PROJECT, Workflow, read_dry_run
from tests.workflow.conftest import PlannedJobs
from tests.workflow.study import audit

ENVIRONMENT = {name: value for name, value in os.environ.items() if "OFFLINE" not in name}
VECTORS = "results/embed/polarity-part/all-MiniLM-L6-v2.safetensors"
SNAKEFILE = """
configfile: "config.json"

module isotropy:
    snakefile: "{project}/Snakefile"
    config: config["isotropy"]
    {prefix}

use rule * from isotropy{names}

onstart:
    print("host started")

rule measure:
    default_target: True
    input: "{vectors}"
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
        vectors=Path(prefix) / VECTORS,
        python=sys.executable,
    )
    (folder / "Snakefile").write_text(text)
    files = [PROJECT / "config.yaml", PROJECT / "config/smoke.yaml"]
    config = {"isotropy": read_configuration(files, {}), "threshold": 0.5}
    (folder / "config.json").write_text(json.dumps(config))


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


def test_module_with_prefix_and_other_names_is_run_and_audited(tmp_path: Path) -> None:
    write_host(tmp_path, "geometry", " as isotropy_*")
    assert "host started" in snakemake(tmp_path)
    (header, row) = (tmp_path / "measured.csv").read_text().splitlines()
    assert "isoscore" in header
    assert row.startswith("geometry/results/embed/")
    record = json.loads((tmp_path / "geometry" / VECTORS).with_suffix(".record.json").read_text())
    assert record["rule"] == "embed_sentences"
    assert record["outputs"][0]["path"] == VECTORS
    result = audit(Workflow(tmp_path / "geometry"), "verify", "--all", "--project", str(PROJECT))
    assert result.returncode == 0, result.stdout
    assert " 0 stale" in result.stdout
    geometry = ["status", "--root", "geometry", "--project", str(PROJECT)]
    shown = subprocess.run(
        [sys.executable, "-m", "isotropy", *geometry], cwd=tmp_path, capture_output=True, text=True
    )
    assert (shown.returncode, "unknown key" in shown.stderr) == (0, False), shown.stderr
    assert "Nothing to be done" in snakemake(tmp_path, "--dry-run")
    assert not (tmp_path / "results").exists()
    ours = ("OFFLINE", "SLURM", str(PROJECT))
    inherited = "\n".join(f"{name}={value}" for name, value in ENVIRONMENT.items())
    for line in (tmp_path / "environment.txt").read_text().splitlines():
        assert line in inherited or not any(text in line for text in ours), line


@pytest.mark.parametrize(("prefix", "names"), [("", ""), ("a/b", " as theirs_*")])
def test_whole_study_has_the_same_jobs_in_a_module(
    prefix: str, names: str, tmp_path: Path, fresh: PlannedJobs
) -> None:
    write_host(tmp_path, prefix, names)
    folder = f"{prefix}/" if prefix else ""
    shown = snakemake(tmp_path, "--dry-run", f"{folder}results/index.html")
    rule_prefix = names.removeprefix(" as ").removesuffix("*")
    jobs = {(job.rule.removeprefix(rule_prefix), job.stem) for job in read_dry_run(shown)}
    assert jobs == {(job.rule, job.stem) for job in fresh("smoke")}
    assert shown.count(f" {folder}results/") >= len(jobs)
