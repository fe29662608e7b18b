"""Run a rule's script without Snakemake: `python -m isotropy.provenance.execute JOB.json`, in the
folder of the run.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

from isotropy.job import Named


def main(path: Path) -> None:
    """Run the job that a JSON file describes: script, rule, wildcards, spec, code, input, output,
    log, threads.
    """
    job = json.loads(path.read_text("utf8"))
    given = SimpleNamespace(
        rule=job["rule"],
        params=SimpleNamespace(spec=job["spec"], code=job["code"]),
        input=Named(dict(job["input"])),
        output=Named(job["output"]),
        wildcards=Named(job["wildcards"]),
        log=[job["log"]],
        threads=job["threads"],
    )
    runpy.run_path(job["script"], init_globals={"snakemake": given}, run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
