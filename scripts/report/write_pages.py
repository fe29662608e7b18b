"""Writes the pages of the results; each spec names the module that makes the page."""

from replication.job import jobs
from replication.plan.page_spec import PageSpec
from replication.report.explore import explore_script
from replication.report.site import render

for job in jobs(snakemake, PageSpec):
    with job:
        page = job.load(job.spec.kind)
        folder = job.output["page"].parent
        content = page.content(job.spec, job.inputs, folder)
        scripts = getattr(page, "SCRIPTS", ())
        with job.write("page") as path:
            text = render(job.spec, content, folder, job.mark, scripts)
            path.write_text(text, "utf8")
        if "explore" in job.output:
            with job.write("explore") as path:
                path.write_text(explore_script(), "utf8")
        for name in {"markdown", "docs", "figures"} & set(job.output):
            mark = f"# {job.mark}" if name == "figures" else f"<!-- {job.mark} -->"
            with job.write(name) as path:
                path.write_text(f"{content['files'][name]}\n{mark}\n", "utf8")
