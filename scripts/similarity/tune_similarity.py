"""Selects the numbers of clusters and components for one layer: those with the highest Spearman
correlation on tuning data.
"""

from replication.job import Job
from replication.parquet import write_parquet
from replication.similarity.post_processing import tune
from replication.similarity.spec import TuningFacts, TuningSpec
from replication.similarity.token_cloud import read_cloud

with Job(snakemake, TuningSpec) as job:
    table, best_parameters = tune(read_cloud(job.spec, job.input), job.spec)
    with job.write("trials") as path:
        write_parquet(path, table, job.mark)
    tuned = TuningFacts.of(
        job.spec,
        job.lineage,
        parameters=best_parameters,
        dataset=job.lineage.titles("dataset")[0],
    )
    with job.write("tuned") as path:
        tuned.write(path)
