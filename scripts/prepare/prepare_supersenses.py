"""Makes the canonical table of words with their WordNet noun supersenses."""

from isotropy.job import Job
from isotropy.prepare.datasets import prepare_supersenses
from isotropy.prepare.spec import SupersensesSpec
from isotropy.prepare.table import write_dataset
from isotropy.provenance.record import Lineage
from isotropy.sources.fetched import fetched
from isotropy.sources.readers import read_rows, read_vectors

with Job(snakemake, SupersensesSpec) as job:
    lexicon, vectors = job.input["lexicon"], job.input["vectors"]
    table, dataset = prepare_supersenses(
        job.spec, read_rows(fetched(lexicon).content, lexicon), read_vectors(fetched(vectors).content, vectors)
    )
    job.lineage.join(Lineage(status="stand-in", reasons=["words chosen by frequency, not from the authors' list"]))
    with job.write("dataset") as path:
        write_dataset(path, table, dataset)
