"""Makes the token vectors of a data set's texts: hidden states of the chosen layers of a model."""

import pandas as pd
import torch

from isotropy.device import pick_device
from isotropy.embed.sentences import SentenceEncoder
from isotropy.embed.spec import TokensSpec
from isotropy.embed.tokens import extract
from isotropy.job import Job

with Job(snakemake, TokensSpec) as job:
    texts = list(pd.read_parquet(job.input["texts"])["text"])
    device = pick_device(job.spec.device)
    job.determinism = "bitwise" if device.type == "cpu" else "tolerance"
    encoder = SentenceEncoder(job.input["model"], job.spec.encoder, device, getattr(torch, job.spec.dtype))
    with job.write("tokens") as folder:
        folder.mkdir()
        job.measurements = extract(
            encoder,
            texts,
            layers=job.spec.layers,
            token_budget=job.spec.token_budget,
            workers=job.threads,
            work=job.work / device.type,
            folder=folder,
            mark=job.mark,
        )
