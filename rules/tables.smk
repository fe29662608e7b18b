"""tables: numbers in the papers' shapes, published values beside ours. Needs: trajectories.
Gives: results/tables/{paper}/{table}.parquet, .csv and .md."""


rule tabulate_trajectories:
    """All trajectories in one table: the numbers behind Figures 2 and 3 (mickus2024, section 3.2)."""
    input:
        runs=run_files("json"),
        trajectories=run_files("parquet"),
    output:
        parquet="results/tables/mickus2024/trajectories.parquet",
        csv="results/tables/mickus2024/trajectories.csv",
        markdown="results/tables/mickus2024/trajectories.md",
        record="results/tables/mickus2024/trajectories.record.json",
    log:
        "results/logs/tables/mickus2024/trajectories.log",
    benchmark:
        "results/logs/tables/mickus2024/trajectories.jsonl"
    conda:
        "../envs/tables.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=table_spec("mickus2024/trajectories"),
        code=code("tabulate_trajectories"),
    script:
        "../scripts/tables/tabulate_trajectories.py"


rule tabulate_setups:
    """Items and trainable parameters of each setup (mickus2024, Table 1)."""
    input:
        runs=run_files("json"),
        trajectories=run_files("parquet"),
    output:
        parquet="results/tables/mickus2024/table1.parquet",
        csv="results/tables/mickus2024/table1.csv",
        markdown="results/tables/mickus2024/table1.md",
        record="results/tables/mickus2024/table1.record.json",
    log:
        "results/logs/tables/mickus2024/table1.log",
    benchmark:
        "results/logs/tables/mickus2024/table1.jsonl"
    conda:
        "../envs/tables.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=table_spec("mickus2024/table1"),
        code=code("tabulate_setups"),
    script:
        "../scripts/tables/tabulate_setups.py"


rule tabulate_correlations:
    """IsoScore against silhouette: correlations per seed, mean, sd (mickus2024, section 3.2)."""
    input:
        trajectories="results/tables/mickus2024/trajectories.parquet",
    output:
        parquet="results/tables/mickus2024/correlations.parquet",
        csv="results/tables/mickus2024/correlations.csv",
        markdown="results/tables/mickus2024/correlations.md",
        record="results/tables/mickus2024/correlations.record.json",
    log:
        "results/logs/tables/mickus2024/correlations.log",
    benchmark:
        "results/logs/tables/mickus2024/correlations.jsonl"
    conda:
        "../envs/tables.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=table_spec("mickus2024/correlations"),
        code=code("tabulate_correlations"),
    script:
        "../scripts/tables/tabulate_correlations.py"
