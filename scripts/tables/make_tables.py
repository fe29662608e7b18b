"""Makes the tables of a paper, each as Parquet, CSV and Markdown."""

import pandas as pd

from replication.job import jobs
from replication.tables.runs import read_runs
from replication.tables.spec import TableSpec
from replication.tables.write import write_all

for job in jobs(snakemake, TableSpec):
    with job:
        spec = job.spec
        make = getattr(job.load("tables"), spec.function)
        arguments = [pd.read_parquet(path) for path in job.inputs("tables")]
        if spec.kind is not None:
            arguments.insert(0, read_runs(spec.kind, job.inputs("runs"), job.inputs("rows")))
        if spec.published is not None:
            arguments.append(pd.DataFrame([row.model_dump() for row in spec.published]))
        table = make(*arguments)
        write_all(job, table)
