"""figures: drawn from tables alone. Needs: the tables that the figure's entry in
the paper's catalogue.py names. Gives: results/figures/{paper}/{figure}.pdf, .svg and .png, and
in .txt what it shows.
"""


rule draw_figure:
    """One figure of the catalogue; its entry names the paper's section."""
    input:
        tables=inputs("figures/{paper}/{figure}", "tables"),
    output:
        pdf="results/figures/{paper}/{figure}.pdf",
        svg=in_report("figures/{paper}/{figure}", ".svg"),
        png="results/figures/{paper}/{figure}.png",
        note="results/figures/{paper}/{figure}.txt",
        record="results/figures/{paper}/{figure}.record.json",
    log:
        "results/logs/figures/{paper}/{figure}.log",
    conda:
        "../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=1000,
        runtime=30,
    params:
        spec=spec("figures/{paper}/{figure}"),
        code=code("draw_figure", figure_function),
    script:
        "../scripts/figures/draw_figure.py"
