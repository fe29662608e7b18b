"""Makes the scorecard: the verdict on each statement, by model."""

import pandas as pd

from isotropy.files import record_path
from replication.claims.scorecard import scorecard
from replication.claims.spec import ScorecardSpec
from replication.job import Job
from replication.provenance.lineage import titles_by_id
from replication.provenance.record import read_record
from replication.tables.write import write_all

with Job(snakemake, ScorecardSpec) as job:
    paths = dict(zip(job.spec.attempted, job.inputs("tables"), strict=True))
    table = scorecard(
        job.spec.claims,
        {name: pd.read_parquet(path) for name, path in paths.items()},
        {name: read_record(record_path(path)).id for name, path in paths.items()},
        f"the {job.spec.study} study leaves that part of the paper out",
        job.spec.model_columns,
        titles_by_id(job.lineage.sources),
    )
    write_all(job, table)
