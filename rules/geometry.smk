"""geometry: measurements of point clouds. Needs: embeddings, unless the cloud is drawn; token
vectors; static vectors. Gives: results/geometry/{paper}/{cloud}.parquet, a row per sample and zeta;
results/geometry/{paper}/{dataset}/{model}/{layer}.parquet and vectors/{vectors}.parquet, a row per
kind of types, variant and seed; .silhouettes, .points: pictures; facts as JSON."""


rule measure_stability:
    """IsoScore* against sample size and shrinkage (Rudman & Eickhoff 2024, poster, Figure 4)."""
    input:
        unpack(inputs("geometry/{paper}/{cloud}")),
    output:
        scores="results/geometry/{paper}/{cloud}.parquet",
        run="results/geometry/{paper}/{cloud}.json",
        record="results/geometry/{paper}/{cloud}.record.json",
    log:
        "results/logs/geometry/{paper}/{cloud}.log",
    benchmark:
        "results/logs/geometry/{paper}/{cloud}.jsonl"
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(2000),
        runtime=doubles_with_attempt(60),
    params:
        spec=spec("geometry/{paper}/{cloud}"),
        code=code("measure_stability", protocol("stability_deviations")),
    script:
        "../scripts/geometry/measure_stability.py"


rule measure_layer:
    """Cosines, clusters and local dimension of a layer (Cai et al. 2021, sections 3 to 5)."""
    input:
        tokens="results/embed/{dataset}/tokens/{model}",
    output:
        rows="results/geometry/{paper}/{dataset}/{model}/{layer}.parquet",
        silhouettes="results/geometry/{paper}/{dataset}/{model}/{layer}.silhouettes.parquet",
        points="results/geometry/{paper}/{dataset}/{model}/{layer}.points.parquet",
        run="results/geometry/{paper}/{dataset}/{model}/{layer}.json",
        record="results/geometry/{paper}/{dataset}/{model}/{layer}.record.json",
    log:
        "results/logs/geometry/{paper}/{dataset}/{model}/{layer}.log",
    benchmark:
        "results/logs/geometry/{paper}/{dataset}/{model}/{layer}.jsonl"
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(layer_memory),
        runtime=doubles_with_attempt(600),
    params:
        spec=spec("geometry/{paper}/{dataset}/{model}/{layer}"),
        code=code("measure_layer", protocol("layer_deviations")),
    script:
        "../scripts/geometry/measure_layer.py"


rule measure_vectors:
    """Local dimension of static vectors (Cai et al. 2021, Table 3)."""
    input:
        vectors_source="results/fetch/{vectors}",
    output:
        rows="results/geometry/{paper}/vectors/{vectors}.parquet",
        run="results/geometry/{paper}/vectors/{vectors}.json",
        record="results/geometry/{paper}/vectors/{vectors}.record.json",
    log:
        "results/logs/geometry/{paper}/vectors/{vectors}.log",
    benchmark:
        "results/logs/geometry/{paper}/vectors/{vectors}.jsonl"
    wildcard_constraints:
        vectors=alternatives(VECTORS),
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(28000),
        runtime=doubles_with_attempt(600),
    params:
        spec=spec("geometry/{paper}/vectors/{vectors}"),
        code=code("measure_vectors", protocol("vectors_deviations"), readers),
    script:
        "../scripts/geometry/measure_vectors.py"
