"""geometry: measurements of point clouds. Needs: embeddings, unless the cloud is drawn.
Gives: results/geometry/rudman2024/{cloud}.parquet, a row per sample and zeta, and facts as JSON.
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
        mem_mb=2000,
        runtime=60,
    params:
        spec=spec("geometry/rudman2024/{cloud}"),
        code=code("measure_stability"),
    script:
        "../scripts/geometry/measure_stability.py"
