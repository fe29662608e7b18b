"""fetch: sources of the registry, verified. Needs: a network, a mirror folder, or neither if
fetched before. Gives: results/fetch/{source}/, its files and source.json, which says what came and
from where."""


rule fetch_source:
    """Fetch a source from the first of its origins that can be reached."""
    output:
        source=directory("results/fetch/{source}"),
        record="results/fetch/{source}.record.json",
    log:
        "results/logs/fetch/{source}.log",
    wildcard_constraints:
        source=alternatives(FETCHED),
    priority: FIRST
    conda:
        "../envs/fetch.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=60,
    params:
        spec=spec("fetch/{source}"),
        code=code("fetch_source", readers),
    script:
        "../scripts/fetch/fetch_source.py"
