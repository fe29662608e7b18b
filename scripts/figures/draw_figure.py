"""Draws one figure from tables, as PDF, SVG and PNG, with a note on what it shows."""

import pandas as pd

from isotropy.figures.spec import FigureSpec
from isotropy.figures.style import note, save, use_style
from isotropy.job import Job

with Job(snakemake, FigureSpec) as job:
    use_style()
    draw = job.load("figures")
    figure = draw(*(pd.read_parquet(path) for path in job.inputs("tables")))
    for kind in ("pdf", "svg", "png"):
        with job.write(kind) as path:
            save(figure, path, job.mark)
    with job.write("note") as path:
        path.write_text(note(figure) + "\n", "utf8")
