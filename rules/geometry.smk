"""geometry: measurements of point clouds. Needs: embeddings, unless the cloud is drawn; token vectors; static vectors.
Gives: results/geometry/rudman2024/{cloud}.parquet, a row per sample and zeta; results/geometry/cai2021/{dataset}/{model}/
{layer}.parquet and vectors/{vectors}.parquet, a row per seed; .silhouettes, .points: pictures; facts as JSON.
"""


rule measure_stability:
    """IsoScore* against sample size and shrinkage (rudman2024, poster, Figure 4)."""
    input:
        unpack(inputs("geometry/rudman2024/{cloud}")),
    output:
        scores="results/geometry/rudman2024/{cloud}.parquet",
        run="results/geometry/rudman2024/{cloud}.json",
        record="results/geometry/rudman2024/{cloud}.record.json",
    log:
        "results/logs/geometry/rudman2024/{cloud}.log",
    benchmark:
        "results/logs/geometry/rudman2024/{cloud}.jsonl"
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(2000),
        runtime=doubles_with_attempt(60),
    params:
        spec=spec("geometry/rudman2024/{cloud}"),
        code=code("measure_stability"),
    script:
        "../scripts/geometry/measure_stability.py"


rule measure_layer:
    """Cosines, clusters and local dimension of a layer (cai2021, sections 3 to 5)."""
    input:
        unpack(inputs("geometry/cai2021/{dataset}/{model}/{layer}")),
    output:
        rows="results/geometry/cai2021/{dataset}/{model}/{layer}.parquet",
        silhouettes="results/geometry/cai2021/{dataset}/{model}/{layer}.silhouettes.parquet",
        points="results/geometry/cai2021/{dataset}/{model}/{layer}.points.parquet",
        run="results/geometry/cai2021/{dataset}/{model}/{layer}.json",
        record="results/geometry/cai2021/{dataset}/{model}/{layer}.record.json",
    log:
        "results/logs/geometry/cai2021/{dataset}/{model}/{layer}.log",
    benchmark:
        "results/logs/geometry/cai2021/{dataset}/{model}/{layer}.jsonl"
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(layer_memory),
        runtime=doubles_with_attempt(600),
    params:
        spec=spec("geometry/cai2021/{dataset}/{model}/{layer}"),
        code=code("measure_layer"),
    script:
        "../scripts/geometry/measure_layer.py"


rule measure_vectors:
    """Local dimension of static vectors (cai2021, Table 3)."""
    input:
        vectors_source=inputs("geometry/cai2021/vectors/{vectors}", "vectors_source"),
    output:
        rows="results/geometry/cai2021/vectors/{vectors}.parquet",
        run="results/geometry/cai2021/vectors/{vectors}.json",
        record="results/geometry/cai2021/vectors/{vectors}.record.json",
    log:
        "results/logs/geometry/cai2021/vectors/{vectors}.log",
    benchmark:
        "results/logs/geometry/cai2021/vectors/{vectors}.jsonl"
    wildcard_constraints:
        vectors=alternatives(VECTORS),
    conda:
        "../envs/geometry.yaml"
    threads: 1
    resources:
        mem_mb=doubles_with_attempt(28000),
        runtime=doubles_with_attempt(600),
    params:
        spec=spec("geometry/cai2021/vectors/{vectors}"),
        code=code("measure_vectors"),
    script:
        "../scripts/geometry/measure_vectors.py"
