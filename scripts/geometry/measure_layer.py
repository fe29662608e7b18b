"""Measures the geometry of one layer of a model on a corpus: cosines, clusters, local dimension and
points for figures.
"""

from replication.embed.layers import read_tokens
from replication.geometry.layers import measure_layer_variants
from replication.geometry.spec import LayerFacts, LayerSpec
from replication.job import Job
from replication.parquet import write_parquet

with Job(snakemake, LayerSpec) as job:
    spec = job.spec
    job.seeds = {f"seed{s}": s for s in spec.seeds}
    layer = measure_layer_variants(job.input["tokens"], spec)
    for name in ("rows", "silhouettes", "points"):
        with job.write(name) as path:
            write_parquet(path, getattr(layer, name), job.mark)
    job.lineage.deviate(spec.deviations)
    facts = LayerFacts.of(
        spec,
        job.lineage,
        embedding=spec.model,
        data=job.lineage.titles("corpus")[0],
        model=job.lineage.titles("model")[0],
        n_windows=len(read_tokens(job.input["tokens"])) // spec.window,
        d=layer.d,
        lid_k=spec.lid.k,
        n_components=spec.clustering.n_components,
        threshold=spec.clustering.threshold,
    )
    with job.write("run") as path:
        facts.write(path)
