"""Fetches the files of a source into a folder, from the first available origin, and verifies
them.
"""

from isotropy.files import write_json
from replication.job import Job
from replication.provenance.lineage import Lineage
from replication.sources.fetch import FetchSpec, fetch
from replication.sources.spec import FACTS

with Job(snakemake, FetchSpec) as job, job.write("source") as folder:
    folder.mkdir()
    source, job.measurements["origins_not_used"] = fetch(job.spec, job.work, folder)
    write_json(folder / FACTS, source.model_dump(mode="json"))
    reasons = [source.content.title] if source.status == "stand-in" else []
    job.lineage.merge(
        Lineage(status=source.status, reasons=reasons, sources=[source.model_dump(mode="json")])
    )
