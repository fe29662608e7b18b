"""Makes the token vectors of a data set's texts: hidden states of the chosen layers of a model."""

import pandas as pd
import torch

from isotropy.device import pick_device
from isotropy.embed.sentences import SentenceEncoder
from isotropy.embed.spec import TokensSpec
from isotropy.embed.tokens import Extraction, extract
from isotropy.job import Job

with Job(snakemake, TokensSpec, aids=("shards",)) as job:
    spec, shards = job.spec, job.inputs("shards")
    # What shards have computed is only put together.
    device = torch.device("cpu") if shards else pick_device(spec.device)
    job.determinism = "tolerance" if device.type != "cpu" or job.aided_within_tolerance else "bitwise"
    encoder = SentenceEncoder(job.input["model"], spec.encoder, device, getattr(torch, spec.dtype))
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    how = spec.model_dump(include={"layers", "window", "token_budget"})
    with job.write("tokens") as folder:
        folder.mkdir()
        job.measurements = extract(
            Extraction(encoder, texts, **how),
            workers=job.threads,
            work=job.work / device.type,
            folder=folder,
            mark=job.mark,
            shards=shards,
        )
