"""Makes the embeddings of a data set's words: rows of a table of static vectors."""

from safetensors.numpy import save_file

from isotropy.embed.spec import LookUpSpec
from isotropy.embed.words import look_up
from isotropy.job import Job
from isotropy.prepare.table import read_dataset
from isotropy.sources.fetched import fetched
from isotropy.sources.readers import read_vectors

with Job(snakemake, LookUpSpec) as job:
    table, _ = read_dataset(job.input["dataset"])
    source = job.input["vectors_source"]
    vectors = look_up(read_vectors(fetched(source).content, source), list(table["text"]))
    with job.write("vectors") as path:
        save_file({"vectors": vectors}, path)
