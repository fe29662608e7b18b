"""Makes a model with the architecture of another one and random weights."""

from isotropy.files import write_json
from replication.embed.initialize import initialize
from replication.embed.spec import InitializeSpec
from replication.job import Job
from replication.provenance.lineage import Lineage
from replication.sources.spec import FACTS, FetchedSource

with Job(snakemake, InitializeSpec) as job, job.write("source") as folder:
    folder.mkdir()
    initialize(job.input["like"], job.spec.origin.seed, folder)
    content = job.spec.source.contents[job.spec.origin.content]
    source = FetchedSource(
        id=job.spec.id,
        kind="model",
        status=content.status,
        content=content,
        origin=job.spec.origin.describe(),
        licence=job.spec.source.licence,
        citation=job.spec.source.citation,
    ).model_dump(mode="json")
    write_json(folder / FACTS, source)
    # The other model's weights are not used, so its source is not part of the lineage.
    job.lineage = Lineage(status="stand-in", reasons=[content.title], sources=[source])
