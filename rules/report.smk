"""report: pages that lead to everything. Needs: all figures, tables and verdicts. Gives:
results/index.html, results/site/{page}.html; results/site/run.json, run.lineage.json and
run.graph.js, which say what was done when, where and from what."""


rule summarize_run:
    """All jobs behind the results, and the state of every file that they wrote."""
    input:
        results=inputs("site/run", "results"),
    output:
        run="results/site/run.json",
        lineage="results/site/run.lineage.json",
        graph="results/site/run.graph.js",
        record="results/site/run.record.json",
    log:
        "results/logs/report/run.log",
    localrule: True
    conda:
        "../envs/report.yaml"
    threads: 2
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        spec=spec("site/run"),
        code=code("summarize_run"),
    script:
        "../scripts/report/summarize_run.py"


rule write_pages:
    """The first page, a page for each paper, all claims, the sources, and how the run went."""
    input:
        batch_inputs("site"),
    output:
        page=results_of("site", ".html"),
        record=results_of("site", ".record.json"),
    log:
        "results/logs/report/pages.log",
    localrule: True
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=batch_spec("site"),
        code=code("write_pages", page_modules),
    script:
        "../scripts/report/write_pages.py"
