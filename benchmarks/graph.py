"""Time and memory that Snakemake needs to plan a study: dry runs of studies of several sizes.

python benchmarks/graph.py [JOBS]...

It plans the default study with so many seeds of fine-tuning that it has about JOBS jobs (300, 3,000
and 30,000 by default), and config/paper.yaml. Column "graph": time until the jobs are counted;
"all": until all are printed by `--dry-run`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter

PROJECT = Path(__file__).resolve().parents[1]


def dry_run(folder: Path, configfile: Path) -> tuple[int, float, float, float, float]:
    """Make a dry run with the SLURM profile. Return the number of jobs, seconds until they are
    counted and in total, CPU seconds and peak memory (GB).
    """
    command = [
        sys.executable,
        "-m",
        "snakemake",
        "--snakefile",
        str(PROJECT / "Snakefile"),
        "--dry-run",
    ]
    command += [
        "--profile",
        str(PROJECT / "profiles/slurm"),
        "--directory",
        str(folder),
        "--configfile",
        str(configfile),
    ]
    began = perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    graph, shown = 0.0, ""
    for line in process.stdout:
        if not graph and line.startswith("Job stats:"):
            graph = perf_counter() - began
        shown += line
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(shown[-3000:])
    jobs = re.search(r"^total +(\d+)$", shown, re.M)
    assert jobs is not None, shown[-3000:]
    return (
        int(jobs[1]),
        graph,
        perf_counter() - began,
        used.ru_utime + used.ru_stime,
        used.ru_maxrss / 1e6,
    )


def main(sizes: list[int]) -> None:
    """Print a row per study."""
    print(
        "| study | jobs | graph (s) | all (s) | CPU time (s) | memory (GB) |\n| --- | --- | --- | "
        "--- | --- | --- |"
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one_seed = folder / "one.yaml"
        one_seed.write_text("rudman2024: {seeds: [0]}\n")
        two_seeds = folder / "two.yaml"
        two_seeds.write_text("rudman2024: {seeds: [0, 1]}\n")
        first = dry_run(folder, one_seed)[0]
        per_seed = dry_run(folder, two_seeds)[0] - first
        for size in sizes:
            study = folder / f"{size}.yaml"
            study.write_text(
                f"rudman2024: {{seeds: {list(range(1 + round((size - first) / per_seed)))}}}\n"
            )
            show(f"default, about {size:,}", folder, study)
        show("config/paper.yaml", folder, PROJECT / "config/paper.yaml")


def show(name: str, folder: Path, study: Path) -> None:
    """Print the row of a study."""
    jobs, graph, wall, cpu, memory = dry_run(folder, study)
    print(
        f"| {name} | {jobs:,} | {graph:.1f} | {wall:.1f} | {cpu:.1f} | {memory:.2f} |", flush=True
    )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [300, 3000, 30000])
