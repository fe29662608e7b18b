"""Makes one table, as Parquet, CSV and Markdown."""

import isotropy.forkserver

import pandas as pd

from isotropy.job import Job
from isotropy.tables.runs import read_runs
from isotropy.tables.spec import TableSpec
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    spec = job.spec
    make = job.load("tables")
    arguments = [pd.read_parquet(path) for path in job.inputs("tables")]
    if spec.kind is not None:
        facts = job.load("spec")  # isotropy.tables.runs.FACTS of the table's kind
        arguments.insert(0, read_runs(facts, job.inputs("runs"), job.inputs("rows")))
    if spec.published is not None:
        arguments.append(pd.DataFrame([row.model_dump() for row in spec.published]))
    table = make(*arguments)
    if job.lineage.status == "rehearsal" and "status" in table:
        table["status"] = "rehearsal"
    write_all(job, table)
