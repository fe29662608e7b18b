"""Writes one page of the results; its spec names the module that makes it."""

import isotropy.forkserver

from isotropy.job import Job
from isotropy.report.site import render
from isotropy.report.spec import PageSpec

with Job(snakemake, PageSpec) as job:
    page = job.load(job.spec.kind)
    folder = job.output["page"].parent
    content = page.content(job.spec, job.inputs, folder)
    scripts = getattr(page, "SCRIPTS", ())
    with job.write("page") as path:
        text = render(job.spec, content, folder, job.mark, scripts, job.lineage.status)
        path.write_text(text, "utf8")
