"""Summarizes the run for the pages of results: jobs, digests, times, and the state of all files."""

from pathlib import Path

from isotropy.files import write_json
from replication.job import Job
from replication.plan.page_spec import RunSpec
from replication.report.run import summarize

with Job(snakemake, RunSpec) as job:
    job.determinism = "once"  # times and machines differ between runs
    summary = summarize(Path(), job.inputs("results"), job.threads)
    for name in ("run", "lineage"):
        with job.write(name) as path:
            write_json(path, getattr(summary, name))
    with job.write("graph") as path:
        path.write_text(summary.graph, "utf8")
