"""Makes the canonical table of a data set of labelled sentences."""

from isotropy.job import Job
from isotropy.prepare.datasets import prepare_sentences
from isotropy.prepare.spec import SentencesSpec
from isotropy.prepare.table import write_dataset
from isotropy.provenance.record import Lineage
from isotropy.sources.fetched import fetched
from isotropy.sources.readers import read_rows

with Job(snakemake, SentencesSpec) as job:
    source = fetched(job.input["source"])
    table, dataset = prepare_sentences(job.spec, read_rows(source.content, job.input["source"]))
    if dataset.sampled:
        job.lineage.join(Lineage(status="stand-in", reasons=[f"a sample of {len(table)} of {job.spec.source}"]))
        job.seeds["sample"] = job.spec.sample.seed
    with job.write("dataset") as path:
        write_dataset(path, table, dataset)
