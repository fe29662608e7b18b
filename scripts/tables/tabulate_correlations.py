"""Makes the table of correlations between IsoScore and silhouette of Mickus et al. (2024), section 3.2."""

import pandas as pd

from isotropy.job import Job
from isotropy.tables.catalogue import TableSpec
from isotropy.tables.mickus2024 import correlations
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    published = pd.DataFrame([row.model_dump() for row in job.spec.published])
    write_all(job, correlations(pd.read_parquet(job.input["trajectories"]), published))
