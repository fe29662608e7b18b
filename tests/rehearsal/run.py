"""Rehearse the full-scale study on synthetic models and data.

python -m tests.rehearsal.run [--cores N] [--mirror MIRROR] [ARGUMENTS FOR SNAKEMAKE...]

It writes a hub, serves it, runs the study, and lists empty cells and results without the status
`rehearsal`. Hub, registry and results are below `.rehearsal/`. The user's hub cache is not
used, because the synthetic files have the names and revisions of real ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from isotropy.errors import IsotropyError
from tests.conftest import PROJECT
from tests.rehearsal.empty import report
from tests.rehearsal.make_hub import STATUS, make
from tests.rehearsal.serve import served

FOLDER = PROJECT / ".rehearsal"
STUDY = FOLDER / "study"
CONFIGFILES = ["config/paper.yaml", "config/rehearsal.yaml"]


def main(cores: str, mirror: Path | None, arguments: list[str]) -> int:
    """Run the rehearsal.

    Args:
        cores: value of Snakemake's --cores.
        mirror: a mirror of official data, whose first rows are taken; None: all is synthetic.
        arguments: further arguments for Snakemake.

    Returns:
        The exit status: Snakemake's if it failed, 1 for empty cells without a reason or results
        without the status `rehearsal`, else 0.
    """
    with served(FOLDER) as address:  # first: if the port is taken, the hub is in use
        make(FOLDER, mirror)
        STUDY.mkdir(exist_ok=True)
        completed = subprocess.run(
            snakemake(cores, *arguments),
            cwd=PROJECT,
            env={**os.environ, "HF_ENDPOINT": address, "HF_HOME": str(FOLDER / "cache")},
        )
    if completed.returncode:
        return completed.returncode
    states = statuses(STUDY / "results")
    wrong = [f"{path}: status {status}" for path, status in states.items() if status != STATUS]
    print(f"{len(states)} records, {len(wrong)} without the status {STATUS}", *wrong, sep="\n")
    return report(STUDY) or int(bool(wrong))


def statuses(results: Path) -> dict[Path, str]:
    """Read the lineage status of each record below a folder of results."""
    paths = sorted(results.rglob("*.record.json"))
    return {path: json.loads(path.read_text("utf8"))["lineage"]["status"] for path in paths}


def snakemake(cores: str, *arguments: str) -> list[str]:
    """Return the Snakemake command that runs the study."""
    command = [sys.executable, "-m", "snakemake", "--cores", cores, "--quiet", "rules"]
    command += ["--directory", str(STUDY), "--scheduler", "greedy", *arguments]
    return [*command, "--configfile", *CONFIGFILES]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cores", default="all", help="for Snakemake (default: all)")
    parser.add_argument("--mirror", type=Path, help="folder of real data (first rows are used)")
    given, rest = parser.parse_known_args()
    try:
        sys.exit(main(given.cores, given.mirror, rest))
    except IsotropyError as error:
        sys.exit(f"error: {error}")
