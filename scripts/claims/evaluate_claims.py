"""Evaluates every claim of the papers against our numbers and writes the verdicts."""

import pandas as pd

from isotropy.files import record_path
from replication.claims.evaluate import evaluate
from replication.claims.spec import ClaimsSpec
from replication.claims.wording import readable
from replication.job import Job
from replication.parquet import write_parquet
from replication.provenance.record import read_record
from replication.tables.write import write_csv, write_markdown

with Job(snakemake, ClaimsSpec) as job:
    paths = dict(zip(job.spec.attempted, job.inputs("tables"), strict=True))
    verdicts = evaluate(
        job.spec.claims,
        {name: pd.read_parquet(path) for name, path in paths.items()},
        {name: read_record(record_path(path)).id for name, path in paths.items()},
        f"the {job.spec.study} study leaves that part of the paper out",
    )
    with job.write("parquet") as path:
        write_parquet(path, verdicts, job.mark)
    with job.write("csv") as path:
        write_csv(path, verdicts)
    with job.write("markdown") as path:
        write_markdown(path, readable(verdicts), job.mark)
