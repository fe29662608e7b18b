"""tables: numbers in the papers' shapes, published values beside ours. Needs: what the table's
entry in the paper's catalogue.py names. Gives: results/tables/{paper}/{table}.parquet, .csv and
.md."""


rule make_table:
    """One table of the catalogue; its entry names the paper's section."""
    input:
        unpack(inputs("tables/{paper}/{table}")),
    output:
        parquet="results/tables/{paper}/{table}.parquet",
        csv=in_report("tables/{paper}/{table}", ".csv"),
        markdown="results/tables/{paper}/{table}.md",
        record="results/tables/{paper}/{table}.record.json",
    log:
        "results/logs/tables/{paper}/{table}.log",
    conda:
        "../envs/tables.yaml"
    threads: 1
    resources:
        mem_mb=2500,  # the answers of all models at full scale
        runtime=30,
    params:
        spec=spec("tables/{paper}/{table}"),
        code=code("make_table", table_function),
    script:
        "../scripts/tables/make_table.py"
