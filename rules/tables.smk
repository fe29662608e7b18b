"""tables: numbers in the papers' shapes, published values beside ours. Needs: what each table's
declaration in the paper's tables.py names. Gives: results/tables/{paper}/{table}.parquet, .csv and
.md. One job makes the tables of a paper: each takes less time than starting a job.
"""

for paper in papers_with("tables"):

    rule:
        """The tables of one paper; each declaration names its section."""
        name:
            f"make_tables_{paper}"
        input:
            batch_inputs(f"tables/{paper}"),
        output:
            parquet=results_of(f"tables/{paper}", ".parquet"),
            csv=reported(f"tables/{paper}", ".csv"),
            markdown=results_of(f"tables/{paper}", ".md"),
            record=results_of(f"tables/{paper}", ".record.json"),
        log:
            f"results/logs/tables/{paper}.log",
        localrule: True
        conda:
            "../envs/tables.yaml"
        threads: 1
        resources:
            mem_mb=2500,  # the answers of all models at full scale
            runtime=30,
        params:
            spec=batch_spec(f"tables/{paper}"),
            code=code(f"make_tables_{paper}", package_module(paper, "tables")),
        script:
            "../scripts/tables/make_tables.py"
