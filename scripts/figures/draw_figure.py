"""Draws one figure from tables, as PDF, SVG and PNG."""

from importlib import import_module

import pandas as pd

from isotropy.figures.catalogue import FigureSpec
from isotropy.figures.style import save, use_style
from isotropy.job import Job

with Job(snakemake, FigureSpec) as job:
    use_style()
    paper = job.spec.id.split("/")[0]
    draw = getattr(import_module(f"isotropy.figures.{paper}"), job.spec.function)
    figure = draw(*(pd.read_parquet(path) for path in job.inputs("tables")))
    for kind in ("pdf", "svg", "png"):
        with job.write(kind) as path:
            save(figure, path, job.mark)
