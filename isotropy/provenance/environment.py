"""What did the work: Python, packages, processor, GPU. Facts that are not known are null with a
reason, never guessed.
"""

from __future__ import annotations

import os
import platform
import re
import resource
import socket
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from isotropy.scrub import remove_user

# Distributions whose conda package has another name.
PYPI_NAME = {
    "pytorch": "torch",
    "matplotlib-base": "matplotlib",
    "seaborn-base": "seaborn",
    "msgpack-python": "msgpack",
}


def describe_environment(threads: int) -> dict[str, Any]:
    """Facts about the process that runs a job. Environment variables are not among them: they may
    hold secrets.
    """
    return {
        "python": platform.python_version(),
        "prefix": "conda"
        if (Path(sys.prefix) / "conda-meta").is_dir()
        else "venv"
        if sys.prefix != sys.base_prefix
        else "system",
        "packages": packages(),
        "threads": threads,
        "cpu": _cpu(),
        "cpu_count": os.cpu_count(),
        "gpu": _gpu(),
        "platform": platform.platform(),
        "host": remove_user(socket.gethostname()),
        "slurm_job": _slurm_job(),
    }


def packages() -> dict[str, str]:
    """Installed distributions, normalised name -> version."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(sys.path):  # Snakemake names its own once more
        # Of one name, the first that was found stays: it is the one that is imported
        found = dict(_packages_in(folder, _changed_at(folder))) | found
    return dict(sorted(found.items()))


def _changed_at(folder: str) -> int:
    """When something was installed in a folder, or removed; 0: there is none."""
    try:
        return Path(folder).stat().st_mtime_ns
    except OSError:
        return 0


@cache
def _packages_in(folder: str, _changed_at: int) -> tuple[tuple[str, str], ...]:
    """Distributions in a folder, read once for a process and its forks: that opens a file of
    each.
    """
    found: dict[str, str] = {}
    for distribution in metadata.distributions(path=[folder]):
        described = distribution.metadata  # `.name` and `.version` would parse the file anew
        if described["Name"]:
            found.setdefault(normalized_name(described["Name"]), described["Version"])
    return tuple(found.items())


def normalized_name(name: str) -> str:
    """The one spelling of a distribution's name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def peak_memory_bytes() -> int:
    """Largest resident set of this process so far, in bytes."""
    try:  # getrusage would give that of the process that started this one, where it was larger
        found = re.search(r"^VmHWM:\s+(\d+) kB$", Path("/proc/self/status").read_text(), re.M)
    except OSError:
        found = None
    if found is not None:
        return int(found[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def unknown(reason: str) -> dict[str, Any]:
    """A fact that is not known."""
    return {"value": None, "reason": reason}


def _slurm_job() -> Any:
    """Number of the SLURM job; Snakemake's executor keeps SLURM's variables from jobs, but not
    their control group.
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
    # Forks have torch loaded, whether the job uses it or not: one reason, so that runs compare
    if torch is None or not torch.cuda.is_available():
        return unknown("torch is not loaded, or sees no GPU")
    used = torch.cuda.is_initialized()  # before the next line, which initializes
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
