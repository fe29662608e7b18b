"""Makes the canonical tables of a data set of labelled sentences: distinct texts, and items."""

from replication.job import Job
from replication.parquet import write_parquet
from replication.prepare.datasets import prepare_sentences
from replication.prepare.spec import SentencesSpec
from replication.prepare.table import write_items
from replication.sources.formats import read_rows
from replication.sources.spec import read_fetched

with Job(snakemake, SentencesSpec) as job:
    source = read_fetched(job.input["source"])
    texts, items, dataset = prepare_sentences(
        job.spec, read_rows(source.content, job.input["source"])
    )
    if dataset.sampled:
        job.lineage.deviate([f"{len(items):,} items drawn from {job.spec.source}"])
    for name, choice in {"sample": job.spec.sample, "split": job.spec.split}.items():
        if choice is not None:
            job.seeds[name] = choice.seed
    with job.write("texts") as path:
        write_parquet(path, texts, job.mark)
    with job.write("dataset") as path:
        write_items(path, items, dataset, job.mark)
