"""Writes the results page: every figure and table with its caption, status, numbers, code and
record.
"""

from isotropy.job import Job
from isotropy.report.page import render
from isotropy.report.spec import PageSpec

with Job(snakemake, PageSpec) as job, job.write("page") as path:
    path.write_text(
        render(job.spec, job.inputs("results"), job.output["page"].parent, job.mark), "utf8"
    )
