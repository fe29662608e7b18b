"""Measures IsoScore* of samples of a point cloud, by sample size and shrinkage."""

from safetensors.numpy import load_file

from replication.geometry.spec import StabilityFacts, StabilitySpec
from replication.geometry.stability import sample_scores
from replication.job import Job
from replication.parquet import write_parquet

with Job(snakemake, StabilitySpec) as job:
    spec = job.spec
    embeddings = (
        load_file(job.input["embeddings"])["vectors"] if "embeddings" in job.input else None
    )
    rows, cloud_isoscore, n_shrinkage_points = sample_scores(spec, embeddings)
    job.lineage.deviate(spec.deviations)
    description = f"a normal cloud in {spec.cloud.d} dimensions with IsoScore {spec.cloud.isoscore}"
    with job.write("scores") as path:
        write_parquet(path, rows, job.mark)
    facts = StabilityFacts.of(
        spec,
        job.lineage,
        data=description if embeddings is None else job.lineage.titles("dataset", "lexicon")[0],
        embedding="" if embeddings is None else job.lineage.titles("model", "vectors")[0],
        d=spec.cloud.d if embeddings is None else embeddings.shape[1],
        isoscore=cloud_isoscore,
        shrinkage_points=n_shrinkage_points,
    )
    with job.write("run") as path:
        facts.write(path)
