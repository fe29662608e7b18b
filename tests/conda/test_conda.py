"""`--sdm conda`: environment files can be deployed from a channel, contain all that their rules
import, and jobs run in them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from tests.conda.channel import make_channel
from tests.conftest import Workflow, copy_checkout, once
from tests.unit.test_environments import conda_file, imported_files, rules
from tests.workflow.study import audit

pytest.importorskip(
    "rattler", reason="py-rattler is not installed: it solves and links conda environments"
)
if sys.platform != "linux":
    pytest.skip("the channel is made for linux-64", allow_module_level=True)

IMPORTS = """
import sys
from importlib import import_module
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    import_module(name)
"""


@pytest.fixture(scope="session")
def conda(project: Path, shared: Path) -> dict[str, str]:
    """Environment variables with which Snakemake finds a conda that reads a local channel; the
    channel is made once for all pytest processes."""
    if torch.version.cuda is not None:
        pytest.skip("the channel is made of what is installed: a torch for CUDA would be gigabytes")
    folder = shared / "conda"
    named = {name for path in (project / "envs").glob("*.yaml") for name in conda_file(path)}
    with once(folder) as made:
        if not made:
            shutil.rmtree(folder / "channels", ignore_errors=True)
            make_channel(folder / "channels/conda-forge", named | {"pip"})
    path = f"{project / 'tests/conda'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {
        "CONDA_TEST_ROOT": str(folder / "root"),
        "CONDA_TEST_CHANNELS": str(folder / "channels"),
        "PATH": path,
    }


@pytest.fixture(scope="session")
def deployed(conda: dict[str, str], shared: Path) -> Path:
    folder = shared / "conda-environments"
    with once(folder) as made:
        if not made:
            shutil.rmtree(folder / "checkout", ignore_errors=True)
            workflow = Workflow(copy_checkout(folder / "checkout"))
            deploy = ["--sdm", "conda", "--conda-prefix", str(folder / "envs")]
            workflow.done(*deploy, "--conda-create-envs-only", env=conda)
    return folder / "envs"


def test_environments_contain_the_imports_of_their_rules(deployed: Path, project: Path) -> None:
    """The Python of each environment, which sees no other packages, imports all modules of its
    rules."""
    prefixes = {dependencies(file): file.with_suffix("") for file in deployed.glob("*.yaml")}
    modules_by_env: dict[str, set[str]] = {}
    for rule, env in rules(project):
        modules_by_env.setdefault(env, set()).update(
            f.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
            for f in imported_files(project, rule)
            if f.startswith(("isotropy/", "replication/")) and f.endswith(".py")
        )
    for env, modules in modules_by_env.items():
        prefix = prefixes[dependencies(project / "envs" / env)]
        command = [prefix / "bin/python", "-I", "-c", IMPORTS, project, *sorted(modules)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, f"{env}: {done.stderr[-800:]}"


def dependencies(file: Path) -> frozenset[str]:
    return frozenset(yaml.safe_load(file.read_text())["dependencies"])


def test_jobs_run_in_their_environments(
    checkout: Workflow, conda: dict[str, str], deployed: Path
) -> None:
    target = "results/embed/polarity-part/all-MiniLM-L6-v2.safetensors"
    checkout.done("--sdm", "conda", "--conda-prefix", str(deployed), "--", target, env=conda)
    record = (checkout.folder / target).with_suffix(".record.json")
    assert json.loads(record.read_text())["environment"]["prefix"] == "conda"
    verified = audit(checkout, "verify", target)
    assert verified.returncode == 0, verified.stdout


def test_error_names_an_environment_that_cannot_be_solved(
    checkout: Workflow, conda: dict[str, str], deployed: Path
) -> None:
    env = checkout.folder / "envs/data.yaml"
    env.write_text(env.read_text().replace("numpy>=2,<3", "numpy=99"))
    result = checkout.run(
        "--sdm", "conda", "--conda-prefix", str(deployed), "--conda-create-envs-only", env=conda
    )
    assert result.returncode != 0
    assert "numpy" in result.stdout
    assert "data.yaml" in result.stdout
