"""geometry: measurements of point clouds. Needs: embeddings, unless the cloud is sampled from a
distribution; token vectors; static vectors. Gives: results/geometry/{paper}/{cloud}.parquet, a row
per sample and zeta; results/geometry/{paper}/{dataset}/{model}/{layer}.parquet and
vectors/{vectors}.parquet, a row per kind of types, variant and seed; .silhouettes and .points for
figures;
results/geometry/{paper}/contexts/{texts}/{model}/{layer}.parquet, a row per unit and variant;
.words, .dimensions; results/geometry/{paper}/static/{texts}/{model}.parquet, a row per layer,
benchmark and pair; facts as JSON."""


rule measure_stability:
    """IsoScore* by sample size and shrinkage (Rudman & Eickhoff 2024, poster, Figure 4)."""
    input:
        unpack(inputs("geometry/{paper}/{cloud}")),
    output:
        scores="results/geometry/{paper}/{cloud}.parquet",
        run="results/geometry/{paper}/{cloud}.json",
        record="results/geometry/{paper}/{cloud}.record.json",
    log:
        "results/logs/geometry/{paper}/{cloud}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("geometry/{paper}/{cloud}"),
        runtime=minutes_for("geometry/{paper}/{cloud}"),
    params:
        spec=spec("geometry/{paper}/{cloud}"),
        code=code("measure_stability"),
    script:
        "../scripts/geometry/measure_stability.py"


rule measure_layer:
    """Cosines, clusters and local dimension of a layer (Cai et al. 2021, sections 3 to 5)."""
    input:
        unpack(inputs("geometry/{paper}/{dataset}/{model}/{layer}")),
    output:
        rows="results/geometry/{paper}/{dataset}/{model}/{layer}.parquet",
        silhouettes="results/geometry/{paper}/{dataset}/{model}/{layer}.silhouettes.parquet",
        points="results/geometry/{paper}/{dataset}/{model}/{layer}.points.parquet",
        run="results/geometry/{paper}/{dataset}/{model}/{layer}.json",
        record="results/geometry/{paper}/{dataset}/{model}/{layer}.record.json",
    log:
        "results/logs/geometry/{paper}/{dataset}/{model}/{layer}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("geometry/{paper}/{dataset}/{model}/{layer}"),
        runtime=minutes_for("geometry/{paper}/{dataset}/{model}/{layer}"),
    params:
        spec=spec("geometry/{paper}/{dataset}/{model}/{layer}"),
        code=code("measure_layer"),
    script:
        "../scripts/geometry/measure_layer.py"


rule measure_vectors:
    """Local intrinsic dimension of static vectors (Cai et al. 2021, Table 3)."""
    input:
        unpack(inputs("geometry/{paper}/vectors/{vectors}")),
    output:
        rows="results/geometry/{paper}/vectors/{vectors}.parquet",
        run="results/geometry/{paper}/vectors/{vectors}.json",
        record="results/geometry/{paper}/vectors/{vectors}.record.json",
    log:
        "results/logs/geometry/{paper}/vectors/{vectors}.log",
    wildcard_constraints:
        vectors=alternatives(VECTORS),
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("geometry/{paper}/vectors/{vectors}"),
        runtime=minutes_for("geometry/{paper}/vectors/{vectors}"),
    params:
        spec=spec("geometry/{paper}/vectors/{vectors}"),
        code=code("measure_vectors", "geometry/{paper}/vectors/{vectors}"),
    script:
        "../scripts/geometry/measure_vectors.py"


rule measure_contexts:
    """Self-similarity, intra-sentence similarity, explainable variance and dimensions of a layer
    (Ethayarajh 2019, section 3; Timkey & van Schijndel 2021)."""
    input:
        unpack(inputs("geometry/{paper}/contexts/{texts}/{model}/{layer}")),
    output:
        rows="results/geometry/{paper}/contexts/{texts}/{model}/{layer}.parquet",
        words="results/geometry/{paper}/contexts/{texts}/{model}/{layer}.words.parquet",
        dimensions="results/geometry/{paper}/contexts/{texts}/{model}/{layer}.dimensions.parquet",
        run="results/geometry/{paper}/contexts/{texts}/{model}/{layer}.json",
        record="results/geometry/{paper}/contexts/{texts}/{model}/{layer}.record.json",
    log:
        "results/logs/geometry/{paper}/contexts/{texts}/{model}/{layer}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("geometry/{paper}/contexts/{texts}/{model}/{layer}"),
        runtime=minutes_for("geometry/{paper}/contexts/{texts}/{model}/{layer}"),
    params:
        spec=spec("geometry/{paper}/contexts/{texts}/{model}/{layer}"),
        code=code("measure_contexts"),
    script:
        "../scripts/geometry/measure_contexts.py"


rule measure_static_words:
    """Static vectors from layers of a model on word similarity (Ethayarajh 2019, section 4.3)."""
    input:
        unpack(inputs("geometry/{paper}/static/{texts}/{model}")),
    output:
        rows="results/geometry/{paper}/static/{texts}/{model}.parquet",
        run="results/geometry/{paper}/static/{texts}/{model}.json",
        record="results/geometry/{paper}/static/{texts}/{model}.record.json",
    log:
        "results/logs/geometry/{paper}/static/{texts}/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("geometry/{paper}/static/{texts}/{model}"),
        runtime=minutes_for("geometry/{paper}/static/{texts}/{model}"),
    params:
        spec=spec("geometry/{paper}/static/{texts}/{model}"),
        code=code("measure_static_words", "geometry/{paper}/static/{texts}/{model}"),
    script:
        "../scripts/geometry/measure_static_words.py"
