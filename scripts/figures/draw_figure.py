"""Draws one figure from tables, as PDF, SVG and PNG, with a note on what it shows."""

import isotropy.forkserver

import pandas as pd

from isotropy.figures.spec import FigureSpec
from isotropy.figures.style import banner, note, save, use_style
from isotropy.job import Job
from isotropy.palette import REHEARSAL

with Job(snakemake, FigureSpec) as job:
    use_style()
    draw = job.load("figures")
    figure = draw(*(pd.read_parquet(path) for path in job.inputs("tables")))
    if job.lineage.status == "rehearsal":
        banner(figure, REHEARSAL)
    for kind in ("pdf", "svg", "png"):
        with job.write(kind) as path:
            save(figure, path, job.mark)
    with job.write("note") as path:
        path.write_text(note(figure) + "\n", "utf8")
