"""Makes one table, as Parquet, CSV and Markdown."""

import pandas as pd

from isotropy.job import Job
from isotropy.papers.locations import package
from isotropy.tables.runs import FACTS, read_runs
from isotropy.tables.spec import TableSpec
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    spec = job.spec
    make = job.load(f"{package(spec.id.split('/')[0])}.tables:{spec.function}")
    arguments = [pd.read_parquet(path) for path in job.inputs("tables")]
    if spec.kind is not None:
        kind = job.load(FACTS[spec.kind])
        arguments.insert(0, read_runs(kind, job.inputs("runs"), job.inputs("rows")))
    if spec.published is not None:
        arguments.append(pd.DataFrame([row.model_dump() for row in spec.published]))
    write_all(job, make(*arguments))
