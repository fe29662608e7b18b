"""Makes the geometry of one layer of a model on a corpus: cosines, clusters, local dimension,
pictures.
"""

import pandas as pd

from isotropy.embed.layers import read_tokens
from isotropy.geometry.layers import measure_layer, pictures, principal_axes
from isotropy.geometry.spec import LayerFacts, LayerSpec
from isotropy.geometry.token_types import read_typed
from isotropy.job import Job
from isotropy.parquet import write_parquet

with Job(snakemake, LayerSpec) as job:
    spec = job.spec
    job.seeds = {f"seed{s}": s for s in spec.seeds}
    rows, tried, drawn = [], [], pd.DataFrame()
    shown = "subwords" if "subwords" in spec.types else spec.types[0]
    for types in spec.types:
        cloud = read_typed(job.input["tokens"], spec.layer, spec.window, types)
        axes = principal_axes(cloud.vectors)
        for seed in spec.seeds:
            found = measure_layer(cloud, axes, spec, seed)
            rows.append({"types": types, "seed": seed, **found.scores})
            tried += [
                {"types": types, "seed": seed, "k": k, "silhouette": s}
                for k, s in found.silhouettes.items()
            ]
            if seed == spec.seeds[0] and types == shown:
                drawn = pictures(cloud, axes, found.clusters, spec.n_points).assign(types=types)
    for name, table in {"rows": rows, "silhouettes": tried, "points": drawn}.items():
        with job.write(name) as path:
            write_parquet(path, pd.DataFrame(table), job.mark)
    deviations = job.load("protocol")
    job.lineage.deviate(deviations(spec))
    facts = LayerFacts(
        dataset=spec.dataset,
        embedding=spec.model,
        layer=spec.layer,
        data=job.lineage.titles("corpus")[0],
        model=job.lineage.titles("model")[0],
        status=job.lineage.status,
        deviations=job.lineage.deviations,
        window=spec.window,
        n_windows=len(read_tokens(job.input["tokens"])) // spec.window,
        d=cloud.vectors.shape[1],
        lid_k=spec.lid.k,
        n_components=spec.clustering.n_components,
        threshold=spec.clustering.threshold,
    )
    with job.write("run") as path:
        path.write_text(facts.canonical() + "\n", "utf8")
