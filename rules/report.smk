"""report: web pages with all results. Needs: all figures, tables and verdicts. Gives:
results/index.html, results/site/{page}.html, {paper}-report.md, {paper}.docs.md, {paper}.figures.txt (the
code of its figures); results/index.explore.js, which
draws interactive figures; results/site/run.json, run.lineage.json and run.graph.js, which describe
all jobs: time, machine and inputs."""


rule summarize_run:
    """Summary of all jobs that made the results, and the state of every file that they wrote."""
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
        "../envs/data.yaml"
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
    """The start page, and pages on each paper, the claims, the sources and the run."""
    input:
        batch_inputs("site"),
    output:
        page=PLAN.files("site", ".html"),
        explore="results/index.explore.js",
        markdown=PLAN.page_files("report", ".md"),
        docs=PLAN.page_files("paper", ".docs.md"),
        figures=PLAN.page_files("paper", ".figures.txt"),
        record=PLAN.files("site", ".record.json"),
    log:
        "results/logs/report/pages.log",
    localrule: True
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=batch_spec("site"),
        code=code("write_pages", "site"),
    script:
        "../scripts/report/write_pages.py"
