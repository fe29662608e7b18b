"""figures: drawn from tables alone. Needs: the tables that each figure's declaration in the paper's
figures.py names. Gives: results/figures/{paper}/{figure}.pdf, .svg and .png, and in .txt what it
shows. One job draws the figures of a paper.
"""

for paper in papers_with("figures"):

    rule:
        """The figures of one paper; each declaration names its section."""
        name:
            f"draw_figures_{paper}"
        input:
            batch_inputs(f"figures/{paper}"),
        output:
            pdf=results_of(f"figures/{paper}", ".pdf"),
            svg=reported(f"figures/{paper}", ".svg"),
            png=results_of(f"figures/{paper}", ".png"),
            note=results_of(f"figures/{paper}", ".txt"),
            record=results_of(f"figures/{paper}", ".record.json"),
        log:
            f"results/logs/figures/{paper}.log",
        localrule: True
        conda:
            "../envs/figures.yaml"
        threads: 1
        resources:
            mem_mb=1000,
            runtime=30,
        params:
            spec=batch_spec(f"figures/{paper}"),
            code=code(f"draw_figures_{paper}", package_module(paper, "figures")),
        script:
            "../scripts/figures/draw_figures.py"
