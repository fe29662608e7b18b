"""Draws one figure from tables, as PDF, SVG and PNG."""

import pandas as pd

from isotropy.figures.spec import FigureSpec
from isotropy.figures.style import save, use_style
from isotropy.job import Job
from isotropy.papers.locations import package

with Job(snakemake, FigureSpec) as job:
    use_style()
    paper = job.spec.id.split("/")[0]
    draw = job.load(f"{package(paper)}.figures:{job.spec.function}")
    figure = draw(*(pd.read_parquet(path) for path in job.inputs("tables")))
    for kind in ("pdf", "svg", "png"):
        with job.write(kind) as path:
            save(figure, path, job.mark)
