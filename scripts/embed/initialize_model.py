"""Makes a model with random weights, of the same architecture as another."""

from isotropy.embed.initialize import initialize
from isotropy.embed.spec import InitializeSpec
from isotropy.files import write_json
from isotropy.job import Job
from isotropy.provenance.lineage import Lineage
from isotropy.sources.fetched import FACTS, FetchedSource

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
    # Nothing of the other model's weights is left, so that its source is none of this one's.
    job.lineage = Lineage(status="stand-in", reasons=[content.title], sources=[source])
