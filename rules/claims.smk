"""claims: a verdict on every claim of the papers. Needs: all tables; claims.yaml in their folders.
Gives: results/claims.parquet, .csv and .md."""


rule evaluate_claims:
    """Every claim against our number: reproduced, deviates, contradicted; consistent or not for
    stand-ins."""
    input:
        tables=PLAN.table_files(),
    output:
        parquet="results/claims.parquet",
        csv=in_report("claims", ".csv"),
        markdown="results/claims.md",
        record="results/claims.record.json",
    log:
        "results/logs/claims/claims.log",
    benchmark:
        "results/logs/claims/claims.jsonl"
    conda:
        "../envs/claims.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("claims"),
        code=code("evaluate_claims"),
    script:
        "../scripts/claims/evaluate_claims.py"
