"""Measures the contextuality of words, sentences and dimensions in one layer of a model."""

from replication.geometry.contexts import measure_contexts
from replication.geometry.sentences import read_sentences, read_token_vectors
from replication.geometry.spec import ContextsFacts, ContextsSpec
from replication.job import Job
from replication.parquet import write_parquet

with Job(snakemake, ContextsSpec) as job:
    spec = job.spec
    job.seeds = {"draws": spec.seed}
    folders = job.inputs("tokens")
    sentences = read_sentences(folders, job.inputs("texts"))
    layer = measure_contexts(sentences, read_token_vectors(sentences, folders, spec.layer), spec)
    for name in ("rows", "words", "dimensions"):
        with job.write(name) as path:
            write_parquet(path, getattr(layer, name), job.mark)
    job.lineage.deviate(spec.deviations)
    facts = ContextsFacts.of(
        spec,
        job.lineage,
        embedding=spec.model,
        data="; ".join(job.lineage.titles("dataset", "corpus")),
        model=job.lineage.titles("model")[0],
        main_unit=spec.unit,
        d=layer.d,
    )
    with job.write("run") as path:
        facts.write(path)
