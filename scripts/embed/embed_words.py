"""Looks up the words of a data set in a table of static vectors."""

import pandas as pd
from safetensors.numpy import save_file

from replication.embed.spec import LookUpSpec
from replication.embed.words import look_up
from replication.job import Job
from replication.sources.formats import read_vectors
from replication.sources.spec import read_fetched

with Job(snakemake, LookUpSpec) as job:
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    source = job.input["vectors_source"]
    vectors = look_up(read_vectors(read_fetched(source).content, source), texts)
    with job.write("vectors") as path:
        save_file({"vectors": vectors}, path, metadata={"record": job.mark})
