"""report: pages that lead to everything. Needs: all figures, tables and verdicts. Gives:
results/index.html, results/site/{page}.html; results/site/run.json, run.lineage.json and
run.graph.js, which say what was done when, where and from what."""


localrules:
    summarize_run,
    write_page,
    write_overview,


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


rule write_page:
    """A page for each paper, all claims, the sources, and how the run went."""
    input:
        unpack(inputs("site/{page}")),
    output:
        page="results/site/{page}.html",
        record="results/site/{page}.record.json",
    log:
        "results/logs/report/{page}.log",
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("site/{page}"),
        code=code("write_page", page_module),
    script:
        "../scripts/report/write_page.py"


rule write_overview:
    """The first page: what the papers say, what was found, and where to read on."""
    input:
        unpack(inputs("index")),
    output:
        page="results/index.html",
        record="results/index.record.json",
    log:
        "results/logs/report/index.log",
    conda:
        "../envs/report.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("index"),
        code=code("write_overview", page_module),
    script:
        "../scripts/report/write_page.py"
