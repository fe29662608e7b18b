"""The smoke study on a GPU beside the CPU: all tables, by `tests.gpu.tables`, which says what may
differ. It is skipped where something is missing: a GPU, a package of the workflow, or a source.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest

from tests.conftest import PROJECT, Workflow, copy_checkout
from tests.gpu.__main__ import pinned
from tests.gpu.tables import disagreements

CONFIGFILES = ["config/smoke.yaml", "device.yaml"]
CORES = os.cpu_count() or 1


@pytest.mark.gpu
def test_the_smoke_study_on_a_gpu_and_on_the_cpu(tmp_path: Path) -> None:
    """Sources are fetched once, from registries or from the mirror that ISOTROPY_MIRROR names."""
    if missing := missing_packages():
        pytest.skip(f"the workflow needs packages that are not installed: {', '.join(missing)}")
    fetched = Workflow(copy_checkout(tmp_path / "cpu"), CONFIGFILES)
    set_device(fetched.folder, "cpu")
    fetched.done("--until", "fetch_source", cores=CORES)
    on_gpu = Workflow(tmp_path / "cuda", CONFIGFILES)
    shutil.copytree(fetched.folder, on_gpu.folder, symlinks=True)
    set_device(on_gpu.folder, "cuda")
    for study in (fetched, on_gpu):
        study.done(cores=CORES)
    assert devices(fetched.folder) == {"cpu"}
    assert devices(on_gpu.folder) == {"cuda"}
    assert disagreements(fetched.folder / "results", on_gpu.folder / "results") == []


def missing_packages() -> list[str]:
    """List the distributions of the extra `workflow` that this interpreter lacks, with the version
    to install."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf8"))["project"]
    extras = project["optional-dependencies"]
    requirements = project["dependencies"] + extras["training"] + extras["workflow"]
    names = {re.split(r"[\[=><]", requirement)[0] for requirement in requirements} - {"isotropy"}
    return [pinned(name) for name in sorted(names) if not _is_installed(name)]


def set_device(folder: Path, device: str) -> None:
    """Write the configuration that computes a study on a device."""
    configuration = {"compute": {"device": device}}
    if mirror := os.environ.get("ISOTROPY_MIRROR"):
        configuration["sources"] = {"mirror": str((PROJECT / mirror).resolve())}
    (folder / "device.yaml").write_text(json.dumps(configuration))  # which is YAML


def devices(folder: Path) -> set[str]:
    """Return the devices that the records of a study name."""
    records = (folder / "results").rglob("*.record.json")
    measurements = [json.loads(path.read_text("utf8"))["measurements"] for path in records]
    named = {values["device"] for values in measurements if "device" in values}
    return {device.partition(":")[0] for device in named}


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except PackageNotFoundError:
        return False
    return True
