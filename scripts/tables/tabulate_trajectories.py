"""Makes the long table of all trajectories of a paper."""

from isotropy.job import Job
from isotropy.tables.catalogue import TableSpec
from isotropy.tables.mickus2024 import read_runs, trajectories
from isotropy.tables.write import write_all

with Job(snakemake, TableSpec) as job:
    write_all(job, trajectories(read_runs(job.inputs("runs"), job.inputs("trajectories"))))
