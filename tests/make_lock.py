"""Resolve pyproject.toml and write the lock files: `make lock`, or `make lock ARGS=--upgrade`.

- requirements.lock: what the workflow needs;
- requirements-cuda.lock: what torch's build for CUDA needs besides, on Linux;
- requirements-dev.lock: what tests and linters need besides.

Versions that still fit stay as they are. Each package has the hashes of all its files on PyPI, for
any system. Builds of torch for CPUs are elsewhere: the hash of the one that pip takes here is
added, and those in the lock of the same version are kept.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
LOCKS = {"": "the workflow", "-cuda": "torch's build for CUDA", "-dev": "tests and linters"}
CUDA = re.compile("cuda-|nvidia-|triton")


def main(arguments: list[str]) -> None:
    """Write all lock files; arguments are passed on to `uv pip compile`."""
    locks = {kind: PROJECT / f"requirements{kind}.lock" for kind in LOCKS}
    before = "".join(path.read_text("utf8") for path in locks.values() if path.is_file())
    everything = resolve(before, ["workflow", "dev"], arguments)
    workflow = resolve("".join(everything.values()), ["workflow"], [])
    torch = next(pin for pin in workflow if pin.startswith("torch=="))
    hashes = {*_hashes(before, torch), f"sha256:{_wheel_sha256(torch)}"}
    hashes -= {*_hashes(workflow[torch], torch)}
    added = "".join(f" \\\n    --hash={digest}" for digest in sorted(hashes))
    workflow[torch] = workflow[torch].rstrip("\n") + added + "\n"
    parts = {
        "": {pin: text for pin, text in workflow.items() if not CUDA.match(pin)},
        "-cuda": {pin: text for pin, text in workflow.items() if CUDA.match(pin)},
        "-dev": {pin: text for pin, text in everything.items() if pin not in workflow},
    }
    for kind, entries in parts.items():
        besides = ", besides those of requirements.lock" if kind else ""
        header = f"# Exact versions of what {LOCKS[kind]} needs{besides}. Made by `make lock`.\n"
        locks[kind].write_text(header + "".join(entries.values()), "utf8")


def resolve(preferences: str, extras: list[str], arguments: list[str]) -> dict[str, str]:
    """Resolve the project with extras, for all systems; return the lines of each `name==version`.

    Args:
        preferences: text of a lock file; its versions are kept where they fit.
        extras: names of extras.
        arguments: more arguments for uv.

    Raises:
        subprocess.CalledProcessError: uv fails; its `stderr` says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "lock"
        output.write_text(preferences, "utf8")
        command = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", "--universal"]
        command += ["--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-header"]
        command += [f"--extra={extra}" for extra in extras]
        command += ["--quiet", "--output-file", str(output), *arguments]
        subprocess.run(command, cwd=PROJECT, check=True, stderr=subprocess.PIPE)
        entries = re.split(r"^(?=\S)", output.read_text("utf8"), flags=re.M)
    return {entry.split()[0]: entry for entry in entries if entry}


def _hashes(lock: str, pin: str) -> list[str]:
    """Return the hashes of a package in a lock file."""
    match = re.search(rf"^{re.escape(pin)}[ ;\\].*\n((?: .*\n)*)", lock, re.M)
    return re.findall(r"sha256:\w+", match[1]) if match else []


def _wheel_sha256(pin: str) -> str:
    """Digest the wheel that pip takes here."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "-d", folder]
        subprocess.run([*command, pin], check=True)
        (wheel,) = Path(folder).iterdir()
        return hashlib.sha256(wheel.read_bytes()).hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
