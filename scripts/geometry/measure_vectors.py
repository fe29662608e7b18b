"""Measures the local intrinsic dimension of static vectors."""

import numpy as np
import pandas as pd

from replication.geometry.lid import lid_by_type, lid_scores
from replication.geometry.spec import VectorsFacts, VectorsSpec
from replication.job import Job
from replication.parquet import write_parquet
from replication.sources.formats import read_vectors
from replication.sources.spec import read_fetched

with Job(snakemake, VectorsSpec) as job:
    spec, source = job.spec, job.input["vectors_source"]
    job.seeds = {f"seed{s}": s for s in spec.seeds}
    vectors = read_vectors(read_fetched(source).content, source).vectors
    types = np.arange(len(vectors))  # each word has one vector
    rows = [
        {
            "seed": seed,
            **lid_scores(vectors, spec.lid, seed),
            **lid_by_type(vectors, types, spec.lid, seed),
        }
        for seed in spec.seeds
    ]
    with job.write("rows") as path:
        write_parquet(path, pd.DataFrame(rows), job.mark)
    job.lineage.deviate(spec.deviations)
    facts = VectorsFacts.of(
        spec,
        job.lineage,
        embedding=spec.vectors,
        model=job.lineage.titles("vectors")[0],
        n=len(vectors),
        d=vectors.shape[1],
        lid_k=spec.lid.k,
    )
    with job.write("run") as path:
        facts.write(path)
