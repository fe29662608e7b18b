"""What the workflow itself costs: the wall time of finished runs over their jobs' own work, from
ledger and records.

python benchmarks/overhead.py [FOLDER OF A RUN]...

A job's own work is the time in its script, from reading inputs to writing the record; starting
Python, importing, Snakemake's bookkeeping, submission and waiting are overhead. The wall time is
that from the first line of the ledger to the last: it says something of runs that were made in one
go.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path

from isotropy.provenance.record import read_record


def main(folders: list[Path]) -> None:
    """Print a row per run."""
    print(
        "| run | jobs | wall (s) | jobs' own work (s) | wall / own work |\n| --- | --- | --- | "
        "--- | --- |"
    )
    for folder in folders:
        if not (folder / "results/ledger.jsonl").is_file():
            sys.exit(
                f"{folder} has no results/ledger.jsonl: name the folder of a run that was made in "
                "one go"
            )
        entries = [
            json.loads(line) for line in (folder / "results/ledger.jsonl").read_text().splitlines()
        ]
        first, last = (datetime.fromisoformat(entries[i]["time"]) for i in (0, -1))
        jobs = [entry["record"] for entry in entries if entry["event"] == "job"]
        own = [read_record(folder / record).seconds for record in jobs]
        wall = (last - first).total_seconds()
        print(f"| {folder} | {len(own)} | {wall:.0f} | {sum(own):.0f} | {wall / sum(own):.2f} |")


if __name__ == "__main__":
    main([Path(argument) for argument in sys.argv[1:]] or [Path()])
