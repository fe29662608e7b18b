"""Makes the scorecard: each headline claim by model."""

import pandas as pd

from isotropy.claims.scorecard import scorecard
from isotropy.claims.spec import ScorecardSpec
from isotropy.files import record_of
from isotropy.job import Job
from isotropy.provenance.record import read_record
from isotropy.tables.write import write_all

with Job(snakemake, ScorecardSpec) as job:
    paths = dict(zip(job.spec.attempted, job.inputs("tables"), strict=True))
    table = scorecard(
        job.spec.claims,
        {name: pd.read_parquet(path) for name, path in paths.items()},
        {name: read_record(record_of(path)).id for name, path in paths.items()},
        f"the {job.spec.study} study leaves that part of the paper out",
        job.spec.model_columns,
    )
    write_all(job, table)
