"""figures: drawn from tables only. Needs: the tables that each figure declares in figures.py of its
paper. Gives: results/figures/{paper}/{figure}.pdf, .svg and .png, and a description in .txt;
.js for those that readers can explore. One job draws all figures of a paper.
"""

for paper in PLAN.papers_with("figures"):

    rule:
        """The figures of one paper; each declaration names its section."""
        name:
            f"draw_figures_{paper}"
        input:
            batch_inputs(f"figures/{paper}"),
        output:
            **PLAN.text_files(f"figures/{paper}"),
            pdf=PLAN.files(f"figures/{paper}", ".pdf"),
            svg=report_outputs(f"figures/{paper}", ".svg"),
            png=PLAN.files(f"figures/{paper}", ".png"),
            record=PLAN.files(f"figures/{paper}", ".record.json"),
        log:
            f"results/logs/figures/{paper}.log",
        localrule: True
        conda:
            "../envs/data.yaml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=30,
        params:
            spec=batch_spec(f"figures/{paper}"),
            code=code(f"draw_figures_{paper}", f"figures/{paper}"),
        script:
            "../scripts/figures/draw_figures.py"
