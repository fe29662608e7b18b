"""Derives static word vectors from layers of a model and compares them on word similarity."""

from replication.geometry.sentences import read_sentences
from replication.geometry.spec import StaticWordsFacts, StaticWordsSpec
from replication.geometry.static_words import measure_layers, read_benchmark
from replication.job import Job
from replication.parquet import write_parquet
from replication.provenance.lineage import titles_by_id
from replication.sources.formats import read_vectors
from replication.sources.spec import read_fetched

with Job(snakemake, StaticWordsSpec) as job:
    spec = job.spec
    folders = job.inputs("tokens")
    sentences = read_sentences(folders, job.inputs("texts"))
    files = zip(spec.vectors, job.inputs("vectors_source"), strict=True)
    tables = {name: read_vectors(read_fetched(file).content, file) for name, file in files}
    files = zip(job.inputs("benchmark_items"), job.inputs("benchmark_texts"), strict=True)
    benchmarks = {
        name: read_benchmark(*paths) for name, paths in zip(spec.benchmarks, files, strict=True)
    }
    pairs = measure_layers(sentences, folders, spec, tables, benchmarks)
    with job.write("rows") as path:
        write_parquet(path, pairs, job.mark)
    job.lineage.deviate(spec.deviations)
    facts = StaticWordsFacts.of(
        spec,
        job.lineage,
        embedding=spec.model,
        data="; ".join(job.lineage.titles("dataset", "corpus")),
        model=job.lineage.titles("model")[0],
        vector_titles=titles_by_id(s for s in job.lineage.sources if s["id"] in spec.vectors),
    )
    with job.write("run") as path:
        facts.write(path)
