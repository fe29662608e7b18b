"""Draws the figures of a paper from tables, each as PDF, SVG and PNG, with a note on what it
shows; those that readers can explore also as a script with their points.
"""

import pandas as pd

from replication.figures.draw import finish, note
from replication.figures.interactive import values_script
from replication.figures.spec import FigureSpec
from replication.figures.style import save, use_style
from replication.job import jobs

for job in jobs(snakemake, FigureSpec):
    with job:
        use_style()
        draw = getattr(job.load("figures"), job.spec.function)
        tables = [pd.read_parquet(path) for path in job.inputs("tables")]
        figure = draw(*tables)
        finish(figure)
        for kind in ("pdf", "svg", "png"):
            with job.write(kind) as path:
                save(figure, path, job.mark)
        with job.write("note") as path:
            path.write_text(note(figure) + "\n", "utf8")
        if job.spec.explore:
            with job.write("values") as path:
                path.write_text(values_script(job.spec.id, figure), "utf8")
