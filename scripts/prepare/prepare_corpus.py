"""Makes the table of the lines of a corpus."""

from isotropy.job import Job
from isotropy.parquet import write_parquet
from isotropy.prepare.datasets import prepare_corpus
from isotropy.prepare.spec import CorpusSpec
from isotropy.sources.fetched import read_fetched
from isotropy.sources.formats import read_rows

with Job(snakemake, CorpusSpec) as job:
    source = job.input["source"]
    lines = prepare_corpus(job.spec, read_rows(read_fetched(source).content, source))
    if job.spec.blocks is not None:
        reason = f"{len(lines)} lines of {job.spec.source}, in blocks"
        job.lineage.deviate([reason])
        job.seeds["blocks"] = job.spec.blocks.seed
    with job.write("texts") as path:
        write_parquet(path, lines, job.mark)
