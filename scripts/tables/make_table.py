"""Makes one table, as Parquet, CSV and Markdown."""

from importlib import import_module

import pandas as pd

from isotropy.job import Job
from isotropy.tables.catalogue import TableSpec
from isotropy.tables.runs import read_runs
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    paper = job.spec.id.split("/")[0]
    make = getattr(import_module(f"isotropy.tables.{paper}"), job.spec.function)
    arguments = [pd.read_parquet(path) for path in job.inputs("tables")]
    if job.spec.runs is not None:
        arguments.insert(0, read_runs(job.spec.runs, job.inputs("runs"), job.inputs("rows")))
    if job.spec.published is not None:
        arguments.append(pd.DataFrame([row.model_dump() for row in job.spec.published]))
    write_all(job, make(*arguments))
