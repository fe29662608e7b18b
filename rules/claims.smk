"""claims: a verdict on every claim of the papers. Needs: all tables, and claims.yaml of each paper.
Gives: results/claims.parquet, .csv and .md; results/scorecard.parquet, .csv and .md, by model.
"""


rule evaluate_claims:
    """Compare every claim with our number: reproduced, deviates or contradicted; for stand-ins,
    consistent or inconsistent."""
    input:
        tables=PLAN.table_files(),
    output:
        parquet="results/claims.parquet",
        csv=report("results/claims.csv", caption="captions.rst", category="claims"),
        markdown="results/claims.md",
        record="results/claims.record.json",
    log:
        "results/logs/claims/claims.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("claims"),
        code=code("evaluate_claims"),
    script:
        "../scripts/claims/evaluate_claims.py"


rule make_scorecard:
    """Evaluate every statement for each model, as if the study had only that model."""
    input:
        tables=PLAN.table_files(),
    output:
        parquet="results/scorecard.parquet",
        csv="results/scorecard.csv",
        markdown="results/scorecard.md",
        record="results/scorecard.record.json",
    log:
        "results/logs/claims/scorecard.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("scorecard"),
        code=code("make_scorecard"),
    script:
        "../scripts/claims/make_scorecard.py"
