"""tables: results in the layout of the papers' tables, with published values beside ours. Needs:
the inputs that each table declares in tables.py of its paper. Gives:
results/tables/{paper}/{table}.parquet, .csv and .md. One job makes all tables of a paper: each
takes less time than starting a job."""

for paper in PLAN.papers_with("tables"):

    rule:
        """The tables of one paper; each declaration names its section."""
        name:
            f"make_tables_{paper}"
        input:
            batch_inputs(f"tables/{paper}"),
        output:
            parquet=PLAN.files(f"tables/{paper}", ".parquet"),
            csv=report_outputs(f"tables/{paper}", ".csv"),
            markdown=PLAN.files(f"tables/{paper}", ".md"),
            record=PLAN.files(f"tables/{paper}", ".record.json"),
        log:
            f"results/logs/tables/{paper}.log",
        localrule: True
        conda:
            "../envs/torch.yaml"
        threads: 1
        resources:
            mem_mb=2500,  # for the predictions of all models in the full study
            runtime=30,
        params:
            spec=batch_spec(f"tables/{paper}"),
            code=code(f"make_tables_{paper}", f"tables/{paper}"),
        script:
            "../scripts/tables/make_tables.py"
