"""Makes Table 1 of Mickus et al. (2024): items and trainable parameters per setup."""

import pandas as pd

from isotropy.job import Job
from isotropy.tables.catalogue import TableSpec
from isotropy.tables.mickus2024 import read_runs, table1
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    published = pd.DataFrame([row.model_dump() for row in job.spec.published])
    write_all(job, table1(read_runs(job.inputs("runs"), job.inputs("trajectories")), published))
