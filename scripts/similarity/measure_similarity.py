"""Measures isotropy and semantic similarity of one layer before and after each post-processing
method, and computes points for figures.
"""

import pandas as pd

from replication.job import Job
from replication.parquet import write_parquet
from replication.similarity.post_processing import measure, pictures, steps
from replication.similarity.spec import SimilarityFacts, SimilaritySpec, TuningFacts
from replication.similarity.token_cloud import read_cloud

with Job(snakemake, SimilaritySpec) as job:
    spec = job.spec
    cloud = read_cloud(spec, job.input)
    tuned = (
        TuningFacts.parse(job.input["tuning"].read_text("utf8")) if "tuning" in job.input else None
    )
    parameters = spec.parameters if tuned is None else tuned.parameters
    job.seeds = {f"run{i}": i for i in range(spec.n_clusterings)}
    rows, pairs, job.measurements = measure(cloud, steps(spec, parameters), spec.clusterer)
    for name, table in {"rows": rows, "pairs": pairs}.items():
        with job.write(name) as path:
            write_parquet(path, table, job.mark)
    plotted_points = (
        pictures(cloud, parameters, spec.clusterer)
        if spec.plotted and parameters is not None
        else pd.DataFrame()
    )
    with job.write("points") as path:
        write_parquet(path, plotted_points, job.mark)
    job.lineage.deviate(spec.deviations)
    facts = SimilarityFacts.of(
        spec,
        job.lineage,
        data=job.lineage.titles("dataset")[0],
        model=job.lineage.titles("model", "vectors")[0],
        parameters=parameters,
        parameters_from="configuration" if tuned is None else f"chosen on {tuned.dataset}",
        n_pairs=len(cloud.pairs),
        n_pairs_all=cloud.n_pairs_all,
        n_sentences=len(cloud.starts) - 1,
        n_tokens=len(cloud.vectors),
        d=cloud.vectors.shape[1],
    )
    with job.write("run") as path:
        facts.write(path)
