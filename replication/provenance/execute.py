"""Run a rule's script without Snakemake: `python -m replication.provenance.execute FILE`, in the
folder of the run.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

from replication.job import NamedPaths


def main(path: Path) -> None:
    """Run the job that a JSON file describes: script, rule, wildcards, spec, code, input, output,
    log, threads, places.
    """
    job = json.loads(path.read_text("utf8"))
    snakemake_object = SimpleNamespace(
        rule=job["rule"],
        params=SimpleNamespace(spec=job["spec"], code=job["code"]),
        input=NamedPaths(dict(job["input"])),
        output=NamedPaths(job["output"]),
        wildcards=NamedPaths(job["wildcards"]),
        log=[job["log"]],
        threads=job["threads"],
        resources=SimpleNamespace(places=job["places"]),
    )
    runpy.run_path(job["script"], init_globals={"snakemake": snakemake_object}, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
