"""fetch: verified sources of the registry. Needs: network access or a mirror folder, or neither if
already fetched. Gives: results/fetch/{source}/ with the files and source.json, which describes
their content and origin."""


rule fetch_source:
    """Fetch a source from the first of its origins that is available."""
    output:
        source=directory("results/fetch/{source}"),
        record="results/fetch/{source}.record.json",
    log:
        "results/logs/fetch/{source}.log",
    wildcard_constraints:
        source=alternatives(FETCHED),
    priority: UPSTREAM_PRIORITY
    conda:
        "../envs/data.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
        places=places("fetch/{source}"),
    params:
        spec=spec("fetch/{source}"),
        code=code("fetch_source", "fetch/{source}"),
    script:
        "../scripts/fetch/fetch_source.py"
