"""Makes the canonical tables of a data set of words with labels from a lexicon."""

from replication.job import Job
from replication.parquet import write_parquet
from replication.prepare.datasets import prepare_words
from replication.prepare.spec import WordsSpec
from replication.prepare.table import write_items
from replication.sources.formats import label_names, read_rows, read_vectors
from replication.sources.spec import read_fetched

with Job(snakemake, WordsSpec) as job:
    lexicon, vectors, lists = job.input["lexicon"], job.input["vectors"], job.inputs("word_list")
    content = read_fetched(lexicon).content
    texts, items, dataset = prepare_words(
        job.spec,
        read_rows(content, lexicon),
        label_names(content),
        read_vectors(read_fetched(vectors).content, vectors),
        read_rows(read_fetched(lists[0]).content, lists[0]) if lists else None,
    )
    if job.spec.n_items is not None:
        job.lineage.deviate(["words chosen by frequency, not from the authors' list"])
    with job.write("texts") as path:
        write_parquet(path, texts, job.mark)
    with job.write("dataset") as path:
        write_items(path, items, dataset, job.mark)
