"""Makes the table of the lines of a corpus."""

from replication.job import Job
from replication.parquet import write_parquet
from replication.prepare.datasets import prepare_corpus
from replication.prepare.spec import CorpusSpec
from replication.sources.formats import read_rows
from replication.sources.spec import read_fetched

with Job(snakemake, CorpusSpec) as job:
    source = job.input["source"]
    lines = prepare_corpus(job.spec, read_rows(read_fetched(source).content, source))
    if job.spec.blocks is not None:
        reason = f"{len(lines):,} lines of {job.spec.source}, drawn in blocks"
        job.lineage.deviate([reason])
        job.seeds["blocks"] = job.spec.blocks.seed
    with job.write("texts") as path:
        write_parquet(path, lines, job.mark)
