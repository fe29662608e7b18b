"""report: the results page. Needs: all figures, tables and verdicts. Gives: results/index.html."""


rule write_page:
    """One page with every figure and table, and the way to its numbers, code and record."""
    input:
        results=inputs("index", "results"),
    output:
        page="results/index.html",
        record="results/index.record.json",
    log:
        "results/logs/report/index.log",
    benchmark:
        "results/logs/report/index.jsonl"
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("index"),
        code=code("write_page"),
    script:
        "../scripts/report/write_page.py"
