"""Overhead of the workflow: the wall time of finished runs divided by their jobs' work, from
ledger and records.

python benchmarks/overhead.py [FOLDER OF A RUN]...

A job's work is the time in its script, from reading inputs to writing the record; starting Python,
imports, Snakemake's bookkeeping, submission and waiting are overhead. The wall time is that between
the first and the last line of the ledger, so it is meaningful only for uninterrupted runs.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from replication.provenance.record import read_record


def main(folders: list[Path]) -> None:
    """Print a row per run."""
    print(
        "| run | jobs | wall (s) | jobs' work (s) | wall / work |\n| --- | --- | --- | --- | --- |"
    )
    for folder in folders:
        if not (folder / "results/ledger.jsonl").is_file():
            sys.exit(
                f"{folder} has no results/ledger.jsonl: name the folder of an uninterrupted run"
            )
        entries = [
            json.loads(line) for line in (folder / "results/ledger.jsonl").read_text().splitlines()
        ]
        first, last = (datetime.fromisoformat(entries[i]["time"]) for i in (0, -1))
        jobs = [entry["record"] for entry in entries if entry["event"] == "job"]
        work = [read_record(folder / record).seconds for record in jobs]
        wall = (last - first).total_seconds()
        print(f"| {folder} | {len(work)} | {wall:.0f} | {sum(work):.0f} | {wall / sum(work):.2f} |")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]] or [Path()])
