"""The workflow from an installed wheel, in a folder without a checkout: run, audited, exported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from zipfile import ZipFile

import pytest
from typer.testing import CliRunner

from isotropy.cli import app
from isotropy.provenance.code import code_identity, project_folder
from tests.conftest import PROJECT, copy_checkout

VECTORS = "results/embed/polarity-part/all-MiniLM-L6-v2.safetensors"
STUDY = ("--configfile", "config/smoke.yaml")
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def shell(folder: Path, *command: str | Path) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def isotropy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with the wheel, and with all packages of this environment but
    isotropy (`.pth` files of editable packages count in an environment's own folder only)."""
    folder = tmp_path_factory.mktemp("wheel")
    shell(copy_checkout(folder / "checkout"), sys.executable, "-c", BUILD, folder)
    (wheel,) = folder.glob("*.whl")
    shell(folder, sys.executable, "-m", "venv", "--without-pip", "env")
    (packages,) = (folder / "env").glob("lib/python*/site-packages")
    (packages / "shared.pth").write_text(sysconfig.get_path("purelib") + "\n")
    install = ("pip", "--python", "env", "install", "--quiet", "--no-deps", "--no-index")
    shell(folder, sys.executable, "-m", *install, wheel)
    return folder / "env/bin/isotropy"


@pytest.mark.study
def test_wheel_runs_the_workflow_in_any_folder(isotropy: Path, tmp_path: Path) -> None:
    run = (isotropy, "run", "--cores", "2", *STUDY, "--quiet", "rules", "--", VECTORS)
    shell(tmp_path, *run)
    record = json.loads((tmp_path / VECTORS).with_suffix(".record.json").read_text())
    # What a checkout would write: results can go from one to the other
    expected = code_identity(PROJECT, "embed_sentences")
    assert record["code"] == json.loads(expected.model_dump_json())
    verified = shell(tmp_path, isotropy, "audit", "verify", "--all")
    assert " 0 other version, 0 other environment, 0 stale," in verified
    assert " 0 without record, 0 missing, 0 altered;" in verified
    assert "Nothing to be done" in shell(tmp_path, *run)
    assert " finetune " in shell(tmp_path, isotropy, "plan", *STUDY)
    assert "1 reproduced" in shell(tmp_path, isotropy, "audit", "rerun", "results/prepare")
    shell(tmp_path, isotropy, "audit", "export", "mine.zip")
    with ZipFile(tmp_path / "mine.zip") as bundle:
        names = set(bundle.namelist())
    assert {"Snakefile", "rules/embed.smk", "isotropy/job.py", "config/smoke.yaml"} <= names
    assert not any(name.startswith("isotropy/project/") for name in names)
    shell(tmp_path, isotropy, "audit", "verify", "mine.zip")
    assert sorted(p.name for p in tmp_path.iterdir()) == [".snakemake", "mine.zip", "results"]


@pytest.mark.parametrize(
    ("given", "received"),
    [
        (["-n", "--sdm", "conda", "--", "x"], ["-n", "--sdm", "conda", "--", "x"]),
        (["--config", "study=a b", "-h"], ["--config", "study=a b", "-h"]),
        (
            ["--profile", "slurm", *STUDY, "mine.yaml"],
            ["--profile", f"{PROJECT}/slurm", STUDY[0], f"{PROJECT}/{STUDY[1]}", "mine.yaml"],
        ),
        (["--executor", "slurm"], ["--executor", "slurm"]),
        (["--configfile=config/smoke.yaml"], [f"--configfile={PROJECT}/config/smoke.yaml"]),
    ],
)
def test_arguments_reach_snakemake_unparsed(
    given: list[str], received: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[list[str]] = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.execv", lambda _file, command: commands.append(command))
    assert CliRunner().invoke(app, ["run", *given]).exit_code == 0
    snakemake = [sys.executable, "-P", "-m", "snakemake"]
    snakefile = ["--snakefile", f"{PROJECT}/Snakefile"]
    assert commands == [[*snakemake, *snakefile, *received]]
    assert project_folder() == PROJECT
