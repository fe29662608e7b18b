"""Run the tests of the computation on a GPU, by this interpreter or by another one that has torch
already: `python -m tests.gpu --python PATH`.

Needs nothing but the standard library itself. What the other interpreter lacks is named, with the
version to install; without the packages of the workflow only `test_study.py` is skipped.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SAME_NAME = """
filelock hypothesis IsoScore numba numpy pandas pandera pyarrow pydantic pydantic_core
typeguard pytest safetensors scipy threadpoolctl tokenizers torch tqdm transformers
"""
MODULES = {name: name for name in SAME_NAME.split()} | {
    "annotated_types": "annotated-types",
    "jinja2": "Jinja2",
    "pytest_timeout": "pytest-timeout",
    "sklearn": "scikit-learn",
    "typing_inspect": "typing-inspect",
    "typing_inspection": "typing-inspection",
    "yaml": "PyYAML",
}
"""Modules that the tests import, and their distributions."""


def main() -> int:
    """Look for the modules, run the tests, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="interpreter to test")
    parser.add_argument("arguments", nargs="*", help="more arguments for pytest, after --")
    options = parser.parse_args()
    look = (
        "import importlib.util as u, sys; print(*(m for m in sys.argv[1:] if not u.find_spec(m)))"
    )
    result = subprocess.run(
        [options.python, "-c", look, *MODULES], check=True, capture_output=True, text=True
    )
    if missing := result.stdout.split():
        print(f"{options.python} lacks:", *(pinned(MODULES[m]) for m in missing))
        print("Install these, or unpack their wheels into a folder of PYTHONPATH.")
        return 1
    tests = ["-p", "no:cacheprovider", "tests/gpu"]
    command = [options.python, "-m", "pytest", *tests, *options.arguments]
    return subprocess.run(command, cwd=PROJECT).returncode


def pinned(distribution: str) -> str:
    """Return a distribution with its version in requirements.lock."""
    lock = (PROJECT / "requirements.lock").read_text("utf8")
    pattern = re.escape(distribution).replace("_", "[-_]").replace(r"\-", "[-_]")
    match = re.search(rf"^{pattern}==\S+", lock, re.MULTILINE | re.IGNORECASE)
    return match[0] if match else distribution


if __name__ == "__main__":
    sys.exit(main())
