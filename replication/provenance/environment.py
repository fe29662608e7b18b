"""Describe the environment of a job: Python, packages, processor, GPU. Unknown facts are null with
a reason, never guessed.
"""

from __future__ import annotations

import os
import platform
import re
import socket
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from isotropy.scrub import remove_user

LOCKS = ("requirements.lock", "requirements-cuda.lock")
# Conda package name -> PyPI name, where they differ.
PYPI_NAME = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "msgpack-python": "msgpack",
}


def describe_environment(threads: int) -> dict[str, Any]:
    """Describe the process that runs a job, without environment variables, which may contain
    secrets.
    """
    return {
        "python": platform.python_version(),
        "prefix": _prefix(),
        "packages": packages(),
        "threads": threads,
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "gpu": _gpu(),
        "platform": platform.platform(),
        "host": remove_user(socket.gethostname()),
        "slurm_job": _slurm_job(),
    }


def _prefix() -> str:
    if (Path(sys.prefix) / "conda-meta").is_dir():
        return "conda"
    return "venv" if sys.prefix != sys.base_prefix else "system"


def packages() -> dict[str, str]:
    """Return the installed distributions: normalized name -> version."""
    versions: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):  # Snakemake repeats entries
        # Of several versions the first on the path stays, which is the one that is imported
        versions = dict(_packages_in(folder, _changed_at(folder))) | versions
    return dict(sorted(versions.items()))


def _changed_at(folder: str) -> int:
    """Return when a folder last changed, as by an installation; 0 if there is no such folder."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _packages_in(folder: str, _changed_at: int) -> tuple[tuple[str, str], ...]:
    """Return the distributions in a folder, cached for a process, since reading opens a file of
    each distribution.
    """
    versions: dict[str, str] = {}
    for distribution in metadata.distributions(path=[folder]):
        meta = distribution.metadata  # `.name` and `.version` would parse the file anew
        if meta["Name"]:
            versions.setdefault(normalized_name(meta["Name"]), meta["Version"])
    return tuple(versions.items())


def normalized_name(name: str) -> str:
    """Normalize the name of a distribution (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def locked_versions(project: Path) -> dict[str, str]:
    """Return the versions in the lock files of what jobs import: normalized name -> version; empty
    where there are none.
    """
    paths = [project / name for name in LOCKS]
    text = "".join(path.read_text("utf8") for path in paths if path.is_file())
    pins = re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s;]+)", text, re.M)
    return {normalized_name(name): version for name, version in pins}


def peak_memory_bytes() -> int:
    """Return the peak resident set size of this process so far, in bytes."""
    try:  # getrusage includes the peak of the parent process before the fork
        match = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    except OSError:
        match = None
    if match is not None:
        return int(match[1]) * 1024
    import resource  # not on Windows, where no jobs run

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def unknown(reason: str) -> dict[str, Any]:
    """Return a null value with the reason why a fact is unknown."""
    return {"value": None, "reason": reason}


def _slurm_job() -> Any:
    """Return the id of the SLURM job, from the control group if necessary: Snakemake's executor
    removes SLURM's variables from the environment of jobs.
    """
    try:
        group = re.search(
            r"/slurm\S*/job_(\d+)(?:/|$)", Path("/proc/self/cgroup").read_text(), re.M
        )
    except OSError:
        group = None
    return os.environ.get("SLURM_JOB_ID") or (
        group[1] if group else unknown("not run by SLURM, or it does not say so")
    )


def _cpu() -> Any:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or unknown("the system does not name its processor")


def _gpu() -> Any:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return unknown("torch is not loaded, or sees no GPU")
    used = torch.cuda.is_initialized()  # query first: the next line initializes CUDA
    devices = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
    driver = Path("/proc/driver/nvidia/version")
    return {
        "devices": [
            {"name": d.name, "memory_bytes": d.total_memory, "uuid": str(d.uuid)} for d in devices
        ],
        "used": torch.cuda.current_device() if used else unknown("the job used none"),
        "cuda": torch.version.cuda,
        "driver": driver.read_text().splitlines()[0]
        if driver.is_file()
        else unknown("the driver does not name its version"),
    }
