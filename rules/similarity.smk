"""similarity: post-processed representations. Needs: prepared pairs, and token vectors or static
vectors. Gives: results/similarity/{paper}/{dataset}/{embedding}/{layer}.parquet, a row per method
and run; .points for figures; facts as JSON."""


rule measure_similarity:
    """Isotropy and similarity before and after each method (Rajaee & Pilehvar 2021, sections 3 and
    4). One thread: layers run in parallel."""
    input:
        unpack(inputs("similarity/{paper}/{dataset}/{embedding}/{layer}")),
    output:
        rows="results/similarity/{paper}/{dataset}/{embedding}/{layer}.parquet",
        pairs="results/similarity/{paper}/{dataset}/{embedding}/{layer}.pairs.parquet",
        points="results/similarity/{paper}/{dataset}/{embedding}/{layer}.points.parquet",
        run="results/similarity/{paper}/{dataset}/{embedding}/{layer}.json",
        record="results/similarity/{paper}/{dataset}/{embedding}/{layer}.record.json",
    log:
        "results/logs/similarity/{paper}/{dataset}/{embedding}/{layer}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("similarity/{paper}/{dataset}/{embedding}/{layer}"),
        runtime=minutes_for("similarity/{paper}/{dataset}/{embedding}/{layer}"),
    params:
        spec=spec("similarity/{paper}/{dataset}/{embedding}/{layer}"),
        code=code(
            "measure_similarity", "similarity/{paper}/{dataset}/{embedding}/{layer}"
        ),
    script:
        "../scripts/similarity/measure_similarity.py"


rule tune_similarity:
    """Best numbers of clusters and components (Rajaee & Pilehvar 2021, appendix B.2)."""
    input:
        unpack(inputs("similarity/{paper}/{dataset}/{embedding}/{layer}-tuning")),
    output:
        trials="results/similarity/{paper}/{dataset}/{embedding}/{layer}-tuning.parquet",
        tuned="results/similarity/{paper}/{dataset}/{embedding}/{layer}-tuning.json",
        record="results/similarity/{paper}/{dataset}/{embedding}/{layer}-tuning.record.json",
    log:
        "results/logs/similarity/{paper}/{dataset}/{embedding}/{layer}-tuning.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=memory_for("similarity/{paper}/{dataset}/{embedding}/{layer}-tuning"),
        runtime=minutes_for("similarity/{paper}/{dataset}/{embedding}/{layer}-tuning"),
    params:
        spec=spec("similarity/{paper}/{dataset}/{embedding}/{layer}-tuning"),
        code=code(
            "tune_similarity",
            "similarity/{paper}/{dataset}/{embedding}/{layer}-tuning",
        ),
    script:
        "../scripts/similarity/tune_similarity.py"


rule classify_frozen:
    """Classification on frozen features (Rajaee & Pilehvar 2021, section 4.2)."""
    input:
        unpack(inputs("similarity/{paper}/classification/{task}/{model}")),
    output:
        rows="results/similarity/{paper}/classification/{task}/{model}.parquet",
        answers="results/similarity/{paper}/classification/{task}/{model}.answers.parquet",
        run="results/similarity/{paper}/classification/{task}/{model}.json",
        record="results/similarity/{paper}/classification/{task}/{model}.record.json",
    log:
        "results/logs/similarity/{paper}/classification/{task}/{model}.log",
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        gpu=gpus(),
        mem_mb=memory_for("similarity/{paper}/classification/{task}/{model}"),
        runtime=minutes_for("similarity/{paper}/classification/{task}/{model}"),
    params:
        spec=spec("similarity/{paper}/classification/{task}/{model}"),
        code=code("classify_frozen"),
    script:
        "../scripts/similarity/classify_frozen.py"
